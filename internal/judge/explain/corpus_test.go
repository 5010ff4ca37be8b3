package explain

import (
	"os"
	"path/filepath"
	"testing"

	"spate/internal/result/harvest"
)

// Excerpts of published reports whose cause is known from their engine's log or from what is known of the server.
func TestReports(t *testing.T) {
	type want struct {
		name string
		sure Confidence
	}
	cases := []struct {
		file  string
		wants []want // all causes, in order
	}{
		{"decode-and-cached.txt", []want{{DecodeBound, High}, {PrefixCache, Medium}, {BelowCapacity, Medium}}},
		{"cache-full.txt", []want{{KVCacheFull, High}, {PrefixCache, Medium}}},
		{"max-num-seqs.txt", []want{{MaxNumSeqs, Medium}, {PrefixCache, Medium}}},
		{"max-num-seqs-no-log.txt", []want{{MaxNumSeqs, Medium}}},
		{"prefill.txt", []want{{PrefillBound, Medium}, {BelowCapacity, Low}}},
		{"rate-kept.txt", []want{{BelowCapacity, Medium}, {PrefillBound, Low}}},
		{"cannot-tell.txt", []want{{KVCacheFull, Low}, {CannotTell, ""}}},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("testdata", c.file))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close() //nolint:errcheck // read only
			set, err := harvest.Read(c.file, f)
			if err != nil || len(set.Entries) != 1 {
				t.Fatalf("%+v, %v, want one result", set, err)
			}
			got := Of(&set.Entries[0])
			same := len(got) == len(c.wants)
			for i := range got {
				same = same && got[i].Name == c.wants[i].name && got[i].Confidence == c.wants[i].sure
			}
			if !same {
				t.Errorf("got %+v\nwant %v", got, c.wants)
			}
			lawful(t, got)
		})
	}
}

func TestNothingToExplain(t *testing.T) {
	got := Explain(Input{})
	if len(got) != 1 || got[0].Name != CannotTell || len(got[0].Needs) == 0 {
		t.Errorf("nothing known gives %+v", got)
	}
	got = Explain(Input{RequestRate: 3, TTFT: Latency{Mean: 100}, E2EL: Latency{Mean: 190}, MeanIn: 10, MeanOut: 10})
	if len(got) != 1 || got[0].Name != CannotTell || len(got[0].Needs) != 3 {
		t.Errorf("too little gives %+v", got)
	}
}

func TestFlagOfALaunch(t *testing.T) {
	for command, want := range map[string]int{
		"vllm serve m --max-num-seqs 64":            64,
		"docker run x --max_num_seqs=128 --model m": 128,
		"vllm serve m --max-num-seqs":               0,
		"vllm serve m --max-num-seqs auto":          0,
		"":                                          0,
	} {
		if got := flag(command, "--max-num-seqs"); got != want {
			t.Errorf("%q: %d, want %d", command, got, want)
		}
	}
}
