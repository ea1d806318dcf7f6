package nodes

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// Shell replaces this process with a shell on the node.
func (n *Node) Shell() error {
	pid, err := n.PID()
	if err != nil {
		return err
	}
	env := []string{nodePath, "HOME=/root", "LANG=C.UTF-8", "TERM=" + os.Getenv("TERM"),
		"KUBECONFIG=/etc/kubernetes/admin.conf"}
	return execProgram(env, "nsenter", "--target", strconv.Itoa(pid), "--all", "--", "bash",
		"--login")
}

// Kubeconfig is the path of a copy of admin.conf, for use from outside the nodes.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "admin.conf") }

// Kubectl replaces this process with the bundle's kubectl, in the cluster's network, with
// Kubeconfig.
func (c *Cluster) Kubectl(args ...string) error {
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return errors.New("cluster " + c.name +
			" has no admin.conf yet: kubeadm init has not finished there")
	}
	kubectl := filepath.Join(c.record.Bundle, "bin/kubectl")
	env := append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(),
		"KUBECACHEDIR="+filepath.Join(c.dir, "kubectl"))
	return execProgram(env,
		append([]string{"nsenter", "--net=" + c.switchFile(), "--", kubectl}, args...)...)
}

func execProgram(env []string, args ...string) error {
	program, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, args, env)
}
