package workload

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// fitRounds are the decode/encode rounds spent on bringing a prompt to its length.
const fitRounds = 10

// fitter makes texts that encode to a number of tokens, and counts those it could not make.
type fitter struct {
	tok    Tokenizer
	missed atomic.Int64 // prompts that did not reach their length
	worst  atomic.Int64 // by how many tokens at most
}

// decode is the text of ids, special tokens spelled out.
func (f *fitter) decode(s *scratch, ids []int32) string {
	s.text = f.tok.AppendDecode(s.text[:0], ids, false)
	return string(s.text)
}

// fit looks for a text that encodes to want tokens: encoding what a sequence decodes to rarely
// gives the sequence back. Short ones are padded, long ones cut, at most fitRounds times. It
// returns the text and its ids.
func (f *fitter) fit(s *scratch, ids []int32, want int, pad func() int32) (string, []int32) {
	for round := 0; ; round++ {
		text := f.decode(s, ids)
		ids = s.enc.Encode(ids[:0], text, false)
		if len(ids) == want {
			return text, ids
		}
		if round == fitRounds {
			f.miss(len(ids) - want)
			return text, ids
		}
		for len(ids) < want {
			ids = append(ids, pad())
		}
		ids = ids[:want]
		runtime.Gosched()
	}
}

func (f *fitter) miss(by int) {
	f.missed.Add(1)
	by = max(by, -by)
	for {
		worst := f.worst.Load()
		if int64(by) <= worst || f.worst.CompareAndSwap(worst, int64(by)) {
			return
		}
	}
}

func (f *fitter) notes() []string {
	n := f.missed.Load()
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d prompts could not be brought to their length in %d rounds (off by %d tokens at most); their true length is recorded", n, fitRounds, f.worst.Load())}
}
