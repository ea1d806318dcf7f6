package doctor

import (
	"context"
	"fmt"

	"kubeadm/internal/localkubelet"
	"kubeadm/internal/nodename"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkNodeName finds a kubelet that gives itself another name than that of its Node, such as after the host was
// renamed.
func checkNodeName(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	client, err := localkubelet.ReadClientCert(ctx, r, m.Paths)
	if err != nil || client == nil || client.NodeName(ctx, r) == "" {
		rep.Skip("the kubelet has no client certificate of a node") // checks Kubeconfigs and KubeletCertificate report it
		return
	}
	renaming, err := nodename.ReadRename(ctx, r, m.Paths)
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if renaming != nil {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text: fmt.Sprintf("the change of this node's name from %s to %s is not complete", untrusted.Line(renaming.Original),
				untrusted.Line(renaming.Other)),
			Evidence: "it was interrupted; " + client.Source(), Remedy: "complete it, or take it back with the other name",
			Command: renaming.Command(renaming.To)})
		return
	}
	k, err := nodename.ReadKubelet(ctx, r, m.Local)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	name := client.NodeName(ctx, r)
	if k.Name == name || k.Name == "" {
		return
	}
	f := preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("when it starts, the kubelet of Node %s gives itself another name, %s",
			untrusted.Line(name), untrusted.Line(k.Name)),
		Evidence: fmt.Sprintf("this machine has that name, and nothing sets --hostname-override; %s", client.Source()),
		Remedy:   "tell the kubelet the name of its Node", Command: "kubeadm node-name keep"}
	if k.File != "" {
		f.Evidence = untrusted.Line(k.File) + " sets --hostname-override; " + client.Source()
	}
	if k.IsUnit {
		f.Remedy, f.Command = "correct it there, then run: systemctl daemon-reload && systemctl restart kubelet", ""
	}
	rep.Add(f)
}
