package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spate/internal/console"
	"spate/internal/load/trace"
	"spate/internal/safe/secret"
	"spate/internal/send/proxy"
	"spate/internal/token/tokenizer"
)

// recordOptions are the flags of `spate record`.
type recordOptions struct {
	cfg       proxy.Config
	tokenizer string
	saltFile  string
	sort      string
}

// newRecord is `spate record`.
func newRecord(p Process) *cobra.Command {
	var o recordOptions
	cmd := &cobra.Command{
		Use:   "record --upstream URL -o FILE [flags]",
		Short: "Record the traffic between clients and a server as a trace to replay",
		Long: `Hand every request on to a server and every answer back, byte for byte and as they come, and write one line for
each request that has ended: when it came, how long prompt and answer were, ids of the prompt's blocks, model, times and
what became of it. The file is a trace in Mooncake's format, which spate bench sends again with the same arrivals and the
same shared beginnings.

No text is kept, nor keys, headers or queries. Ids are keyed with a salt that is made for the recording and forgotten
with it; requests with the same beginning have the same first ids, and nothing else can be told from them. --salt-file
keeps a salt for recordings that are to be compared. --keep-text writes prompts and answers, too.

Lengths are the server's own counts where it gives them, else a tokenizer's (--tokenizer), else characters / 4; each line
says which. Lines are written as requests end and put in order of arrival when the recording ends; one that was killed
is complete, and --sort puts it in order. Ctrl-C waits for the requests in flight; a second one cuts them off.

docs/record.md describes the file.`,
		Example: `  spate record --upstream http://gpu:8000 --listen :9000 -o trace.jsonl
  spate record --upstream https://api.example.com -o trace.jsonl --tokenizer Qwen/Qwen3-8B --block-size 16
  spate bench --dataset-name mooncake --dataset-path trace.jsonl --num-prompts 0      send it again
  spate record --sort trace.jsonl                                                     after a kill`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRecord(cmd.Context(), p, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.cfg.Upstream, "upstream", "", "`URL` of the server; a path in it goes before those of requests")
	f.StringVar(&o.cfg.Listen, "listen", "127.0.0.1:9000", "`address` clients send to; port 0 picks a free one")
	f.StringVarP(&o.cfg.Path, "output", "o", "", "`file` of the trace")
	f.BoolVar(&o.cfg.Overwrite, "overwrite", false, "write over a file that exists")
	f.IntVar(&o.cfg.Block, "block-size", trace.Mooncake().Chunk, "`tokens` a block id stands for")
	f.StringVar(&o.tokenizer, "tokenizer", "", "counts what the server does not: a `folder`, a tokenizer.json or a name in the Hugging Face cache")
	f.StringVar(&o.saltFile, "salt-file", "", "`file` with the salt of block ids; made if it is not there")
	f.BoolVar(&o.cfg.KeepText, "keep-text", false, "also write prompts and answers")
	f.BoolVar(&o.cfg.All, "all", false, "also write requests without a prompt, such as for the list of models")
	f.StringVar(&o.sort, "sort", "", "only put the lines of this trace in order of arrival")
	return cmd
}

func runRecord(ctx context.Context, p Process, o *recordOptions) error {
	if o.sort != "" {
		dropped, err := proxy.Sort(o.sort)
		if dropped > 0 {
			p.Say("%d unfinished lines were dropped\n", dropped)
		}
		return err
	}
	if err := o.check(p); err != nil {
		return err
	}
	proxy, err := proxy.Start(o.cfg)
	if err != nil {
		return err
	}
	sig := p.Signals(ctx, fmt.Sprintf("waiting at most %v for requests under way (interrupt again to cut them off)", recordGrace))
	defer sig.Done()
	defer sig.Hold()()
	p.Print("%s\n", proxy.URL())
	p.Say("recording what goes to %s into %s; Ctrl-C ends it\n", secret.Text(o.cfg.Upstream), o.cfg.Path)
	watchRecording(sig.Context, p, proxy, sig.Stop)
	draining, cancel := context.WithTimeout(sig.Context, recordGrace)
	defer cancel()
	proxy.Drain(draining)
	err = proxy.Close()
	o.tell(p, proxy.Stats())
	return err
}

// recordGrace is how long requests under way may go on after an interrupt.
const recordGrace = 30 * time.Second

// check fills in what the flags name.
func (o *recordOptions) check(p Process) error {
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
	o.cfg.Salt, err = proxy.ReadSalt(o.saltFile)
	return err
}

// watchRecording waits for the end, and says at once when the file cannot be written: requests go on.
func watchRecording(ctx context.Context, p Process, proxy *proxy.Proxy, stop <-chan struct{}) {
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
		if err := proxy.Err(); err != nil && !said {
			said = true
			console.Complain(p.Stderr, "spate record", errors.Join(err, errors.New("requests are handed on, but the trace is not complete")))
		}
	}
}

// tell says what was recorded and how to send it again.
func (o *recordOptions) tell(p Process, st proxy.Stats) {
	p.Say("recorded %d requests, %d of them not answered well; %d input and %d output tokens", st.Requests, st.Failed, st.In, st.Out)
	if st.Others > 0 {
		p.Say("; %d requests without a prompt were handed on only", st.Others)
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
	p.Say("a cache without bounds would have had %.1f %% of the prompt tokens (blocks of %d)\n", 100*ideal.Rate(), o.cfg.Block)
	p.Say("send it again: spate bench --dataset-name mooncake --dataset-path %s --num-prompts 0", o.cfg.Path)
	if o.cfg.Block != trace.Mooncake().Chunk {
		p.Say(" --timed-trace-chunk-hash-size %d", o.cfg.Block)
	}
	p.Say("\n")
}
