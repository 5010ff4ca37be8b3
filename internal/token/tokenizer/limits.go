package tokenizer

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlclark/regexp2/v2"
)

// A tokenizer file says how texts are rewritten and cut, and may come from anywhere. What it asks for is bounded
// here: the time of one match, how much longer a text may become, and how many tokens are put around one. A
// tokenizer that goes over a bound is of no use from then on: Err says why, and no further time is spent on it.

const (
	// matchTime bounds one search for a match. Patterns of real tokenizers take microseconds for a text of pages.
	matchTime = time.Second
	// A text may become maxGrowth times as long, and maxExtra bytes more. Accents apart from their letters and
	// marks for spaces make three times of it at most.
	maxGrowth = 32
	maxExtra  = 1 << 20
	// maxAround bounds the tokens around a text.
	maxAround = 4096
)

// limitError is a bound that a tokenizer went over. It travels as a panic from where the bound is to Encode and
// Decode, which have no error to return.
type limitError struct{ why string }

func (e *limitError) Error() string { return e.why }

// trouble keeps the first bound that was gone over.
type trouble struct{ first atomic.Pointer[limitError] }

// rescue ends a panic about a bound and keeps it; every other panic goes on.
func (t *trouble) rescue() {
	switch e := recover().(type) {
	case nil:
	case *limitError:
		t.first.CompareAndSwap(nil, e)
	default:
		panic(e)
	}
}

// Err says why the tokenizer cannot be used: it went over a bound while it encoded or decoded a text. What it
// returned since then is not to be used.
func (t *Tokenizer) Err() error {
	if e := t.trouble.first.Load(); e != nil {
		return fmt.Errorf("tokenizer: %w", e)
	}
	return nil
}

// grown checks the length a text of n bytes would get.
func grown(step string, n, to int) {
	if to > maxGrowth*n+maxExtra || to < 0 {
		panic(&limitError{fmt.Sprintf("%s makes %d bytes of %d: a text may become %d times as long and %d bytes more", step, to, n, maxGrowth, maxExtra)})
	}
}

// replaceAll is strings.ReplaceAll within the bound of growth.
func replaceAll(s, old, with string) string {
	if len(with) > len(old) {
		grown("Replace", len(s), len(s)+strings.Count(s, old)*(len(with)-len(old)))
	}
	return strings.ReplaceAll(s, old, with)
}

// gaveUp turns an error of the pattern engine into the bound it stands for.
func gaveUp(re *regexp2.Regexp, n int, err error) {
	if err != nil {
		panic(&limitError{fmt.Sprintf("the pattern %.200q takes more than %v on a text of %d bytes", re.String(), matchTime, n)})
	}
}

// whole checks the tokens around a text.
func whole(before, after []int32) error {
	if n := len(before) + len(after); n > maxAround {
		return fmt.Errorf("the post-processor puts %d tokens around a text: the bound is %d", n, maxAround)
	}
	return nil
}

// within runs what a file asks for while it is loaded.
func within(load func() (*Tokenizer, error)) (t *Tokenizer, err error) {
	var over trouble
	t, err = func() (*Tokenizer, error) {
		defer over.rescue()
		return load()
	}()
	if e := over.first.Load(); e != nil {
		return nil, e
	}
	return t, err
}
