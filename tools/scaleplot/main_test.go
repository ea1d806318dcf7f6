package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGolden(t *testing.T) {
	out := filepath.Join(t.TempDir(), "scale.svg")
	if err := showFile("testdata/scale.json", out, false); err != nil {
		t.Fatal(err)
	}
	got, want := readFile(t, out), readFile(t, "testdata/scale.svg")
	if got != want {
		t.Errorf("the drawing differs from testdata/scale.svg. If it should, look at the new one:\n"+
			"go -C tools run ./scaleplot --json scaleplot/testdata/scale.json --svg scaleplot/testdata/scale.svg\n%s", got)
	}
	for _, text := range []string{">upgrade plan v1.37.1<", ">token create<", ">--dry-run<", ">5,000<", "limit 80 MB<",
		"limit 3 s<", ">this project<", ">before<", ">upstream<", ">20<", ">63 MB<", ">515 MB<", ">57 MB<", ">2.0 s<", ">0 B<"} {
		if !strings.Contains(want, text) {
			t.Errorf("%q is missing in testdata/scale.svg", text)
		}
	}
	if strings.Contains(want, "preflight") {
		t.Error("testdata/scale.svg names a flag that only the measurement needs")
	}
}

// A single size has no line.
func TestOneSize(t *testing.T) {
	svg, err := drawJSON(t, `{"results": [{"program": "ours", "command": "doctor", "nodes": 5000, "requests": 45, "bytes": 7,
		"memory": 72859648, "seconds": 0.6}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"NaN", "Inf", "upstream", "before"} {
		if strings.Contains(svg, unwanted) {
			t.Errorf("%q is in the drawing", unwanted)
		}
	}
	if n := strings.Count(svg, ">69 MB<"); n != 1 {
		t.Errorf("the peak memory is written %d times", n)
	}
}

func TestTables(t *testing.T) {
	rows, err := readRows([]byte(`{"results": [
		{"program": "ours", "command": "doctor", "nodes": 10, "requests": 36, "bytes": 2048, "memory": 48234496, "seconds": 0.44},
		{"program": "ours", "command": "doctor", "nodes": 5000, "requests": 45, "bytes": 7340032, "memory": 72351744, "seconds": 1.6},
		{"program": "before", "command": "doctor", "nodes": 10, "requests": 40, "bytes": 1024, "memory": 50331648, "seconds": 0.5},
		{"program": "upstream", "command": "upgrade plan", "nodes": 5000, "requests": 8, "bytes": 1024, "memory": 50331648, "seconds": 0.5},
		{"program": "before", "command": "doctor", "nodes": 5000, "requests": 45, "bytes": 7340032, "memory": 90177536, "seconds": 3.6},
		{"program": "ours", "command": "reset --leave-cluster --force (worker)", "nodes": 10, "requests": 9, "bytes": 99,
			"memory": 48234496, "seconds": 12.34}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "| command | 10 nodes | 5,000 nodes | before, 5,000 nodes | upstream, 5,000 nodes |\n|---|---|---|---|---|\n" +
		"| `doctor` | 36 · 2.0 kB · 46 MB · 0.4 s | 45 · 7.0 MB · 69 MB · 1.6 s | 45 · 7.0 MB · 86 MB · 3.6 s | |\n" +
		"| `reset --leave-cluster` (worker) | 9 · 99 B · 46 MB · 12.3 s | | | |\n" +
		"| `upgrade plan` | | | | 8 · 1.0 kB · 48 MB · 0.5 s |\n" +
		"\n| command | before, 10 nodes | before, 5,000 nodes |\n|---|---|---|\n" +
		"| `doctor` | 40 · 1.0 kB · 48 MB · 0.5 s | 45 · 7.0 MB · 86 MB · 3.6 s |\n"
	if got := formatTables(rows); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBadInput(t *testing.T) {
	for data, want := range map[string]string{
		`{`:               "unexpected end",
		`{"results": []}`: "no results",
		`{"results": [{"program": "ours", "command": "doctor"}]}`:                `nodes of "doctor" is 0`,
		`{"results": [{"program": "theirs", "command": "doctor", "nodes": 10}]}`: `program of "doctor" is "theirs"`,
	} {
		if _, err := drawJSON(t, data); err == nil || !strings.Contains(err.Error(), "scale.json: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func drawJSON(t *testing.T, data string) (svg string, err error) {
	t.Helper()
	in := filepath.Join(t.TempDir(), "scale.json")
	if err := os.WriteFile(in, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := showFile(in, in+".svg", false); err != nil {
		return "", err
	}
	return readFile(t, in+".svg"), nil
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
