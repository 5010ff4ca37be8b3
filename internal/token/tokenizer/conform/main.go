// Command conform compares this module's tokenizer with expectations that
// gen/expect.mjs wrote, and says how many strings differ and how fast it was.
// scripts/tokenizer-conformance.sh runs it over the real vocabularies.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"spate/internal/token/tokenizer"
)

type expected struct {
	Vocab   int               `json:"vocab"`
	IDs     [][]int32         `json:"ids"`
	Decoded map[string]string `json:"decoded"`
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: conform NAME TOKENIZER CORPUS EXPECTED")
		os.Exit(2)
	}
	wrong, err := compare(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// compare prints one line of the table and returns how many strings differ.
func compare(name, model, corpusFile, expectedFile string) (int, error) {
	var corpus []string
	if err := readJSON(corpusFile, &corpus); err != nil {
		return 0, err
	}
	var want expected
	if err := readJSON(expectedFile, &want); err != nil {
		return 0, err
	}
	start := cpuTime()
	t, err := load(model)
	if err != nil {
		return 0, err
	}
	load := cpuTime() - start
	if t.VocabSize() != want.Vocab {
		return 0, fmt.Errorf("%s: vocabulary of %d, not %d", name, t.VocabSize(), want.Vocab)
	}
	ids, texts := count(t, corpus, want)
	fmt.Printf("%-14s %7d strings  %4d wrong ids  %4d wrong texts  %6.1f MB/s encode  %6.1f MB/s decode  load %d ms\n",
		name, len(corpus), ids, texts, encodeSpeed(t, corpus), decodeSpeed(t, want), load.Milliseconds())
	return ids + texts, nil
}

// load reads the file alone: the reference does not know what is beside it.
func load(name string) (*tokenizer.Tokenizer, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	if filepath.Ext(name) == ".tiktoken" {
		return tokenizer.ParseTiktoken(data, filepath.Base(name))
	}
	return tokenizer.Parse(data)
}

func count(t *tokenizer.Tokenizer, corpus []string, want expected) (ids, texts int) {
	enc := t.NewEncoder()
	for i, s := range corpus {
		if got := enc.Encode(nil, s, true); !slices.Equal(got, want.IDs[i]) {
			if ids++; ids <= 5 {
				fmt.Fprintf(os.Stderr, "%d %.120q\n got  %v\n want %v\n", i, s, got, want.IDs[i])
			}
		}
		text, differs := want.Decoded[strconv.Itoa(i)]
		if !differs {
			text = s
		}
		if got := t.Decode(want.IDs[i], true); got != text {
			if texts++; texts <= 5 {
				fmt.Fprintf(os.Stderr, "%d %.120q\n got  %.120q\n want %.120q\n", i, s, got, text)
			}
		}
	}
	return ids, texts
}

// encodeSpeed is over the whole corpus, twice, with a warm encoder.
func encodeSpeed(t *tokenizer.Tokenizer, corpus []string) float64 {
	enc := t.NewEncoder()
	var buf []int32
	var bytes int
	var start time.Duration
	for round := range 3 {
		if round == 1 {
			start = cpuTime()
		}
		for _, s := range corpus {
			buf = enc.Encode(buf[:0], s, false)
			if round > 0 {
				bytes += len(s)
			}
		}
	}
	return float64(bytes) / 1e6 / (cpuTime() - start).Seconds()
}

func decodeSpeed(t *tokenizer.Tokenizer, want expected) float64 {
	var buf []byte
	bytes := 0
	start := cpuTime()
	for _, ids := range want.IDs {
		buf = t.AppendDecode(buf[:0], ids, true)
		bytes += len(buf)
	}
	return float64(bytes) / 1e6 / (cpuTime() - start).Seconds()
}

// cpuTime is what the process has used of the processor: unlike the clock it
// means something on a busy machine. Collecting garbage counts too.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func readJSON(name string, to any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
