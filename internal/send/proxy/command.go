package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"spate/internal/console"
	"spate/internal/load/trace"
	"spate/internal/safe/secret"
	"spate/internal/token/tokenizer"
)

// Command is `spate record`.
type Command struct {
	cfg       Config
	tokenizer string
	saltFile  string
	sort      string
}

// Bind adds the flags to a set.
func (o *Command) Bind(f *pflag.FlagSet) {
	f.StringVar(&o.cfg.Upstream, "upstream", "", "`URL` of the server; a path in it goes before those of requests")
	f.StringVar(&o.cfg.Listen, "listen", "127.0.0.1:9000", "`address` that clients send to; port 0 picks a free one")
	f.StringVarP(&o.cfg.Path, "output", "o", "", "`file` of the trace")
	f.BoolVar(&o.cfg.Overwrite, "overwrite", false, "replace an existing file")
	f.IntVar(&o.cfg.Block, "block-size", trace.Mooncake().Chunk, "`tokens` that one block id stands for")
	f.StringVar(&o.tokenizer, "tokenizer", "", "tokenizer that counts tokens where the server does not: a `folder`, a tokenizer.json or a name in the Hugging Face cache")
	f.StringVar(&o.saltFile, "salt-file", "", "`file` with the salt of block ids; made if it is not there")
	f.BoolVar(&o.cfg.KeepText, "keep-text", false, "also write prompts and answers")
	f.BoolVar(&o.cfg.All, "all", false, "also write requests without a prompt, such as for the list of models")
	f.StringVar(&o.sort, "sort", "", "only put the lines of this trace in order of arrival")
}

// Run records until it is interrupted, or puts a trace in order.
func (o *Command) Run(ctx context.Context, p console.Process) error {
	if o.sort != "" {
		dropped, err := Sort(o.sort)
		if dropped > 0 {
			p.Say("%d unfinished lines were dropped\n", dropped)
		}
		return err
	}
	if err := o.check(p); err != nil {
		return err
	}
	px, err := Start(o.cfg)
	if err != nil {
		return err
	}
	sig := p.Signals(ctx, fmt.Sprintf("waiting at most %v for requests under way (interrupt again to cut them off)", recordGrace))
	defer sig.Done()
	defer sig.Hold()()
	p.Print("%s\n", px.URL())
	p.Say("recording what goes to %s into %s; Ctrl-C ends it\n", secret.Text(o.cfg.Upstream), o.cfg.Path)
	watchRecording(sig.Context, p, px, sig.Stop)
	draining, cancel := context.WithTimeout(sig.Context, recordGrace)
	defer cancel()
	px.Drain(draining)
	err = px.Close()
	o.tell(p, px.Stats())
	return err
}

// recordGrace is how long requests under way may go on after an interrupt.
const recordGrace = 30 * time.Second

// check fills in what the flags name.
func (o *Command) check(p console.Process) error {
	var missing []string
	if o.cfg.Upstream == "" {
		missing = append(missing, "--upstream URL, the server")
	}
	if o.cfg.Path == "" {
		missing = append(missing, "-o FILE, the trace")
	}
	if missing != nil {
		return console.Usage("spate record", fmt.Errorf("missing: %s", strings.Join(missing, "; ")))
	}
	if o.cfg.Block < 1 {
		return console.Usage("spate record", fmt.Errorf("--block-size %d: at least 1 is needed", o.cfg.Block))
	}
	if o.tokenizer != "" {
		path, err := tokenizer.Find(o.tokenizer, tokenizer.PlacesFrom(p.Getenv, p.Home()))
		if err != nil {
			return fmt.Errorf("--tokenizer: %w", err)
		}
		if o.cfg.Tokenizer, err = tokenizer.Load(path); err != nil {
			return fmt.Errorf("tokenizer %s: %w", o.tokenizer, err)
		}
	}
	if o.saltFile == "" {
		return nil
	}
	var err error
	o.cfg.Salt, err = ReadSalt(o.saltFile)
	return err
}

// watchRecording waits for the end, and says at once when the file cannot be written: requests go on.
func watchRecording(ctx context.Context, p console.Process, px *Proxy, stop <-chan struct{}) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-look.C:
		}
		if err := px.Err(); err != nil && !said {
			said = true
			console.Complain(p.Stderr, "spate record", errors.Join(err, errors.New("requests are still passed on, but the trace is not complete")))
		}
	}
}

// tell says what was recorded and how to send it again.
func (o *Command) tell(p console.Process, st Stats) {
	p.Say("recorded %d requests, %d of them not answered well; %d input and %d output tokens", st.Requests, st.Failed, st.In, st.Out)
	if st.Others > 0 {
		p.Say("; %d requests without a prompt were passed on and not recorded", st.Others)
	}
	p.Say("\n")
	f, err := os.Open(o.cfg.Path)
	if err != nil || st.Requests == 0 {
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	format := trace.Mooncake()
	format.Chunk = o.cfg.Block
	rows, err := trace.Read(f, format, 0)
	if err != nil {
		return
	}
	ideal := trace.IdealHits(rows, o.cfg.Block)
	p.Say("an unlimited cache would have held %.1f %% of the prompt tokens (blocks of %d)\n", 100*ideal.Rate(), o.cfg.Block)
	p.Say("send it again: spate bench --dataset-name mooncake --dataset-path %s --num-prompts 0", o.cfg.Path)
	if o.cfg.Block != trace.Mooncake().Chunk {
		p.Say(" --timed-trace-chunk-hash-size %d", o.cfg.Block)
	}
	p.Say("\n")
}
