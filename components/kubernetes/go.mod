// Marks the root of the module only. Nothing is required here: the builder names the module file
// of one Kubernetes minor with -modfile, for example v1.37.mod.
module kubeadm/components/kubernetes

go 1.26.0
