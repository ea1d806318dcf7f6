# Runs the command after $1 on the simulated machine of that name, with a simulated kubelet beside it. The machine has its
# own host name, network, /run, /etc/kubernetes, /var/lib/kubelet and logs. It has no init system, so kubeadm does not start the
# kubelet: this script does.
set -eu

if [ "$(hostname)" != "$1" ]; then
	exec nsenter --net="/run/netns/$1" unshare --mount --uts sh -c 'hostname "$1" && exec sh "$0" "$@"' "$0" "$@"
fi
echo 1 >/proc/sys/net/ipv4/ip_forward
mount -t tmpfs machine /etc/kubernetes
mount -t tmpfs machine /var/lib/kubelet
mount --bind /run/containerd /mnt
mount -t tmpfs machine /run
mkdir /run/containerd
mount --move /mnt /run/containerd
mkdir -p "/var/machines/$1" /var/log/kubeadm
mount --bind "/var/machines/$1" /var/log/kubeadm
mount --bind /dev/null /usr/bin/systemctl
mount --bind /var/machines/hosts /etc/hosts
mount --bind /usr/local/bin/kubelet-bootstrap /usr/bin/kubelet

# The kubelet repeats a registration that fails; the simulated one exits, and is started again. An answer that was lost on
# the way leaves a Node, which is registered.
#
# A kubelet that waits costs CPU time, since it polls often. With hundreds of machines that wait for each other it is
# started when it has its configuration.
LOG=/var/machines/$1.log NODE=$1 timeout 1800 bash -c '
	if [ "${KUBELET_STARTS_LATER-}" ]; then
		mkfifo /run/never && exec 3<>/run/never
		until [ -s /var/lib/kubelet/config.yaml ]; do read -rt 0.5 -u 3; done
		exec 3<&-
	fi
	until kubelet || grep --quiet "nodes .*$NODE.* already exists" "$LOG"; do sleep 1; done
' </dev/null >"/var/machines/$1.log" 2>&1 &
shift
exec "$@"
