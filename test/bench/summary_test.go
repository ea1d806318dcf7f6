package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		samples          []float64
		median, min, max float64
	}{
		{[]float64{7}, 7, 7, 7},
		{[]float64{3, 1}, 2, 1, 3},
		{[]float64{9, 1, 2}, 2, 1, 9},
		{[]float64{4, 1, 3, 2}, 2.5, 1, 4},
	} {
		given := slices.Clone(c.samples)
		s := newSummary(c.samples)
		if s.Median != c.median || s.Min != c.min || s.Max != c.max {
			t.Errorf("%v: got %+v, want median %v, minimum %v, maximum %v", given, *s, c.median,
				c.min, c.max)
		}
		if !slices.Equal(s.Samples, given) {
			t.Errorf("the samples %v came out as %v", given, s.Samples)
		}
	}
	if s := newSummary(nil); s != nil {
		t.Errorf("no samples: got %+v, want nothing", *s)
	}
}

// The nearest-rank method takes a sample, never a value between two.
func TestPercentileByNearestRank(t *testing.T) {
	upTo := func(n int) []float64 {
		samples := make([]float64, n)
		for i := range samples {
			samples[i] = float64(i + 1)
		}
		return samples
	}
	for _, c := range []struct {
		sorted  []float64
		percent int
		want    float64
	}{
		{upTo(30), 50, 15}, {upTo(30), 95, 29}, {upTo(20), 50, 10}, {upTo(20), 95, 19},
		{upTo(21), 50, 11}, {upTo(21), 95, 20}, {upTo(19), 95, 19}, {upTo(1), 50, 1},
		{upTo(1), 95, 1}, {upTo(100), 1, 1}, {upTo(100), 95, 95}, {upTo(100), 100, 100},
		{[]float64{15, 20, 35, 40, 50}, 30, 20}, {[]float64{15, 20, 35, 40, 50}, 40, 20},
		{[]float64{15, 20, 35, 40, 50}, 50, 35}, {[]float64{2, 2, 2, 9}, 50, 2},
	} {
		if got := percentileOf(c.sorted, c.percent); got != c.want {
			t.Errorf("percentile %d of %v: got %v, want %v", c.percent, c.sorted, got, c.want)
		}
	}
	samples := upTo(percentileSamples)
	slices.Reverse(samples)
	if p := newSummary(samples).Percentiles; p == nil || *p != (percentiles{P50: 10, P95: 19}) {
		t.Errorf("of %v: got %+v, want 10 and 19", samples, p)
	}
	if p := newSummary(samples[1:]).Percentiles; p != nil {
		t.Errorf("of %d samples: got %+v, want nothing", len(samples)-1, *p)
	}
}

func TestRatioOfMedians(t *testing.T) {
	if r := ratioOfMedians(&summary{Median: 3}, &summary{Median: 4}); r == nil || *r != 0.75 {
		t.Errorf("3 s to 4 s: got %v, want 0.75", r)
	}
	for name, r := range map[string]*float64{
		"ours is missing":       ratioOfMedians(nil, &summary{Median: 4}),
		"upstream's is missing": ratioOfMedians(&summary{Median: 3}, nil),
		"upstream's is nothing": ratioOfMedians(&summary{Median: 3}, &summary{}),
	} {
		if r != nil {
			t.Errorf("%s: got a ratio of %v, want none", name, *r)
		}
	}
}

func TestRatioRange(t *testing.T) {
	one, two := newSummary([]float64{3}), newSummary([]float64{4, 8})
	if r := ratioRange(newSummary([]float64{3, 4}), two, 2); r == nil || *r != [2]float64{0.5, 0.75} {
		t.Errorf("3 s to 4 s and 4 s to 8 s: got %v, want 0.5 to 0.75", r)
	}
	for name, r := range map[string]*[2]float64{
		"ours is missing":         ratioRange(nil, two, 2),
		"a round is missing":      ratioRange(one, two, 2),
		"there is one round":      ratioRange(one, one, 1),
		"both were repeated":      ratioRange(two, two, 1),
		"upstream's took no time": ratioRange(two, newSummary([]float64{0, 8}), 2),
	} {
		if r != nil {
			t.Errorf("%s: got %v, want none", name, *r)
		}
	}
}

func TestProgramsAlternate(t *testing.T) {
	programs := [2]program{{name: ours}, {name: upstream}}
	var order []string
	for round := range 3 {
		for _, p := range orderForRound(programs, round) {
			order = append(order, p.name)
		}
	}
	want := []string{ours, upstream, upstream, ours, ours, upstream}
	if !slices.Equal(order, want) {
		t.Errorf("got %v, want %v", order, want)
	}
}

func TestFailedRunsAreCountedAndNotMeasured(t *testing.T) {
	var l measurements
	good := nodes.Result{Duration: 1500 * time.Millisecond, Memory: 44_000_000}
	l.addRun(turn{Round: 1, Program: ours}, groupCerts, good, nil)
	l.addRun(turn{Round: 1, Program: upstream}, groupCerts, good, errors.New("exit code 1"))

	all := l.compare(selection{groupCerts})
	if all[0].ID != groupCerts || all[0].Ours.Median != 1.5 || all[0].Upstream != nil ||
		all[0].Ratio != nil {
		t.Errorf("got %+v", all[0])
	}
	if all[0].failed != [2]int{0, 1} {
		t.Errorf("failures are %v, want one of upstream's", all[0].failed)
	}
	if all[1].ID != groupCerts+memorySuffix || all[1].Ours.Median != 44 {
		t.Errorf("memory: got %+v, want 44 MB", all[1])
	}
}

func TestSelection(t *testing.T) {
	only, err := parseSelection("size,init")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range new(measurements).compare(only) {
		ids = append(ids, c.ID)
	}
	if want := []string{"init", "init-kubelet", "init-memory", "size"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	if got := len(new(measurements).compare(selection{groupScale})); got != 7 {
		t.Errorf("scale has %d figures, want 7", got)
	}
	if _, err := parseSelection("init,upgrade"); err == nil {
		t.Error("an unknown figure was accepted")
	}
	if all, err := parseSelection(""); err != nil || !all.includes(groupReset) {
		t.Error("without --only not everything is measured")
	}
}

func TestNeededStages(t *testing.T) {
	for only, want := range map[string][2]int{
		"": {5, 4}, "init": {1, 0}, "join-early": {2, 0}, "join": {3, 0},
		"init,reset-worker": {4, 0}, "reset": {5, 0}, "version": {0, 0},
		"join-plane": {0, 2}, "join-planes": {0, 4}, "scale": {0, 0},
	} {
		chosen, err := parseSelection(only)
		if err != nil {
			t.Fatal(err)
		}
		got := [2]int{len(neededStages((&workerScenario{}).stages(), chosen)),
			len(neededStages((&controlPlaneScenario{}).stages(), chosen))}
		if got != want {
			t.Errorf("--only %q: got %d stages, want %d", only, got, want)
		}
	}
}
