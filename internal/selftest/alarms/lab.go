package alarms

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// lab runs servers and clients, each run on cores of its own.
type lab struct {
	plan  *Plan
	slots []cores
}

// cores are those of one run.
type cores struct{ server, client []int }

// longest is how long any of the runs may take: they are made for seconds.
const longest = time.Minute

func newLab(p *Plan) (*lab, error) {
	all, err := ownCores()
	if err != nil {
		return nil, err
	}
	if p.Parallel < 1 || p.Parallel > len(all) {
		return nil, fmt.Errorf("--parallel %d: want 1 to %d, a core for each run at least", p.Parallel, len(all))
	}
	return &lab{plan: p, slots: divide(all, p.Parallel)}, nil
}

// divide gives each run its share of the cores, half of it to the server. A share of one core is for both.
func divide(all []int, parallel int) []cores {
	each := len(all) / parallel
	out := make([]cores, parallel)
	for i := range out {
		own := all[i*each : (i+1)*each]
		out[i] = cores{server: own[:max(1, each/2)], client: own[each/2:]}
	}
	return out
}

// run does one run and takes its verdict.
func (l *lab) run(ctx context.Context, slot int, j job) Outcome {
	out := Outcome{Name: j.name, Check: j.check, Size: j.size, How: j.how, Server: j.server, Client: j.client}
	began := time.Now()
	v, err := l.judge(ctx, slot, &j)
	out.Took = time.Since(began).Seconds()
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Grade = string(v.Grade)
	for _, f := range v.Bad() {
		out.Bad = append(out.Bad, Bad{f.Name, string(f.Level), f.Sentence})
		out.Named = out.Named || f.Name == j.check || slices.Contains(j.also, f.Name)
	}
	return out
}

func (l *lab) judge(ctx context.Context, slot int, j *job) (verdict.Verdict, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it took longer than %v", longest))
	defer cancel()
	dir, err := os.MkdirTemp(l.plan.Dir, "run-")
	if err != nil {
		return verdict.Verdict{}, fmt.Errorf("make a folder for the run: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	run, err := l.measure(ctx, slot, j, dir)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return verdict.Verdict{}, err
	}
	if j.bend == nil {
		return run.Verdict, nil
	}
	f := figures{in: verdict.Input{Summary: run.Summary, Self: &verdict.Self{Arrivals: true}, Settings: run.Plan.Judge}, size: float64(j.size)}
	j.bend(&f)
	return verdict.Judge(f.in), nil
}

// measure runs a server and a client, and reads what the client wrote.
func (l *lab) measure(ctx context.Context, slot int, j *job, dir string) (*result.Run, error) {
	server, client := slices.Clone(j.server), slices.Clone(j.client)
	for _, f := range []struct {
		flags            *[]string
		flag, name, text string
	}{{&server, "--script", "script.yaml", j.script}, {&client, "--dataset-path", "prompts.jsonl", j.data}} {
		if f.text == "" {
			continue
		}
		name := filepath.Join(dir, f.name)
		if err := os.WriteFile(name, []byte(f.text), 0o600); err != nil {
			return nil, fmt.Errorf("write what the run needs: %w", err)
		}
		*f.flags = append(*f.flags, f.flag, name)
	}
	base, stop, err := l.serve(ctx, l.slots[slot].server, server)
	if err != nil {
		return nil, err
	}
	defer stop()
	folder := filepath.Join(dir, "run")
	args := append([]string{"bench", "--base-url", base, "--output-dir", folder, "--no-store", "--disable-tqdm"}, client...)
	own := l.slots[slot].client
	if j.harm.burners > 0 {
		own = own[:1]
	}
	said, err := l.client(ctx, own, args, &j.harm, folder)
	raw, readErr := os.ReadFile(filepath.Join(folder, result.ResultFile))
	if readErr != nil {
		return nil, fmt.Errorf("spate bench made no result (%w): %s", errors.Join(err, readErr), lastLine(said))
	}
	return result.Decode(raw) // a run whose requests failed has a result, too
}

// serve starts a simulated server and waits for its address.
func (l *lab) serve(ctx context.Context, on []int, flags []string) (base string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, l.plan.Program, append([]string{"sim", "--port", "0"}, flags...)...) //nolint:gosec // spate itself
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	cmd.Stdout = cmd.Stderr
	if err := startOn(on, cmd); err != nil {
		return "", nil, fmt.Errorf("start the server: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	lines := bufio.NewScanner(pipe)
	var said []byte
	for lines.Scan() {
		if _, addr, ok := strings.Cut(lines.Text(), "serving on "); ok {
			go func() { _, _ = io.Copy(io.Discard, pipe) }() // until it ends
			return strings.Fields(addr)[0], stop, nil
		}
		said = append(append(said, lines.Bytes()...), '\n')
	}
	stop()
	return "", nil, fmt.Errorf("the server did not start: %s", lastLine(said))
}

// client runs spate bench to its end, and does to it what is to be done.
func (l *lab) client(ctx context.Context, on []int, args []string, h *harm, folder string) ([]byte, error) {
	program := l.plan.Program
	if h.nice > 0 {
		program, args = "nice", append([]string{"-n", strconv.Itoa(h.nice), program}, args...)
	}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // spate itself
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := startOn(on, cmd); err != nil {
		return nil, fmt.Errorf("start the client: %w", err)
	}
	ended := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.do(cmd.Process.Pid, on, folder, ended)
	}()
	err := cmd.Wait()
	close(ended)
	<-done
	return said.Bytes(), err
}

// answered waits for the first record of a run, or its end.
func answered(folder string, ended <-chan struct{}) bool {
	for {
		if st, err := os.Stat(filepath.Join(folder, result.RecordsFile)); err == nil && st.Size() > 0 {
			return true
		}
		if !wait(5*time.Millisecond, ended) {
			return false
		}
	}
}

// wait reports whether a time passed before the end.
func wait(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-time.After(d):
		return true
	}
}

func lastLine(said []byte) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	return lines[len(lines)-1]
}
