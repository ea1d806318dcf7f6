package real

import "kubeadm/internal/world/linux"

// machine is the machine that this process runs on.
type machine = linux.Machine
