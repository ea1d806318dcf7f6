package real

import "kubeadm/internal/world/windows"

// machine is the machine that this process runs on.
type machine = windows.Machine
