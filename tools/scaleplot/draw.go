package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"kubeadm/tools/internal/chart"
)

// program is how the lines of a program look.
type program struct {
	id, name string
	color    color.Color
	ink      color.Color // of its values: darker than a pale line
	width    vg.Length
}

// The first is drawn first. Later lines are thinner, so that equal ones remain visible.
var programs = []program{
	{"upstream", "upstream", chart.UpstreamColor, color.RGBA{R: 0x66, G: 0x72, B: 0x7e, A: 0xff}, 4},
	{"before", "before", chart.BeforeColor, color.RGBA{R: 0x96, G: 0x5a, B: 0x14, A: 0xff}, 2.4},
	{"ours", "this project", chart.OursColor, chart.OursColor, 1.2},
}

// metric is what a column shows.
type metric struct {
	name   string
	value  func(measurement) float64
	format func(float64) string
	limit  float64 // what no command should exceed; 0: none
}

var metrics = []metric{
	{"requests", func(m measurement) float64 { return m.Requests }, formatRequests, 0},
	{"bytes received", func(m measurement) float64 { return m.Bytes }, formatBytes, 0},
	{"peak memory, limit 80 MB", func(m measurement) float64 { return m.Memory }, formatBytes,
		80 << 20},
	{"time, limit 3 s", func(m measurement) float64 { return m.Seconds }, formatSeconds, 3},
}

const (
	width, rowHeight = 700, 36
	head, foot       = 62, 22  // heights of what is above and below the rows
	titleWidth       = 152     // of the commands at the left
	firstRoom        = 32      // for values at the left ends of lines
	lastRoom         = 36      // and at the right ends
	inset            = 6       // from the edges of a row to its lines
	labelHeight      = 7       // distance of labels that would overlap
	small, normal    = 7.5, 10 // sizes of text
)

var (
	mutedColor = color.Gray{Y: 0x60}
	thinLine   = draw.LineStyle{Color: color.Gray{Y: 0xe4}, Width: 0.5}
	limitLine  = draw.LineStyle{Color: color.Black, Width: 0.5}
)

// scale maps a range of values to a range of coordinates, logarithmically.
type scale struct {
	min, max float64
	from, to vg.Length
}

// at returns the coordinate of a value, for 0 that of the minimum, since 0 has no logarithm.
func (s scale) at(v float64) vg.Length {
	if s.min == s.max {
		return (s.from + s.to) / 2
	}
	share := math.Log(max(v, s.min)/s.min) / math.Log(s.max/s.min)
	return s.from + vg.Length(share)*(s.to-s.from)
}

// drawRows draws the first row at the top. All rows of a column have the same scale.
func drawRows(rows []row) *vgsvg.Canvas {
	height := vg.Length(head + rowHeight*len(rows) + foot)
	canvas := vgsvg.New(width, height)
	c := draw.New(canvas)
	c.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	var all []measurement
	for _, r := range rows {
		for _, p := range programs {
			all = append(all, r.programs[p.id]...)
		}
	}
	top, bottom := height-head, vg.Length(foot)
	drawLegend(c, all, height-14)
	for i, r := range rows {
		y := top - vg.Length(i*rowHeight)
		c.StrokeLine2(thinLine, 0, y, width, y)
		name, flags := r.title()
		nameAt := y - rowHeight/2
		if flags != "" {
			nameAt += 5
			write(c, newStyle(small, mutedColor, text.XLeft), vg.Point{X: 4, Y: nameAt - 11}, flags)
		}
		write(c, newStyle(normal, color.Black, text.XLeft), vg.Point{X: 4, Y: nameAt}, name)
	}
	columnWidth := vg.Length(width-titleWidth) / vg.Length(len(metrics))
	for i, m := range metrics {
		left := titleWidth + columnWidth*vg.Length(i)
		nodes := func(m measurement) float64 { return float64(m.Nodes) }
		p := panel{m, newScale(all, nodes, 0), newScale(all, m.value, m.limit)}
		p.x.from, p.x.to = left+firstRoom, left+columnWidth-lastRoom
		p.y.from, p.y.to = bottom, top
		p.drawGrid(c, all)
		for i, r := range rows {
			p.y.to = top - vg.Length(i*rowHeight) - inset
			p.y.from = p.y.to - rowHeight + 2*inset
			p.drawLines(c, r)
		}
	}
	return canvas
}

// panel is the place of a metric: first of the whole column, then of one row after the other.
type panel struct {
	metric
	x, y scale
}

