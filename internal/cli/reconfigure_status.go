package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/release"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
)

func newReconfigureStatusCommand(p *program) *cobra.Command {
	o, out := &reconfigureOptions{}, newOutput()
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which nodes have the latest change of the configuration",
		Long: `Show the latest change of the configuration, and which of the affected nodes have it. Run the command
on a control plane node.`,
		Example: "  kubeadm reconfigure status",
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return showReconfiguration(p, c, o, &out) },
	}
	targetsOf(o).bind(c.Flags(), flag.Kubeconfig)
	out.bind(c.Flags())
	return c
}

// reconfigurationStatus is the result as an object.
type reconfigurationStatus struct {
	metav1.TypeMeta `json:",inline"`
	ID              string       `json:"id,omitempty"`
	Started         *metav1.Time `json:"started,omitempty"`
	Node            string       `json:"node,omitempty"`
	Undoes          string       `json:"undoes,omitempty"`
	Stored          *metav1.Time `json:"stored,omitempty"`
	// Incomplete is set if "kubeadm reconfigure undo" has to be run again once all nodes have followed.
	Incomplete bool                           `json:"incomplete,omitempty"`
	Changes    []config.FieldChange           `json:"changes"`
	Nodes      []reconfiguration.NodeProgress `json:"nodes"`
}

func showReconfiguration(p *program, c *cobra.Command, o *reconfigureOptions, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "reconfigure", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	o.DryRun = true
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	found, err := reconfiguration.Read(ctx, e.Reader(), here.As)
	if err != nil {
		return err
	}
	status := reconfigurationStatus{TypeMeta: outputMeta("ReconfigurationStatus")}
	if found != nil {
		status.ID, status.Started, status.Node, status.Undoes = found.ID, &found.Started, found.Node, found.Undoes
		status.Stored, status.Incomplete = found.Stored, found.Rest != nil
		if status.Nodes, err = found.ReadProgress(ctx, e.Reader(), here.As); err != nil {
			return err
		}
		if status.Changes, err = changesOf(here.Local, found); err != nil {
			return err
		}
	}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	return status.write(p.Out)
}

// changesOf are the fields that a change has changed, without secrets.
func changesOf(local node.Local, s *reconfiguration.State) ([]config.FieldChange, error) {
	before, _, err := config.CompleteUpgrade(local, s.Before, release.Target{})
	if err != nil {
		return nil, err
	}
	after, _, err := config.CompleteUpgrade(local, s.After, release.Target{})
	if err != nil {
		return nil, err
	}
	fields, err := config.ListChanges(&before.Cluster, &after.Cluster)
	return hideSecrets(fields), err
}

func (s reconfigurationStatus) write(out io.Writer) error {
	if s.ID == "" {
		_, err := fmt.Fprintln(out, "The configuration of this cluster has not been changed by \"kubeadm reconfigure\".")
		return err
	}
	what := "Change"
	if s.Undoes != "" {
		what = "Undo of change " + untrusted.Line(s.Undoes) + ": change"
	}
	stored := "not stored in the cluster yet"
	if s.Stored != nil {
		stored = "stored in the cluster " + s.Stored.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(out, "%s %s, begun on node %s %s, %s\n", what, untrusted.Line(s.ID), untrusted.Line(s.Node),
		s.Started.UTC().Format(time.RFC3339), stored)
	if _, err := io.WriteString(out, describeChanges(s.Changes)+"\n"); err != nil {
		return err
	}
	if err := writeProgress(out, s.Nodes); err != nil || !s.Incomplete {
		return err
	}
	_, err := fmt.Fprintln(out, "\nThis is the first part of the undo. Once all nodes have followed: kubeadm reconfigure undo")
	return err
}
