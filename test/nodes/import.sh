# Loads image archives into a containerd directory, in mount, network and process namespaces of its own.
#
# LOWER    read-only layers of the root, topmost first, separated by colons
# WORK     empty directory for the root's writable layer
# STORE    directory to become containerd's
# ARCHIVES directory of *.tar
set -eu

mkdir -p "$WORK/upper" "$WORK/work" "$WORK/root"
mount -t overlay kubeadm-node -o "lowerdir=$LOWER,upperdir=$WORK/upper,workdir=$WORK/work" "$WORK/root"
root=$WORK/root
mkdir -p "$root/var/lib/containerd" "$root/images"
mount --bind "$STORE" "$root/var/lib/containerd"
mount --bind "$ARCHIVES" "$root/images"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"

exec chroot "$root" /bin/sh -eu -c '
	cat >/tmp/config.toml <<END
version = 3
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.nri.v1.nri"]
END
	containerd --config /tmp/config.toml --log-level warn &
	daemon=$!
	tries=0
	until ctr version >/dev/null 2>&1; do
		tries=$((tries + 1))
		kill -0 $daemon && [ $tries -lt 3000 ] || { echo "containerd does not answer" >&2; exit 1; }
		sleep 0.1
	done
	for archive in /images/*.tar; do
		ctr --namespace k8s.io images import "$archive"
	done
	kill $daemon
	wait $daemon || true
'