// newScale returns the scale of all values and a limit, without coordinates.
func newScale(all []measurement, value func(measurement) float64, limit float64) scale {
	s := scale{min: math.Inf(1), max: limit}
	for _, m := range all {
		if v := value(m); v > 0 {
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
	s.min = min(s.min, s.max)
	return s
}

// drawLegend explains the lines.
func drawLegend(c draw.Canvas, all []measurement, y vg.Length) {
	write(c, newStyle(normal, color.Black, text.XLeft), vg.Point{X: 4, Y: y},
		"cost by number of nodes; scales are logarithmic, the same in all rows")
	x := vg.Length(width)
	name := func(label string, line draw.LineStyle) {
		style := newStyle(normal, color.Black, text.XRight)
		write(c, style, vg.Point{X: x - 4, Y: y}, label)
		x -= style.Width(label) + 8
		c.StrokeLine2(line, x-16, y, x, y)
		x -= 24
	}
	name("limit", limitLine)
	for _, p := range programs {
		if slices.ContainsFunc(all, func(m measurement) bool { return m.Program == p.id }) {
			name(p.name, draw.LineStyle{Color: p.color, Width: p.width})
		}
	}
}

// drawGrid draws what all rows of a column share: its name, and a line for each number of nodes.
func (p panel) drawGrid(c draw.Canvas, all []measurement) {
	style := newStyle(normal, color.Black, text.XCenter)
	write(c, style, vg.Point{X: (p.x.from + p.x.to) / 2, Y: p.y.to + 24}, p.name)
	drawn := map[int]bool{}
	for _, m := range all {
		if drawn[m.Nodes] {
			continue
		}
		drawn[m.Nodes] = true
		x := p.x.at(float64(m.Nodes))
		c.StrokeLine2(thinLine, x, p.y.from, x, p.y.to)
		for _, y := range []vg.Length{p.y.to + 8, p.y.from - 8} { // one is in sight of each row
			write(c, newStyle(small, mutedColor, text.XCenter), vg.Point{X: x, Y: y}, formatCount(m.Nodes))
		}
	}
}

// drawLines draws the lines of one command, with their last values at the right, and the first value
// of ours at the left.
func (p panel) drawLines(c draw.Canvas, r row) {
	if p.limit > 0 {
		c.StrokeLine2(limitLine, p.x.from, p.y.at(p.limit), p.x.to, p.y.at(p.limit))
	}
	var labels []label
	for _, program := range programs {
		measured := r.programs[program.id]
		if len(measured) == 0 {
			continue
		}
		var points []vg.Point
		dot := draw.GlyphStyle{Color: program.color, Radius: 0.6 + program.width/2,
			Shape: draw.CircleGlyph{}}
		for _, m := range measured {
			points = append(points, vg.Point{X: p.x.at(float64(m.Nodes)), Y: p.y.at(p.value(m))})
			c.DrawGlyphNoClip(dot, points[len(points)-1])
		}
		c.StrokeLines(draw.LineStyle{Color: program.color, Width: program.width}, points)
		first, last := points[0], points[len(points)-1]
		if program.id == "ours" && len(points) > 1 {
			at := vg.Point{X: first.X - 4, Y: first.Y}
			write(c, newStyle(small, program.ink, text.XRight), at, p.format(p.value(measured[0])))
		}
		last.X += 5
		labels = append(labels, label{last, p.format(p.value(measured[len(measured)-1])), program.ink})
	}
	writeLabels(c, labels, p.y.to)
}

// label is the value at the end of a line.
type label struct {
	at   vg.Point
	text string
	ink  color.Color
}

// writeLabels moves labels of close lines up, and then those above the highest place down.
func writeLabels(c draw.Canvas, labels []label, highest vg.Length) {
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.at.Y, b.at.Y) })
	for i := 1; i < len(labels); i++ {
		labels[i].at.Y = max(labels[i].at.Y, labels[i-1].at.Y+labelHeight)
	}
	for _, l := range slices.Backward(labels) {
		l.at.Y = min(l.at.Y, highest)
		highest = l.at.Y - labelHeight
		write(c, newStyle(small, l.ink, text.XLeft), l.at, l.text)
	}
}

func newStyle(size vg.Length, ink color.Color, align text.XAlignment) text.Style {
	font := chart.Font
	font.Size = size
	return text.Style{Color: ink, Font: font, XAlign: align, YAlign: text.YCenter,
		Handler: plot.DefaultTextHandler}
}

// write writes a text beside or around a point.
func write(c draw.Canvas, style text.Style, at vg.Point, s string) {
	at.Y += style.Font.Size / 8 // the middle of a digit, which has no descender
	c.FillText(style, at, s)
}

func formatRequests(v float64) string { return fmt.Sprintf("%.0f", v) }

// formatNumber returns a number with two significant digits, or all digits of a larger integer.
func formatNumber(v float64) string {
	switch {
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2g", v)
}

func formatSeconds(v float64) string { return formatNumber(v) + " s" }

// formatBytes has the units of test/scale: a megabyte is 2^20 bytes.
func formatBytes(v float64) string {
	switch {
	case v >= 1<<20:
		return formatNumber(v/(1<<20)) + " MB"
	case v >= 1<<10:
		return formatNumber(v/(1<<10)) + " kB"
	}
	return formatNumber(v) + " B"
}

// formatCount separates thousands.
func formatCount(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", formatCount(n/1000), n%1000)
}
