package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// noStorm are the settings without flags.
var noStorm = stormSettings{controlPlanes: 1, programs: ours + "," + upstream}

func TestLimitsOfStorm(t *testing.T) {
	for _, c := range []struct {
		settings stormSettings
		atScale  bool
		want     string
	}{
		{noStorm, true, ""},
		{noStorm, false, ""},
		{stormSettings{3, true, true, true, ours}, true, ""},
		{stormSettings{3, true, true, true, ours}, false, "--only scale"},
		{stormSettings{1, false, true, false, noStorm.programs}, false, "--only scale"},
		{stormSettings{2, false, false, false, ours}, true, "--control-planes 2"},
		{stormSettings{1, false, false, false, "kubeadm"}, true, "\"kubeadm\""},
		{stormSettings{1, false, false, false, ""}, true, "--programs"},
		{stormSettings{1, false, false, true, ours}, true, "--hold"},
	} {
		if err := c.settings.check(c.atScale); (err == nil) != (c.want == "") ||
			!strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v: got %v, want an error that names %q", c.settings, err, c.want)
		}
	}
}

func TestChoosePrograms(t *testing.T) {
	all := [2]program{{name: ours}, {name: upstream}}
	for names, want := range map[string][]program{noStorm.programs: all[:], ours: all[:1],
		upstream: all[1:]} {
		if got := (stormSettings{programs: names}).choosePrograms(all); !slices.Equal(got, want) {
			t.Errorf("%s: got %v", names, got)
		}
	}
}

func TestValueInJoinCommand(t *testing.T) {
	command := strings.Fields("kubeadm join 10.77.0.2:6443 --token abc.def --discovery-token-ca-cert-hash sha256:1")
	if token, err := valueIn(command, "--token"); token != "abc.def" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
	if _, err := valueIn(command[:4], "--token"); err == nil {
		t.Error("a command without a token was accepted")
	}
}

func TestPatientJoin(t *testing.T) {
	command := strings.Fields("kubeadm join 10.77.0.2:6443 --token abc.def --discovery-token-ca-cert-hash sha256:1")
	text, err := patientJoin(command)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Discovery struct {
			BootstrapToken struct {
				APIServerEndpoint, Token string
				CACertHashes             []string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if d := config.Discovery.BootstrapToken; d.Token != "abc.def" || d.APIServerEndpoint != command[2] ||
		!slices.Equal(d.CACertHashes, command[6:]) {
		t.Errorf("got %+v", d)
	}
	if _, err := patientJoin(command[:5]); err == nil {
		t.Error("a command without a hash was accepted")
	}
}

func TestPressureObjectsAreYAML(t *testing.T) {
	for text := range strings.SplitSeq(pressureObjects, "---\n") {
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &object); err != nil || object.Kind == "" {
			t.Errorf("%+v, %v:\n%s", object, err, text)
		}
	}
}

func TestStormNotes(t *testing.T) {
	counts := func(rejected, restarts float64) []comparison {
		return []comparison{{ID: groupScale + rejectedSuffix, Ours: newSummary([]float64{rejected})},
			{ID: groupScale + restartsSuffix, Ours: newSummary([]float64{restarts})}}
	}
	storm := &scaleSettings{ControlPlanes: 3, Pressure: true, Restart: true}
	good := report{Scale: storm, Figures: counts(40, 3)}.stormNotes()
	if !strings.Contains(good, "3 control planes behind") || strings.Contains(good, "NO PRESSURE") ||
		strings.Contains(good, "Not all") {
		t.Errorf("a storm as intended:\n%s", good)
	}
	bad := report{Scale: storm, Figures: counts(0, 2)}.stormNotes()
	if !strings.Contains(bad, "NO PRESSURE") || !strings.Contains(bad, "Not all control planes") {
		t.Errorf("a storm without pressure:\n%s", bad)
	}
	calm := report{Scale: &scaleSettings{ControlPlanes: 1}, Figures: counts(0, 0)}.stormNotes()
	if calm != "" {
		t.Errorf("no storm:\n%s", calm)
	}
}
