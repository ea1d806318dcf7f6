package plane

import "syscall"

// endWithParent makes the kernel kill a program when this process ends.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
