// Command benchplot draws the times that test/bench has measured as a bar chart in SVG, ours beside
// upstream's.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"kubeadm/tools/internal/chart"
)

func main() {
	in := flag.String("json", "", "file that test/bench has written with --json")
	out := flag.String("svg", "", "file to write")
	flag.Parse()
	err := errors.New("benchplot needs --json and --svg, and takes no arguments")
	if flag.NArg() == 0 && *in != "" && *out != "" {
		err = drawFile(*in, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func drawFile(in, out string) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	figures, err := readFigures(data)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	canvas, err := drawChart(figures)
	if err != nil {
		return err
	}
	return chart.Write(out, canvas)
}

// figure is a time that was measured of both programs, in seconds.
type figure struct {
	title          string
	ours, upstream float64 // medians
	limit          float64 // about the least that is possible; 0: not measured
}

// readFigures returns the times of both programs that are long enough for a bar, in the order of
// the file.
func readFigures(data []byte) ([]figure, error) {
	type median struct{ Median float64 }
	var report struct {
		Figures []struct {
			ID, Title, Unit string
			Ours, Upstream  *median
		}
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	const shortest = 1 // second; shorter bars cannot be seen
	var all []figure
	limits := map[string]float64{} // by the ID of the figure that they limit; measured with our files
	for _, f := range report.Figures {
		if limited, ok := strings.CutSuffix(f.ID, "-limit"); ok && f.Ours != nil {
			limits[limited] = f.Ours.Median
		}
	}
	command := "" // the one that an indented title is a part of
	for _, f := range report.Figures {
		title, isPart := strings.CutPrefix(f.Title, "  ")
		if isPart {
			title = command + ": " + title
		} else {
			command, _, _ = strings.Cut(title, ",")
		}
		if strings.HasSuffix(f.ID, "-limit") || f.Unit != "s" || f.Ours == nil || f.Upstream == nil || f.Upstream.Median < shortest {
			continue
		}
		all = append(all, figure{title, f.Ours.Median, f.Upstream.Median, limits[f.ID]})
	}
	if len(all) == 0 {
		return nil, errors.New("it has no times of both programs")
	}
	return all, nil
}

const barWidth = vg.Length(9)

// drawChart draws two bars for each figure, the first figure at the top.
func drawChart(figures []figure) (*vgsvg.Canvas, error) {
	figures = slices.Clone(figures)
	slices.Reverse(figures) // the axis begins at the bottom
	var titles []string
	var ours, upstream plotter.Values // as percentages of upstream's time
	var oursText, upstreamText []string
	for _, f := range figures {
		titles = append(titles, f.title)
		ours, upstream = append(ours, 100*f.ours/f.upstream), append(upstream, 100)
		oursText = append(oursText, fmt.Sprintf("%.1f s", f.ours))
		upstreamText = append(upstreamText, fmt.Sprintf("%.1f s", f.upstream))
	}
	plot.DefaultFont, plotter.DefaultFont = chart.Font, chart.Font
	p := plot.New()
	p.BackgroundColor = color.White
	p.X.Label.Text = "median time as a percentage of upstream kubeadm's; shorter is better"
	p.X.Min = 0
	for _, program := range []struct {
		name   string
		values plotter.Values
		text   []string
		color  color.Color
		offset vg.Length
	}{
		{"this project", ours, oursText, chart.OursColor, barWidth / 2},
		{"upstream", upstream, upstreamText, chart.UpstreamColor, -barWidth / 2},
	} {
		bars, err := plotter.NewBarChart(program.values, barWidth)
		if err != nil {
			return nil, err
		}
		bars.Horizontal, bars.Color, bars.Offset = true, program.color, program.offset
		bars.LineStyle.Width = 0
		labels, err := newValueLabels(program.values, program.text, program.offset)
		if err != nil {
			return nil, err
		}
		p.Add(bars, labels)
		p.Legend.Add(program.name, bars)
	}
	if err := addLimits(p, figures); err != nil {
		return nil, err
	}
	p.NominalY(titles...)
	p.X.Max *= 1.08                                    // room for the values at the ends of the bars
	p.Y.Min, p.Y.Max = -0.5, float64(len(figures))+0.6 // and for the legend above them
	p.Legend.Top = true
	canvas := vgsvg.New(vg.Length(660), vg.Length(100+32*len(figures)))
	// Room at the left for readers whose font is wider.
	p.Draw(draw.Crop(draw.New(canvas), 20, -8, 0, 0))
	return canvas, nil
}

// addLimits draws a line across the bars of each figure that has a limit.
func addLimits(p *plot.Plot, figures []figure) error {
	named := false
	for i, f := range figures {
		if f.limit == 0 {
			continue
		}
		at := 100 * f.limit / f.upstream
		line, err := plotter.NewLine(plotter.XYs{{X: at, Y: float64(i) - 0.4}, {X: at, Y: float64(i) + 0.4}})
		if err != nil {
			return err
		}
		line.Width = vg.Length(1.5)
		p.Add(line)
		if !named {
			p.Legend.Add("limit: start of the kubelet to a live API server", line)
			named = true
		}
	}
	return nil
}

// newValueLabels writes the texts at the ends of bars with that offset.
func newValueLabels(values plotter.Values, texts []string, offset vg.Length) (*plotter.Labels, error) {
	at := plotter.XYLabels{}
	for i, v := range values {
		at.XYs = append(at.XYs, plotter.XY{X: v, Y: float64(i)})
	}
	at.Labels = texts
	labels, err := plotter.NewLabels(at)
	if err != nil {
		return nil, err
	}
	labels.Offset = vg.Point{X: 3, Y: offset}
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font.Size = 8
		labels.TextStyle[i].YAlign = draw.YCenter
	}
	return labels, nil
}
