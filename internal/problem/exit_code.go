package problem

import "errors"

// ExitFound is the exit code of a command that was asked whether there is something, and has found it: the doctor an error,
// "certs check-expiration" a certificate that expires soon, "reconfigure plan" a difference.
const ExitFound = 2

// ExitCode is the exit code of a program that ends with err: 1, unless a Problem in its chain has
// another one.
func ExitCode(err error) int {
	var p *Problem
	for ; errors.As(err, &p); err = p.Err {
		if p.Code != 0 {
			return p.Code
		}
	}
	return 1
}
