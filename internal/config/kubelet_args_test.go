package config

import (
	"strings"
	"testing"
)

// Arguments are set and removed in the file that kubeadm has written, and the rest of it stays.
func TestEditKubeletArgs(t *testing.T) {
	const before = "# note\nKUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.1 --v 2 --max-pods=50\"\nOTHER=1\n"
	for args, want := range map[string]string{
		"":                       before,
		"max-pods=60":            "# note\nOTHER=1\nKUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.1 --v 2 --max-pods=60\"\n",
		"--v- root-dir=/srv/k=1": "# note\nOTHER=1\nKUBELET_KUBEADM_ARGS=\"--node-ip=192.0.2.1 --max-pods=50 --root-dir=/srv/k=1\"\n",
	} {
		all, err := ParseKubeletArgs(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := all.Edit([]byte(before)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", args, got, err)
		}
	}
	all, err := ParseKubeletArgs([]string{"v=3"})
	if got, wrong := all.Edit(nil); err != nil || wrong != nil || string(got) != "KUBELET_KUBEADM_ARGS=\"--v=3\"\n" {
		t.Errorf("a new file has %q, %v", got, wrong)
	}
	for _, text := range []string{"KUBELET_KUBEADM_ARGS='--v=2'\n", "KUBELET_KUBEADM_ARGS=\"\"\nKUBELET_KUBEADM_ARGS=\"\"\n"} {
		if _, err := all.Edit([]byte(text)); err == nil {
			t.Errorf("%q was edited", text)
		}
	}
}
