package media

import (
	"encoding/binary"
	"image/jpeg"
	"math"
	"strings"
	"testing"

	"spate/internal/rng"
)

// riff splits a list of chunks; lists begin with their name.
func riff(t *testing.T, b []byte) (out [][2]string) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 8 {
			t.Fatalf("%d bytes behind the last piece", len(b))
		}
		n := int(binary.LittleEndian.Uint32(b[4:]))
		if n > len(b)-8 {
			t.Fatalf("piece %q of %d bytes in %d", b[:4], n, len(b)-8)
		}
		out = append(out, [2]string{string(b[:4]), string(b[8 : 8+n])})
		b = b[min(len(b), 8+n+n%2):]
	}
	return out
}

// TestVideo takes a made-up video apart: its frames are pictures of the size, and the index points at them.
func TestVideo(t *testing.T) {
	data, err := Video(rng.New(1, "v"), Size{Height: 17, Width: 33, Frames: 5})
	if err != nil {
		t.Fatal(err)
	}
	file := riff(t, data)
	if len(file) != 1 || file[0][0] != "RIFF" || !strings.HasPrefix(file[0][1], "AVI ") {
		t.Fatalf("%.40q", data)
	}
	pieces := riff(t, []byte(file[0][1][4:]))
	if len(pieces) != 3 || !strings.HasPrefix(pieces[0][1], "hdrl") || !strings.HasPrefix(pieces[1][1], "movi") || pieces[2][0] != "idx1" {
		t.Fatalf("%.20q", pieces)
	}
	head := riff(t, []byte(pieces[0][1][4:]))
	word := func(s string, i int) uint32 { return binary.LittleEndian.Uint32([]byte(s)[4*i:]) }
	if h := head[0][1]; len(h) != 56 || word(h, 0) != 33333 || word(h, 4) != 5 || word(h, 8) != 33 || word(h, 9) != 17 {
		t.Errorf("header %q", h)
	}
	stream := riff(t, []byte(head[1][1][4:]))
	if len(stream[0][1]) != 56 || len(stream[1][1]) != 40 || !strings.HasPrefix(stream[0][1], "vidsMJPG") {
		t.Errorf("stream %q", stream)
	}
	movi, seen := pieces[1][1], map[string]bool{}
	for i, f := range riff(t, []byte(movi[4:])) {
		img, err := jpeg.DecodeConfig(strings.NewReader(f[1]))
		if err != nil || f[0] != "00dc" || img.Width != 33 || img.Height != 17 {
			t.Fatalf("frame %d: %+v, %v", i, img, err)
		}
		at, n := word(pieces[2][1], 4*i+2), word(pieces[2][1], 4*i+3)
		if movi[at:at+4] != "00dc" || int(n) != len(f[1]) {
			t.Errorf("frame %d is not at %d", i, at)
		}
		seen[f[1]] = true
	}
	if len(seen) != 5 || len(pieces[2][1]) != 5*16 {
		t.Errorf("%d different frames, an index of %d bytes", len(seen), len(pieces[2][1]))
	}
}

func FuzzMedia(f *testing.F) {
	f.Add("image", "\x89PNG\r\n\x1a\n")
	f.Add("audio", "fLaC\x80\x00\x00\x22")
	f.Add("video", "https://x/y")
	f.Fuzz(func(t *testing.T, kind, v string) {
		m, err := Column(kind, []any{v, map[string]any{"bytes": v, "path": "x"}, map[string]any{"array": []any{1.0, v}, "sampling_rate": 8.0}})
		if err == nil && len(m) == 0 {
			t.Fatal("samples are lost")
		}
		if s := Seconds([]byte(v)); !(s >= 0) {
			t.Fatalf("%v seconds", s)
		}
	})
}

func FuzzWAV(f *testing.F) {
	f.Add(WAV(make([]any, 80), 8000))
	f.Add([]byte("RIFF\x00\x00\x00\x00WAVEdata\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s := WAVSeconds(data); !(s >= 0) || math.IsInf(s, 1) {
			t.Fatalf("%v seconds", s)
		}
	})
}
