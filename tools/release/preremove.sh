#!/bin/sh
# Nothing of a cluster is removed. dpkg calls this with "remove" or "upgrade", rpm with the number
# of versions that remain.
set -e
case "$1" in
remove | 0)
	if [ -e /etc/kubernetes/kubelet.conf ]; then
		echo "kubeadm: this machine is still a node of a cluster. Its kubelet keeps running, but cannot" >&2
		echo "kubeadm: start again without this package: run \"kubeadm reset\" before you remove it." >&2
	fi
	;;
esac
