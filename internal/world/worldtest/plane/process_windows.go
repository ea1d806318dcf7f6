package plane

import "syscall"

// endWithParent changes nothing: there are no components for Windows.
func endWithParent() *syscall.SysProcAttr { return nil }
