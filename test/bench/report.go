package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// report holds all results. It is the format of the JSON file.
type report struct {
	CPUs     int            `json:"cpus"`
	Load     float64        `json:"load"`               // of the last minute, before the first run
	Overhead *overhead      `json:"overhead,omitempty"` // null: not measured
	Scale    *scaleSettings `json:"scale,omitempty"`    // null: not measured
	Turns    []turn         `json:"turns"`
	Figures  []comparison   `json:"figures"`
	Failures []failure      `json:"failures"`
}

// overhead is the time and memory of a program that does nothing on a node. The figures include
// it.
type overhead struct {
	Seconds float64 `json:"seconds"`
	Memory  float64 `json:"memory"` // MB; the least that can be measured
}

// scaleSettings is how many machines joined a cluster at scale.
type scaleSettings struct {
	Kubelets      int  `json:"kubelets"`
	AtOnce        int  `json:"atOnce"`
	ControlPlanes int  `json:"controlPlanes"`
	Pressure      bool `json:"pressure"` // seats for joining machines were kept full
	Restart       bool `json:"restart"`  // control planes were restarted meanwhile
	Held          bool `json:"held"`     // all connected before the first request
}

func (b *bench) report() report {
	var s *scaleSettings
	if b.only.includes(groupScale) {
		s = &scaleSettings{Kubelets: b.kubelets, AtOnce: b.atOnce,
			ControlPlanes: b.storm.controlPlanes, Pressure: b.storm.pressure, Restart: b.storm.restart,
			Held: b.storm.hold}
	}
	return report{
		CPUs: runtime.NumCPU(), Load: b.load, Overhead: b.overhead, Scale: s,
		Turns: b.results.turns, Figures: b.results.compare(b.only), Failures: b.results.failures,
	}
}

func (r report) save(name string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	err = os.WriteFile(name+".new", append(data, '\n'), 0o644)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}

// print writes the tables, notes on them, and the failures.
func (r report) print(out io.Writer) error {
	if err := r.printTable(out, r.rows()); err != nil {
		return err
	}
	if rows := r.percentileRows(); rows != nil {
		fmt.Fprintf(out, "\nPercentiles, by the nearest-rank method:\n\n")
		if err := r.printTable(out, rows); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, r.notes())
	return err
}

func (r report) printTable(out io.Writer, rows [][]string) error {
	width := 0
	for _, c := range r.Figures {
		width = max(width, len(c.Title))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		// The writer aligns every column to the right; a title fills its own.
		fmt.Fprintf(w, "%-*s\t%s\t\n", width, row[0], strings.Join(row[1:], "\t"))
	}
	return w.Flush()
}

func (r report) rows() [][]string {
	rows := [][]string{
		{"", "", "ours", "", "", "", "upstream", "", "", "", "ours/", "of each"},
		{"", "unit", "median", "min", "max", "runs", "median", "min", "max", "runs", "upstream", "round"},
	}
	for _, c := range r.Figures {
		row := slices.Concat([]string{c.Title, c.Unit}, c.cells(c.Ours, c.failed[0]),
			c.cells(c.Upstream, c.failed[1]))
		quotient := "-"
		if c.Ratio != nil {
			quotient = fmt.Sprintf("%.2f", *c.Ratio)
		}
		spread := "-"
		if c.RatioRange != nil {
			spread = fmt.Sprintf("%.2f to %.2f", c.RatioRange[0], c.RatioRange[1])
		}
		rows = append(rows, append(row, quotient, spread))
	}
	return rows
}

// percentileRows are the percentiles of the times that both programs have enough samples of; nil if
// there are none.
func (r report) percentileRows() [][]string {
	rows := [][]string{{"", "", "", "ours", "", "upstream", "", "ratio"},
		{"", "unit", "p50", "p95", "p50", "p95", "p50", "p95"}}
	for _, c := range r.Figures {
		if c.Unit != secondsUnit || c.Ours == nil || c.Upstream == nil ||
			c.Ours.Percentiles == nil || c.Upstream.Percentiles == nil {
			continue
		}
		a, b := c.Ours.Percentiles, c.Upstream.Percentiles
		row := []string{c.Title, c.Unit}
		for _, seconds := range []float64{a.P50, a.P95, b.P50, b.P95} {
			row = append(row, fmt.Sprintf("%.3f", seconds))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.2f", a.P50/b.P50),
			fmt.Sprintf("%.2f", a.P95/b.P95)))
	}
	if len(rows) == 2 {
		return nil
	}
	return rows
}

// cells are one program's part of a row: median, minimum, maximum and number of successful runs,
// "of" all runs if some failed.
func (c comparison) cells(s *summary, failed int) []string {
	if s == nil {
		return []string{"-", "-", "-", formatCount(0, failed)}
	}
	decimals := 1
	if c.Unit == secondsUnit {
		decimals = 3
	}
	number := func(value float64) string { return fmt.Sprintf("%.*f", decimals, value) }
	return []string{number(s.Median), number(s.Min), number(s.Max),
		formatCount(len(s.Samples), failed)}
}

func formatCount(good, failed int) string {
	if failed == 0 {
		return fmt.Sprint(good)
	}
	return fmt.Sprintf("%d of %d", good, good+failed)
}

func (r report) notes() string {
	var b strings.Builder
	b.WriteString("\nA ratio below 1 means that ours is faster or smaller; of joins per minute, one above 1.\n")
	if r.Load >= idleLoad {
		fmt.Fprintf(&b, "The machine was busy before the first run (load %.2f, %d CPUs): the times are not reliable.\n", r.Load, r.CPUs)
	}
	if r.Overhead != nil {
		fmt.Fprintf(&b, "A program that does nothing takes %.3f s and %.1f MB on a node: times include it, and less memory cannot be measured.\n",
			r.Overhead.Seconds, r.Overhead.Memory)
	}
	if r.Scale != nil {
		fmt.Fprintf(&b, "The machines: %d simulated kubelets, %d at once, one cluster of each program.\n", r.Scale.Kubelets, r.Scale.AtOnce)
		b.WriteString(r.stormNotes())
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\nFAILED: %s by %s, round %d: %s\n", f.Figure, f.Program, f.Round, f.Error)
	}
	return b.String()
}
