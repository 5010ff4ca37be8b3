package workload

import (
	"fmt"
	"reflect"
)

// Flag is a setting of a dataset as the command line has it. The package of flags gives it a reader by the type of To.
type Flag struct {
	Name    string
	Default string
	To      any // where the setting is; nil: it belongs to no dataset, and the table of flags knows its place
	Meta    string
	Help    string
	Choices []string
	Also    []string // other tools' spellings
	VLLM    bool     // a flag of vllm bench serve
	Main    bool     // shown in the short help
	Like    string   // the flag for all datasets that sets this one as well
	Prompt  bool     // a length of prompts, which is bounded
}

// Law is text that ParseDist reads.
type Law string

// ThinkTime is a duration, or a law in seconds.
type ThinkTime string

// Literal is a value as Python writes it.
type Literal string

// tokens is a flag for a number of tokens.
func tokens(name string, to *int, usual, help string) Flag {
	return Flag{Name: name, Default: usual, VLLM: true, To: to, Meta: "TOKENS", Help: help}
}

// as makes a flag one that --input-len or --output-len sets as well; prompts of such an input are bounded.
func (f Flag) as(like string) Flag {
	f.Like, f.Prompt = like, f.Prompt || like == inputLen
	return f
}

// The flags that set the lengths of every dataset.
const (
	inputLen  = "input-len"
	outputLen = "output-len"
)

// SetLengths sets lengths that were given for any dataset on every dataset, as vLLM does.
func (s *Settings) SetLengths(in, out *int) {
	for _, f := range s.Flags() {
		n := map[string]*int{inputLen: in, outputLen: out}[f.Like]
		if n == nil {
			continue
		}
		switch to := f.To.(type) {
		case *int:
			*to = *n
		case **int:
			*to = n
		}
	}
}

// reset sets the setting to its default.
func (f *Flag) reset() (err error) {
	if f.Default == "" || f.To == nil {
		return nil
	}
	switch to := reflect.ValueOf(f.To).Elem(); to.Kind() {
	case reflect.String:
		to.SetString(f.Default)
	case reflect.Slice:
		to.SetBytes([]byte(f.Default))
	case reflect.Struct: // a range ratio of 0
	default:
		_, err = fmt.Sscan(f.Default, f.To)
	}
	return err
}
