package observe

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLinesComeBack(t *testing.T) {
	in := []Sample{
		{At: 1500 * time.Millisecond, Source: Server, Values: map[string]float64{"running": 3, "waiting": 0}},
		{At: 2500*time.Millisecond + 250*time.Microsecond, Source: "gpu0", Values: map[string]float64{"power": 612.5}},
	}
	var file bytes.Buffer
	for _, s := range in {
		text, err := encode(s)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(text)
	}
	whole := file.String()
	file.WriteString(`{"at_ms":3000,"source":"ser`) // killed here
	got, bad, err := Decode(&file)
	if d := cmp.Diff(in, got); err != nil || bad != 1 || d != "" {
		t.Errorf("%d bad, %v (-want +got):\n%s", bad, err, d)
	}
	if !strings.HasPrefix(whole, `{"at_ms":1500,"source":"server","values":{"running":3,"waiting":0}}`+"\n") {
		t.Errorf("file is %s", whole)
	}
	text, err := encode(Sample{Source: Host, Values: map[string]float64{"cpu": math.NaN(), "load": math.Inf(1), "x": 1}})
	if err != nil || string(text) != `{"at_ms":0,"source":"host","values":{"x":1}}`+"\n" {
		t.Errorf("what is no number became %s, %v", text, err)
	}
}

func TestReadOfAFolder(t *testing.T) {
	dir := t.TempDir()
	if got, err := Read(dir); len(got) > 0 || err != nil {
		t.Errorf("a run that was not observed has %v, %v", got, err)
	}
	text := "nonsense\n" + `{"at_ms":1000,"source":"server","values":{"running":2,"generation_tokens":100}}
{"at_ms":3000,"source":"server","values":{"running":4,"generation_tokens":500}}
`
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []Series{
		{Name: "generation_rate", Unit: "tokens/s", Source: Server, Points: []Point{{3 * time.Second, 200}}},
		{Name: "running", Unit: "requests", Source: Server, Points: []Point{{time.Second, 2}, {3 * time.Second, 4}}},
	}
	got, err := Read(dir)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"at_ms":1000,"source":"server","values":{"running":2,"queue_sum":1.5,"queue_count":3}}` + "\n"))
	f.Add([]byte(`{"at_ms":1e300,"source":"gpu0","values":{"power":600}}` + "\n{"))
	f.Add([]byte(`{"at_ms":-5,"source":"log","values":{"kv_usage":0.5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		samples, _, err := Decode(bytes.NewReader(data))
		if err != nil {
			return // a line beyond all bounds
		}
		for _, s := range samples {
			if s.Source == "" || len(s.Values) == 0 {
				t.Fatalf("an empty sample: %+v", s)
			}
		}
		for _, s := range Derive(samples) {
			for i, p := range s.Points {
				if i > 0 && p.At < s.Points[i-1].At {
					t.Fatalf("%s is not in order of time", s.Name)
				}
			}
		}
		Summarize(samples, nil, Run{To: time.Hour, MeanTTFT: 1, Input: 1, Output: 1, PricePerHour: 1})
	})
}
