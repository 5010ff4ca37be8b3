package launch

import (
	"fmt"
	"regexp"
	"strings"
)

// Kind is why a start failed, or a server died.
type Kind string

// The kinds of failures.
const (
	BadFlag  Kind = "bad-flag"  // the server does not know a flag or a value
	Rule     Kind = "rule"      // flags that contradict each other or the model
	Memory   Kind = "memory"    // the GPU had too little
	KVSmall  Kind = "kv-cache"  // too little left for the KV cache
	Port     Kind = "port"      // taken
	CUDA     Kind = "cuda"      // driver or device
	Download Kind = "download"  // model or tokenizer could not be had
	NotFound Kind = "not-found" // no such program
	Timeout  Kind = "timeout"   // it did not answer in time
	Crash    Kind = "crash"     // it ended, and did not say why in words known here
	Unknown  Kind = ""
)

// Transient reports whether the same start may well succeed another time: it says nothing of the flags.
func (k Kind) Transient() bool { return k == Port || k == Download || k == Timeout }

// Failure is a start that failed, or a server that died.
type Failure struct {
	Kind      Kind   `json:"kind"`
	Line      string `json:"line"` // what the server said, to be searched for
	How       string `json:"how,omitempty"`
	Command   string `json:"command"`
	Log       string `json:"log,omitempty"`
	UnderLoad bool   `json:"under_load,omitempty"` // it had been ready
}

// Error is one line that names the kind, what the server said and where to read more.
func (f *Failure) Error() string {
	text := fmt.Sprintf("the server did not start (%s): %s", f.Kind, f.Line)
	if f.UnderLoad {
		text = fmt.Sprintf("the server died (%s): %s", f.Kind, f.Line)
	}
	if f.Command != "" {
		text += "; the command was " + f.Command
	}
	if f.Log != "" {
		text += "; its log is " + f.Log
	}
	return text
}

// signs are words by which a failure is known, the most telling first: the last traceback of a log often
// says only that a child died.
var signs = []struct {
	kind Kind
	re   *regexp.Regexp
}{
	{KVSmall, regexp.MustCompile(`(?i)no available memory for the cache blocks|(maximum number of tokens|max seq len).*(larger|greater) than.*KV cache|estimated maximum model length|KV cache is needed, which is larger than|not enough memory.*kv cache|failed to (find a memory slot|create.*kv cache)`)},
	{Memory, regexp.MustCompile(`(?i)out of memory|OutOfMemoryError|cudaErrorMemoryAllocation|free memory on device.*less than desired|cannot allocate memory|not enough memory`)},
	{Port, regexp.MustCompile(`(?i)address already in use|EADDRINUSE|couldn't bind`)},
	{BadFlag, regexp.MustCompile(`(?i)unrecognized arguments|invalid choice|invalid .* value:|expected one argument|unknown flag|unknown argument|invalid argument: |no such option|unknown shorthand flag|failed to open GGUF file`)},
	{Rule, regexp.MustCompile(`(?i)ValueError: .*(max_num_batched_tokens|max_num_seqs|max_model_len|divisible|must be (greater|smaller|less|divisible|set|equal|an? )|is smaller than|not supported|incompatible|cannot be used)|ValidationError|requires flash_attn|AssertionError: .*(must|should)|NotImplementedError`)},
	{Download, regexp.MustCompile(`(?i)(LocalEntryNotFound|HfHubHTTP|RepositoryNotFound|GatedRepo|OfflineModeIsEnabled)|couldn't connect to .*huggingface|can't load tokenizer|max retries exceeded with url|is not a local folder and is not a valid model identifier`)},
	{CUDA, regexp.MustCompile(`(?i)CUDA (error|driver|unknown|kernel)|no CUDA|NVML|cudaError|NCCL (error|WARN)|hipError|device-side assert|no kernel image`)},
	{Rule, regexp.MustCompile(`ValueError: `)},
}

// Classify sorts what a server printed before it ended. Later lines win over earlier ones of the same kind.
func Classify(log string) Failure {
	lines := strings.Split(log, "\n")
	for _, s := range signs {
		for i := len(lines) - 1; i >= 0; i-- {
			if s.re.MatchString(lines[i]) {
				return Failure{Kind: s.kind, Line: clean(lines[i])}
			}
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if line := clean(lines[i]); errorLine.MatchString(line) {
			return Failure{Line: line}
		}
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if line := clean(lines[i]); line != "" {
			return Failure{Line: line}
		}
	}
	return Failure{}
}

var (
	errorLine = regexp.MustCompile(`^(\w+\.)*\w*(Error|Exception|Exit)\b|(?i)^(error|fatal|panic)\b`)
	ansi      = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")
	prefix    = regexp.MustCompile(`^(\d+(?:\.\d+){3} [A-Z] +(?:\w+ +)?\w+: )?(\([^)]*pid=\d+\)\s*)?((INFO|WARNING|ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d\s+\[[^\]]*\]\s*)?`)
)

const maxLine = 500

// clean is a line without colours and without what a logger puts before it.
func clean(line string) string {
	line = ansi.ReplaceAllString(line, "")
	line = strings.TrimSpace(prefix.ReplaceAllString(strings.TrimSpace(line), ""))
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + " ..."
	}
	return line
}
