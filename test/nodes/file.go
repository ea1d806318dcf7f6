package nodes

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// withDisk calls do with the node's file system as the node's processes see it. Symbolic links
// cannot leave it.
func (n *Node) withDisk(do func(*os.Root) error) error {
	pid, err := n.PID()
	if err != nil {
		return err
	}
	disk, err := os.OpenRoot(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return err
	}
	defer disk.Close()
	if err := do(disk); err != nil {
		return fmt.Errorf("on %s: %w", n.name, err)
	}
	return nil
}

// ReadFile reads a file of a running node; name is absolute.
func (n *Node) ReadFile(name string) (data []byte, err error) {
	err = n.withDisk(func(disk *os.Root) error {
		data, err = disk.ReadFile(relativeName(name))
		return err
	})
	return data, err
}

// WriteFile writes a file of a running node, with its directories; name is absolute. A running
// program can be replaced.
func (n *Node) WriteFile(name string, data []byte, mode fs.FileMode) error {
	return n.writeFrom(name, strings.NewReader(string(data)), mode)
}

// Copy copies a file of this machine to a running node; name is absolute.
func (n *Node) Copy(from, name string, mode fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return n.writeFrom(name, f, mode)
}

func (n *Node) writeFrom(name string, data io.Reader, mode fs.FileMode) error {
	name = relativeName(name)
	return n.withDisk(func(disk *os.Root) error {
		if err := disk.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		// The kubelet reads all files in the manifest directory except hidden ones.
		temporary := path.Join(path.Dir(name), "."+path.Base(name)+".new")
		// A process that is forked meanwhile would keep the file open for writing until it executes its
		// own program, and a program that is open for writing cannot be executed (ETXTBSY).
		if mode&0o111 != 0 {
			syscall.ForkLock.RLock()
			defer syscall.ForkLock.RUnlock()
		}
		f, err := disk.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(f, data); err != nil {
			return err
		}
		if err := f.Chmod(mode); err != nil {
			return err
		}
		return disk.Rename(temporary, name)
	})
}

func relativeName(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
