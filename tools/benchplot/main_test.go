package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const measured = `{"cpus": 2, "figures": [
  {"id": "init", "title": "init, clean node", "unit": "s", "ours": {"median": 6.04}, "upstream": {"median": 8.25}},
  {"id": "plan", "title": "  until the kubelet starts", "unit": "s", "ours": {"median": 1.5}, "upstream": {"median": 2.5}},
  {"id": "init-limit", "title": "limit of init", "unit": "s", "ours": {"median": 4}, "upstream": {"median": 4}},
  {"id": "memory", "title": "peak memory", "unit": "MB", "ours": {"median": 60}, "upstream": {"median": 90}},
  {"id": "version", "title": "version", "unit": "s", "ours": {"median": 0.01}, "upstream": {"median": 0.05}},
  {"id": "failed", "title": "all runs failed", "unit": "s", "ours": null, "upstream": {"median": 10}}]}`

func TestDraw(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "bench.json"), filepath.Join(dir, "bench.svg")
	if err := os.WriteFile(in, []byte(measured), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := drawFile(in, out); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"init, clean node", "init: until the kubelet starts", ">6.0 s<", ">8.2 s<", ">2.5 s<",
		"this project", "upstream", "percent", "live API server"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("%q is missing in\n%s", want, svg)
		}
	}
	for _, unwanted := range []string{"peak memory", ">version<", "all runs failed", "limit of init"} {
		if strings.Contains(string(svg), unwanted) {
			t.Errorf("%q is in the chart", unwanted)
		}
	}
}

func TestNothingToDraw(t *testing.T) {
	for _, data := range []string{`{"figures": []}`, `{`} {
		in := filepath.Join(t.TempDir(), "bench.json")
		if err := os.WriteFile(in, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := drawFile(in, in+".svg"); err == nil || !strings.Contains(err.Error(), in) {
			t.Errorf("%s: %v", data, err)
		}
	}
}
