// Package neterror recognizes errors of connections, on Linux and Windows.
package neterror

import (
	"errors"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Codes of Windows Sockets (Windows Sockets Error Codes, winsock2.h). Package syscall has other
// values under their names of POSIX, which no call of Windows returns.
const (
	wsaConnectionAborted = syscall.Errno(10053)
	wsaConnectionReset   = syscall.Errno(10054)
	wsaConnectionRefused = syscall.Errno(10061)
)

// IsConnectionRefused reports whether a connection failed because nothing listens at the address.
func IsConnectionRefused(err error) bool {
	return utilnet.IsConnectionRefused(err) || errors.Is(err, wsaConnectionRefused)
}

// IsConnectionReset reports whether the other side has broken off a connection.
func IsConnectionReset(err error) bool {
	return utilnet.IsConnectionReset(err) || errors.Is(err, wsaConnectionReset) ||
		errors.Is(err, wsaConnectionAborted)
}
