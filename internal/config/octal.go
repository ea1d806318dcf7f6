package config

import (
	"fmt"
	"regexp"
	"strconv"
)

// octalForm is a field whose value is a number with a leading zero, which YAML 1.1 reads as octal.
var octalForm = regexp.MustCompile(
	`(?m)(?:^|[\s{,-])([A-Za-z]+):[ \t]+(0[0-7]+)[ \t]*(?:#.*|[,}].*)?\r?$`)

// octals warns of numbers that are smaller than they look.
func octals(data []byte) (warnings []string) {
	for _, m := range octalForm.FindAllSubmatch(data, -1) {
		if n, err := strconv.ParseInt(string(m[2]), 8, 64); err == nil && n > 7 {
			warnings = append(warnings, fmt.Sprintf("%s %s is an octal number, which is %d: "+
				"write it without the leading zero, or in quotes if it is text", m[1], m[2], n))
		}
	}
	return warnings
}
