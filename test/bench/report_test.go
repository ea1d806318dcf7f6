package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testReport() report {
	good, poor := 0.75, 1.5
	return report{
		CPUs: 2, Load: 0.2, Overhead: &overhead{Seconds: 0.003, Memory: 9.5},
		Scale: &scaleSettings{Kubelets: 100, AtOnce: 20},
		Turns: []turn{{Round: 1, Program: ours, Load: 0.2}},
		Figures: []comparison{
			{
				ID: "init", Title: "init", Unit: secondsUnit, Ratio: &good,
				Ours: newSummary([]float64{6, 5.5, 7}), Upstream: newSummary([]float64{8, 9, 7.5}),
				RatioRange: &[2]float64{0.61, 0.93}, failed: [2]int{1, 0},
			},
			{ID: "reset", Title: "reset, worker", Unit: secondsUnit, Ours: newSummary([]float64{1}),
				failed: [2]int{0, 2}},
			{
				ID: "size", Title: "size", Unit: megabytesUnit, Ratio: &poor,
				Ours: newSummary([]float64{75}), Upstream: newSummary([]float64{50}),
			},
		},
		Failures: []failure{{Figure: "init", Program: ours, Round: 3, Error: "cp1: exit code 1"}},
	}
}

const table = `
                         ours                        upstream                           ours/       of each
                 unit  median    min    max    runs    median    min    max    runs  upstream         round
  init              s   6.000  5.500  7.000  3 of 4     8.000  7.500  9.000       3      0.75  0.61 to 0.93
  reset, worker     s   1.000  1.000  1.000       1         -      -      -  0 of 2         -             -
  size             MB    75.0   75.0   75.0       1      50.0   50.0   50.0       1      1.50             -

A ratio below 1 means that ours is faster or smaller; of joins per minute, one above 1.
A program that does nothing takes 0.003 s and 9.5 MB on a node: times include it, and less memory cannot be measured.
The machines: 100 simulated kubelets, 20 at once, one cluster of each program.

FAILED: init by ours, round 3: cp1: exit code 1
`

func TestTableShowsBothProgramsAndFailures(t *testing.T) {
	var b strings.Builder
	if err := testReport().print(&b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimPrefix(table, "\n"), b.String()); diff != "" {
		t.Errorf("the table differs (- wanted, + got):\n%s\n%s", diff, b.String())
	}
}

// manySamples are n samples from the first one on, a hundredth apart.
func manySamples(first float64, n int) *summary {
	var samples []float64
	for i := range n {
		samples = append(samples, first+float64(i)/100)
	}
	return newSummary(samples)
}

const percentileTable = `
Percentiles, by the nearest-rank method:

                               ours          upstream        ratio
                 unit    p50    p95     p50       p95   p50    p95
  init              s  5.140  5.280  10.140    10.280  0.51   0.51
`

func TestPercentilesOfEnoughSamples(t *testing.T) {
	r := testReport()
	r.Figures[0].Ours, r.Figures[0].Upstream = manySamples(5, 30), manySamples(10, 30)
	r.Figures[1].Ours, r.Figures[1].Upstream = manySamples(5, 30), manySamples(10, 19)
	r.Figures[2].Ours, r.Figures[2].Upstream = manySamples(5, 30), manySamples(10, 30)
	var b strings.Builder
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "\nPercentiles")
	got, _, _ = strings.Cut("\nPercentiles"+got, "\nA ratio")
	if diff := cmp.Diff(percentileTable, got); diff != "" {
		t.Errorf("the percentiles differ (- wanted, + got):\n%s\n%s", diff, b.String())
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), `"percentiles":{"p50":5.14,"p95":5.28}`) {
		t.Errorf("the JSON lacks the percentiles:\n%s", data)
	}
}

func TestReportNamesBusyMachine(t *testing.T) {
	r := testReport()
	r.Load = 7.5
	if notes := r.notes(); !strings.Contains(notes,
		"busy before the first run (load 7.50, 2 CPUs)") {
		t.Errorf("the notes lack the load:\n%s", notes)
	}
}

func TestFileHoldsAllSamples(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	if err := testReport().save(file); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.Figures[0].Upstream.Samples; !slices.Equal(got, []float64{8, 9, 7.5}) {
		t.Errorf("upstream's samples of init are %v", got)
	}
	if r.Figures[1].Upstream != nil || r.Figures[1].Ratio != nil {
		t.Errorf("a figure without samples has %+v, ratio %v", r.Figures[1].Upstream,
			r.Figures[1].Ratio)
	}
	if len(r.Failures) != 1 || len(r.Turns) != 1 || r.Overhead == nil || r.Scale == nil {
		t.Errorf("the file lacks failures, turns, overhead or scale:\n%s", data)
	}
}
