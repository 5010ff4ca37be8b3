package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"slices"
	"strconv"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// The picture's measures, in pixels.
const (
	panelWidth  = 560
	panelHeight = 360
	margin      = 48
	bins        = 40
)

var (
	ink  = color.RGBA{0x22, 0x22, 0x22, 0xff}
	fill = color.RGBA{0x3b, 0x7d, 0xd8, 0xff}
)

// Lengths writes a PNG with a histogram of the prompt and output lengths that were sent.
func Lengths(w io.Writer, in, out []int) error {
	img := image.NewRGBA(image.Rect(0, 0, 2*panelWidth, panelHeight))
	draw.Draw(img, img.Bounds(), image.White, image.Point{}, draw.Src)
	panel(img, 0, "input tokens per request", in)
	panel(img, panelWidth, "output tokens per request", out)
	if err := png.Encode(w, img); err != nil {
		return fmt.Errorf("write picture of lengths: %w", err)
	}
	return nil
}

// panel draws one histogram with its left edge at x.
func panel(img *image.RGBA, x int, title string, values []int) {
	text(img, x+margin, 20, fmt.Sprintf("%s (n = %d)", title, len(values)))
	base, right := panelHeight-margin, x+panelWidth-margin/2
	rect(img, x+margin, base, right, base+1, ink)
	if len(values) == 0 {
		return
	}
	counts, low, width := histogram(values)
	most := slices.Max(counts)
	span := right - (x + margin)
	for i, n := range counts {
		h := n * (base - margin) / most
		rect(img, x+margin+i*span/len(counts), base-h, x+margin+(i+1)*span/len(counts)-1, base, fill)
	}
	text(img, x+8, margin+4, strconv.Itoa(most))
	text(img, x+8, base, "0")
	text(img, x+margin, base+18, strconv.Itoa(low))
	end := strconv.Itoa(low + width*len(counts))
	text(img, right-7*len(end), base+18, end)
}

// histogram counts values in at most bins equal steps of whole tokens.
func histogram(values []int) (counts []int, low, width int) {
	low = slices.Min(values)
	span := slices.Max(values) - low + 1
	width = (span + bins - 1) / bins
	counts = make([]int, (span+width-1)/width)
	for _, v := range values {
		counts[(v-low)/width]++
	}
	return counts, low, width
}

func rect(img *image.RGBA, x0, y0, x1, y1 int, c color.Color) {
	draw.Draw(img, image.Rect(x0, y0, max(x1, x0+1), y1), image.NewUniform(c), image.Point{}, draw.Src)
}

func text(img *image.RGBA, x, y int, s string) {
	d := font.Drawer{Dst: img, Src: image.NewUniform(ink), Face: basicfont.Face7x13, Dot: fixed.P(x, y)}
	d.DrawString(s)
}
