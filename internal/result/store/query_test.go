package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseBound(t *testing.T) {
	for _, c := range []struct {
		text, want, problem string
	}{
		{"mean_ttft_ms<200", "mean_ttft_ms<200", ""},
		{" output_throughput >= 1e3 ", "output_throughput>=1000", ""},
		{"p99_ttft<1.5s", "p99_ttft_ms<1500", ""},
		{"p99.9_itl_ms<=2ms", "p99.9_itl_ms<=2", ""},
		{"completed==10", "completed=10", ""},
		{"failed!=0", "failed<>0", ""},
		{"failed>-1", "failed>-1", ""},
		{"max>inf", "max>+Inf", ""},
		{"duration<5s", "", "is no number"},
		{"mean_ttft_ms", "", "is no bound"},
		{"<5", "", "is no bound"},
		{"a<", "", "is no bound"},
		{"a<nan", "", "nothing compares"},
		{"a<five", "", "is no number"},
	} {
		b, err := ParseBound(c.text)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q: %v, want %q", c.text, err, c.problem)
			}
			continue
		}
		if err != nil || b.String() != c.want {
			t.Errorf("%q is %v, %v; want %s", c.text, b, err, c.want)
		}
	}
}

func TestParseWhen(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, zone)
	for _, c := range []struct {
		text string
		want time.Time
	}{
		{"90m", now.Add(-90 * time.Minute)},
		{"7d", now.Add(-7 * 24 * time.Hour)},
		{"1.5d", now.Add(-36 * time.Hour)},
		{"2w", now.Add(-14 * 24 * time.Hour)},
		{"0s", now},
		{"2026-11-01", time.Date(2026, 11, 1, 0, 0, 0, 0, zone)},
		{"20261101", time.Date(2026, 11, 1, 0, 0, 0, 0, zone)},
		{"2026-11-01T08:30", time.Date(2026, 11, 1, 8, 30, 0, 0, zone)},
		{"2026-11-01 08:30:15", time.Date(2026, 11, 1, 8, 30, 15, 0, zone)},
		{"2026-11-01T08:30:00Z", time.Date(2026, 11, 1, 8, 30, 0, 0, time.UTC)},
	} {
		got, err := ParseWhen(c.text, now)
		if err != nil || !got.Equal(c.want) {
			t.Errorf("%q is %v, %v; want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "yesterday", "-3d", "-5m", "d", "2026-13-01", "1e300w", "nand"} {
		if at, err := ParseWhen(text, now); err == nil {
			t.Errorf("%q is %v, want an error", text, at)
		}
	}
}

func TestParseQuery(t *testing.T) {
	got, err := ParseQuery("model:Qwen*,label:tp=2, label:best,where:p99_ttft<1s,gpu:h100,engine:vllm,backend:openai,format:vllm-block,verdict:valid")
	want := Filter{
		Model: "Qwen*", GPU: "h100", Engine: "vllm", Backend: "openai", Format: "vllm-block", Verdict: "valid",
		Labels: []Label{{Name: "tp", Value: "2"}, {Name: "best", Any: true}},
		Where:  []Bound{{Figure: "p99_ttft_ms", Op: Less, Value: 1000}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, c := range []struct {
		ref  string
		want bool
	}{{"model:x", true}, {"label:", true}, {"C:\\runs", false}, {"page.md:12", false}, {"last", false}} {
		if IsQuery(c.ref) != c.want {
			t.Errorf("%q is a query: %v", c.ref, !c.want)
		}
	}
}

func TestLocate(t *testing.T) {
	home, exists := filepath.FromSlash("/home/me"), t.TempDir()
	for _, c := range []struct {
		name, said string
		env        map[string]string
		want       string
	}{
		{"said", "here", map[string]string{"SPATE_STORE": "there", "HOME": home}, filepath.Join("here", "spate.db")},
		{"a file", "here.db", nil, "here.db"},
		{"a folder", exists, nil, filepath.Join(exists, "spate.db")},
		{"a folder to be", "x.d/", nil, filepath.Join("x.d", "spate.db")},
		{"sqlite URL", "sqlite://x.db", nil, "x.db"},
		{"environment", "", map[string]string{"SPATE_STORE": "there.db", "HOME": home}, "there.db"},
		{"data home", "", map[string]string{"XDG_DATA_HOME": "/data", "HOME": home}, filepath.FromSlash("/data/spate/spate.db")},
		{"data home, relative", "", map[string]string{"XDG_DATA_HOME": "data", "HOME": home}, filepath.Join(home, ".local", "share", "spate", "spate.db")},
		{"home", "", map[string]string{"HOME": home}, filepath.Join(home, ".local", "share", "spate", "spate.db")},
		{"postgres", "postgres://me:secret@db/x?sslpassword=secret", nil, "postgres://me:xxxxx@db/x?sslpassword=REDACTED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			where, err := Locate(c.said, func(name string) string { return c.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			p, err := parsePlace(where)
			if err != nil || p.shown != c.want {
				t.Errorf("%s, %v; want %s", p.shown, err, c.want)
			}
		})
	}
	if _, err := Locate("", func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("without a home: %v", err)
	}
}

func FuzzParseQuery(f *testing.F) {
	for _, s := range []string{"model:Qwen*", "label:a=b,where:x<1", "where:p99_ttft<1s", "::,", "label:=", "7d", "2026-11-15"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := ParseQuery(text); err == nil {
			sql, args := q.conditions()
			if n := strings.Count(sql, "?"); n != len(args) || n == 0 {
				t.Errorf("%d places for %d values in %s", n, len(args), sql)
			}
		}
		if b, err := ParseBound(text); err == nil {
			again, err := ParseBound(b.String())
			if err != nil || again != b {
				t.Errorf("%q is %v, read again %v, %v", text, b, again, err)
			}
		}
		now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
		if at, err := ParseWhen(text, now); err == nil && (at.Year() < -1 || at.Year() > 10000) {
			t.Errorf("%q is %v", text, at)
		}
	})
}
