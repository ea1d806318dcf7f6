package cli

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/reconfiguration"
)

// The status names nodes whose Nodes were registered again, and says that an undo is not complete.
func TestReconfigurationStatus(t *testing.T) {
	status := reconfigurationStatus{ID: "abc", Undoes: "def", Node: "cp1", Started: &metav1.Time{}, Stored: &metav1.Time{},
		Incomplete: true, Nodes: []reconfiguration.NodeProgress{{Name: "cp1", ControlPlane: true, Done: true},
			{Name: "worker1", Reregistered: true}, {Name: "worker2"}}}
	var out bytes.Buffer
	if err := status.write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Undo of change def: change abc", "\nworker1   worker          no\n",
		"registered again after the change, so it is not known whether the machines have it:\n  worker1\n",
		"Once all nodes have followed: kubeadm reconfigure undo"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the status lacks %q:\n%s", want, out.String())
		}
	}
	out.Reset()
	status.Nodes, status.Incomplete = status.Nodes[:1], false
	if err := status.write(&out); err != nil || strings.Contains(out.String(), "again") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
