package nodes

import (
	"context"
	"fmt"
	"net"
	"strings"
	"text/template"

	"golang.org/x/sync/errgroup"
)

// Etcd is an external etcd cluster on nodes of its own.
type Etcd struct {
	members []*Node
}

const etcdPKI = "/etc/kubernetes/pki/etcd/"

var etcdUnit = template.Must(template.New("etcd.service").Parse(`[Unit]
Description=etcd
After=network.target

[Service]
Type=notify
ExecStart=/usr/bin/etcd --name={{.Name}} --data-dir=/var/lib/etcd \
	--listen-client-urls=https://127.0.0.1:2379,{{.Clients}} --advertise-client-urls={{.Clients}} \
	--listen-peer-urls={{.Peers}} --initial-advertise-peer-urls={{.Peers}} \
	--initial-cluster={{.All}} --initial-cluster-state=new \
	--client-cert-auth --trusted-ca-file={{.PKI}}ca.crt --cert-file={{.PKI}}server.crt --key-file={{.PKI}}server.key \
	--peer-client-cert-auth --peer-trusted-ca-file={{.PKI}}ca.crt --peer-cert-file={{.PKI}}peer.crt --peer-key-file={{.PKI}}peer.key
TimeoutStartSec=10min
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
`))

// StartEtcd creates an etcd cluster on these nodes: certificates by phases of kubeadm init, with a
// CA that the first node generates, and etcd as a systemd service. On return it is healthy.
func StartEtcd(ctx context.Context, members ...*Node) (*Etcd, error) {
	e := &Etcd{members: members}
	var ca map[string][]byte
	for _, n := range members {
		if err := n.writeFiles(ca); err != nil {
			return nil, err
		}
		if err := n.etcdCertificates(ctx); err != nil {
			return nil, fmt.Errorf("generating certificates of etcd: %w", err)
		}
		var err error
		if ca, err = n.readFiles(etcdPKI+"ca.crt", etcdPKI+"ca.key"); err != nil {
			return nil, err
		}
	}
	// A member is not ready before it has found the others.
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range members {
		group.Go(func() error { return e.startMember(ctx, n) })
	}
	return e, group.Wait()
}

func (n *Node) etcdCertificates(ctx context.Context) error {
	if err := n.WriteFile(initConfigFile, []byte(InitConfig(Config{Address: n.Address()})),
		0o600); err != nil {
		return err
	}
	for _, phase := range []string{"etcd-ca", "etcd-server", "etcd-peer", "apiserver-etcd-client"} {
		if _, err := n.Run(ctx, "kubeadm", "init", "phase", "certs", phase, "--config",
			initConfigFile); err != nil {
			return err
		}
	}
	return nil
}

func (e *Etcd) startMember(ctx context.Context, n *Node) error {
	var all []string
	for _, m := range e.members {
		all = append(all, m.name+"="+m.etcdURL("2380"))
	}
	var unit strings.Builder
	values := map[string]string{
		"Name": n.name, "Clients": n.etcdURL("2379"), "Peers": n.etcdURL("2380"),
		"All": strings.Join(all, ","), "PKI": etcdPKI,
	}
	if err := etcdUnit.Execute(&unit, values); err != nil {
		return err
	}
	if err := n.WriteFile("/etc/systemd/system/etcd.service", []byte(unit.String()),
		0o644); err != nil {
		return err
	}
	if _, err := n.Run(ctx, "systemctl", "enable", "--quiet", "--now", "etcd"); err != nil {
		log, _ := n.Run(ctx, "journalctl", "--no-pager", "--lines=20", "--unit=etcd")
		return fmt.Errorf("starting etcd on %s: %w\n%s", n.name, err, log.Stdout)
	}
	return nil
}

// etcdURL is the URL of a node's member, by client or peer port.
func (n *Node) etcdURL(port string) string {
	return "https://" + net.JoinHostPort(n.Address(), port)
}

// etcdClientFiles are the CA certificate and the client certificate and key for API servers.
var etcdClientFiles = []string{etcdPKI + "ca.crt", "/etc/kubernetes/pki/apiserver-etcd-client.crt",
	"/etc/kubernetes/pki/apiserver-etcd-client.key"}

// InstallClientCertificate copies the files that API servers need as etcd clients to a node.
func (e *Etcd) InstallClientCertificate(n *Node) error {
	files, err := e.members[0].readFiles(etcdClientFiles...)
	if err != nil {
		return err
	}
	return n.writeFiles(files)
}

// Config returns the fields to add to ClusterConfiguration; see Config.Cluster.
func (e *Etcd) Config() string {
	var endpoints []string
	for _, n := range e.members {
		endpoints = append(endpoints, n.etcdURL("2379"))
	}
	return fmt.Sprintf("etcd:\n  external:\n    endpoints: [%s]\n    caFile: %s\n    certFile: %s\n    keyFile: %s\n",
		strings.Join(endpoints, ", "), etcdClientFiles[0], etcdClientFiles[1], etcdClientFiles[2])
}

// readFiles reads files of a node.
func (n *Node) readFiles(names ...string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, name := range names {
		var err error
		if files[name], err = n.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// writeFiles writes files to a node, readable by root only.
func (n *Node) writeFiles(files map[string][]byte) error {
	for name, data := range files {
		if err := n.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
