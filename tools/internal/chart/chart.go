// Package chart has what the charts of measurements share: colors, the font, and how a file is
// written.
package chart

import (
	"bytes"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colors of the programs differ in brightness too, for readers who do not see the hue.
var (
	OursColor     = color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}
	BeforeColor   = color.RGBA{R: 0xc7, G: 0x7f, B: 0x2a, A: 0xff} // an older build of ours
	UpstreamColor = color.RGBA{R: 0xb8, G: 0xc4, B: 0xd0, A: 0xff}
)

// Font is the font of all text. Gonum measures it to place the text.
var Font = font.Font{Typeface: "Liberation", Variant: "Sans"}

// Write writes a drawing as an SVG file.
func Write(file string, canvas *vgsvg.Canvas) error {
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// Readers without the font need one whose letters have the same widths.
	text := strings.ReplaceAll(svg.String(), "font-family:Liberation Sans",
		"font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	return os.WriteFile(file, []byte(text), 0o644)
}
