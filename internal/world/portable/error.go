package portable

import (
	"errors"
	"syscall"
)

// IsSystemError reports whether the operating system has refused something: what was read is not to blame.
func IsSystemError(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}
