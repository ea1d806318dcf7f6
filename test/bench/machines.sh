# Prepares this node for $1 simulated machines, sim1 and so on: a network namespace with an address for each, all on
# one bridge, and a hosts file. They share the node's kernel, programs and container runtime.
set -eu

# The node's own kubelet has no configuration and would be restarted again and again.
systemctl stop kubelet

ip link add machines type bridge
ip address add 10.78.0.1/16 dev machines
ip link set machines up

mkdir -p /var/machines /var/lib/kubelet
cp /etc/hosts /var/machines/hosts
for i in $(seq "$1"); do
	name=sim$i address=10.78.$((i / 250)).$((i % 250 + 2))
	echo "$address $name" >>/var/machines/hosts
	ip netns add "$name"
	ip link add "$name" type veth peer name eth0 netns "$name"
	ip link set "$name" master machines up
	ip -netns "$name" -batch - <<-END
		link set lo up
		address add $address/16 dev eth0
		link set eth0 up
		route add default via 10.78.0.1
	END
done
