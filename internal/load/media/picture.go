package media

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Size is the size of a picture and how likely it is; several frames are a video.
type Size struct {
	Height, Width, Frames int
	Share                 float64
}

// ParseSizes reads vLLM's bucket configuration, a Python dict: {(256, 256, 1): 0.5, (720, 1280, 1): 0.5}. The three
// numbers are height, width and frames.
func ParseSizes(s string) ([]Size, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), "{")
	body, closed := strings.CutSuffix(body, "}")
	if !ok || !closed {
		return nil, fmt.Errorf("%.60q is not a dict such as {(256, 256, 1): 1.0}", s)
	}
	var out []Size
	for strings.Trim(body, ", \n") != "" {
		body = strings.TrimLeft(body, ", \n")
		key, rest, ok := strings.Cut(body, ")")
		key, open := strings.CutPrefix(key, "(")
		nums := strings.Split(key, ",")
		if !ok || !open || len(nums) != 3 {
			return nil, fmt.Errorf("%.40q is not (HEIGHT, WIDTH, FRAMES): SHARE", body)
		}
		var p Size
		for i, to := range []*int{&p.Height, &p.Width, &p.Frames} {
			n, err := strconv.Atoi(strings.TrimSpace(nums[i]))
			if err != nil || n < 1 || n > 1<<14 {
				return nil, fmt.Errorf("%.40q is not a number of pixels or frames between 1 and %d", nums[i], 1<<14)
			}
			*to = n
		}
		rest, ok = strings.CutPrefix(strings.TrimSpace(rest), ":")
		share, more, _ := strings.Cut(rest, ",")
		v, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		if !ok || err != nil || !(v >= 0) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("%.40q is not a share", share)
		}
		p.Share = v
		out, body = append(out, p), more
	}
	return out, nil
}

// Modality is 0 for pictures and 1 for videos.
func (s Size) Modality() int { return min(1, s.Frames-1) }

// Picture is a picture nothing can compress or has seen before.
func Picture(draws *rand.Rand, size Size) ([]byte, error) {
	img := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
	for i := 0; i+8 <= len(img.Pix); i += 8 {
		binary.LittleEndian.PutUint64(img.Pix[i:], draws.Uint64()|0xff000000ff000000)
	}
	if len(img.Pix)%8 != 0 {
		binary.LittleEndian.PutUint32(img.Pix[len(img.Pix)-4:], draws.Uint32()|0xff000000)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 75}); err != nil { // as Pillow has it
		return nil, fmt.Errorf("encode a picture: %w", err)
	}
	return b.Bytes(), nil
}
