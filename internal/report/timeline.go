package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/engine"
)

// Measures of a timeline, in pixels.
const (
	timelineWidth = 960
	labelWidth    = 250 // of the column with the names of phases
	timeWidth     = 70  // of the column with how long they took
	rowHeight     = 20
	barHeight     = 12
	headHeight    = 54
)

// shortest is the part of a run that a phase below another one must take to get a row of its own.
const shortest = 0.005

// timelineStyle follows the colours that the reader has set for documents, light or dark.
const timelineStyle = `
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; font-size: 14px; }
.axis, .time { fill: #57606a; font-size: 11px; }
.grid { stroke: #d0d7de; }
.phase { fill: #9ec5fe; }
.failed { fill: #f1aeb5; }
.wait { fill: #ffda6a; }
.change { fill: #0a58ca; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.axis, .time { fill: #9198a1; }
.grid { stroke: #3d444d; }
}
`

// timelineRow is a phase of the timeline.
type timelineRow struct {
	phase      engine.Event
	start, end time.Duration // since the run began
	inner      []engine.Event
}

// Timeline returns an SVG picture of a run that ends now: a row for each phase, in it the waits and
// the changes. Phases below others that took less than 0.5 % of the run have no row; what they did
// is in the row above.
func (t *Trace) Timeline(outcome Outcome, now time.Time) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := max(now.Sub(t.Start), time.Millisecond)
	rows := t.rows(total)
	height := headHeight + rowHeight*len(rows) + 10
	scale := float64(timelineWidth-labelWidth-timeWidth) / total.Seconds()
	x := func(at time.Duration) float64 { return labelWidth + at.Seconds()*scale }

	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d"><style>%s</style>`+"\n",
		timelineWidth, height, timelineStyle)
	fmt.Fprintf(&b, `<text class="title" x="10" y="20">kubeadm %s: %s after %s</text>`+"\n",
		html.EscapeString(t.Command), outcome, seconds(total))
	fmt.Fprintf(&b, `<text class="axis" x="%d" y="20" text-anchor="end">yellow: waits, dark blue: changes</text>`+"\n",
		timelineWidth-10)
	step := axisStep(total)
	for at := time.Duration(0); at <= total; at += step {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" x2="%[1]f" y1="%[2]d" y2="%[3]d"/>`,
			x(at), headHeight-8, height-6)
		fmt.Fprintf(&b, `<text class="axis" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x(at), headHeight-13, seconds(at))
	}
	for i, row := range rows {
		y := headHeight + i*rowHeight
		indent := 10 + 12*strings.Count(row.phase.Phase, "/")
		name := row.phase.Phase[strings.LastIndex(row.phase.Phase, "/")+1:]
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text>`, indent, y+barHeight-1, html.EscapeString(name))
		class := "phase"
		if row.phase.Kind == engine.Failed {
			class = "failed"
		}
		bar := func(class, what string, from, to time.Duration, thin int) {
			fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s, %s</title></rect>`,
				class, x(from), y+thin, math.Max((to-from).Seconds()*scale, 1), barHeight-2*thin,
				html.EscapeString(what), seconds(to-from))
		}
		bar(class, row.phase.Phase, row.start, row.end, 0)
		for _, e := range row.inner {
			kind, thin := "wait", 2
			if category(e.Kind) == "change" {
				kind, thin = "change", 4
			}
			bar(kind, traceName(e), e.Start.Sub(t.Start), e.Time.Sub(t.Start), thin)
		}
		fmt.Fprintf(&b, `<text class="time" x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			timelineWidth-10, y+barHeight-1, seconds(row.end-row.start))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// rows returns the phases in the order in which they began, outer ones first.
func (t *Trace) rows(total time.Duration) []timelineRow {
	var rows []timelineRow
	for _, e := range t.events {
		took := e.Time.Sub(e.Start)
		if category(e.Kind) != "phase" ||
			strings.Contains(e.Phase, "/") && took.Seconds() < shortest*total.Seconds() {
			continue
		}
		rows = append(rows, timelineRow{phase: e, start: e.Start.Sub(t.Start), end: e.Time.Sub(t.Start)})
	}
	levels := make(map[timelineKey][]timelineKey)
	for _, r := range rows {
		levels[r.key()] = levelsOf(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b timelineRow) int {
		return slices.CompareFunc(levels[a.key()], levels[b.key()], timelineKey.compare)
	})
	for _, e := range t.events {
		if c := category(e.Kind); c != "wait" && c != "change" || e.Start.IsZero() {
			continue
		}
		from, to := e.Start.Sub(t.Start), e.Time.Sub(t.Start)
		at := -1
		for phase := e.Phase; phase != "" && at < 0; phase = parentOf(phase) {
			at = rowAt(rows, phase, from, to)
		}
		if at < 0 { // deferred by a phase that is over
			at = slices.IndexFunc(rows, func(r timelineRow) bool { return r.start <= from && to <= r.end })
		}
		if at >= 0 {
			rows[at].inner = append(rows[at].inner, e)
		}
	}
	return rows
}

// rowAt returns the index of the row of a phase within which that time lies; -1 for none. An upgrade
// through several versions runs each phase several times.
func rowAt(rows []timelineRow, phase string, from, to time.Duration) int {
	return slices.IndexFunc(rows, func(r timelineRow) bool {
		return r.phase.Phase == phase && r.start <= from && to <= r.end
	})
}

// timelineKey tells rows apart.
type timelineKey struct {
	start time.Duration
	phase string
}

func (r timelineRow) key() timelineKey { return timelineKey{r.start, r.phase.Phase} }

func (k timelineKey) compare(other timelineKey) int {
	return cmp.Or(cmp.Compare(k.start, other.start), cmp.Compare(k.phase, other.phase))
}

// levelsOf returns the keys of the rows above a row, outermost first, and its own. Sorted by them,
// phases come in the order in which they began, each before those below it.
func levelsOf(rows []timelineRow, r timelineRow) []timelineKey {
	levels := []timelineKey{r.key()}
	for up := parentOf(r.phase.Phase); up != ""; up = parentOf(up) {
		if at := rowAt(rows, up, r.start, r.end); at >= 0 {
			levels = slices.Insert(levels, 0, rows[at].key())
		}
	}
	return levels
}

// parentOf is the address of the phase above; empty if there is none.
func parentOf(phase string) string { return phase[:max(strings.LastIndex(phase, "/"), 0)] }

// axisStep is the distance of the lines of the time axis: ten of them at most.
func axisStep(total time.Duration) time.Duration {
	step := time.Millisecond
	for step*10 < total {
		for _, factor := range []time.Duration{2, 5, 10} {
			if step*factor*10 >= total {
				return step * factor
			}
		}
		step *= 10
	}
	return step
}

func seconds(d time.Duration) string {
	switch {
	case d <= 0:
		return "0"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", 1000*d.Seconds())
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", 1000*d.Seconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
