# Becomes systemd-nspawn, in a mount namespace of its own: the mounts made here end with the node.
#
# CGROUPS  directories, one per line, that this process joins
# LOWER    read-only layers of the root, topmost first, separated by colons
# NODE     directory of the node: upper/ work/ root/ containerd/ net
# HOSTS    file to mount as /etc/hosts
# MACHINE  name of the machine, unique on this host
set -eu

for group in $CGROUPS; do
	echo $$ >"$group/cgroup.procs"
done

mount -t overlay kubeadm-node -o "lowerdir=$LOWER,upperdir=$NODE/upper,workdir=$NODE/work" "$NODE/root"

# systemd-nspawn creates directories named after the machine here; on a tmpfs none stays on the host.
mkdir -p /run/systemd/nspawn
mount -t tmpfs kubeadm-node /run/systemd/nspawn

# Without @keyring runc cannot create a session keyring; the other calls are allowed to root on a real host.
exec env -i PATH="$PATH" SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 \
	systemd-nspawn --quiet --boot --register=no --keep-unit --capability=all \
	--system-call-filter="@keyring @privileged @raw-io bpf perf_event_open" \
	--directory="$NODE/root" --machine="$MACHINE" --network-namespace-path="$NODE/net" \
	--resolv-conf=off --timezone=off --link-journal=no --console=read-only \
	--bind=/dev/kmsg --bind-ro="$HOSTS:/etc/hosts" --bind="$NODE/containerd:/var/lib/containerd"
