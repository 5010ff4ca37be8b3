package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// GPUs says which GPUs a server uses, and what of their memory others may use. The zero value checks all that
// CUDA_VISIBLE_DEVICES names, or all there are.
type GPUs struct {
	Skip   string        // why nothing is checked; empty: it is
	Only   []string      // numbers or UUIDs
	UsedOK int64         // bytes that may be in use before a start
	Wait   time.Duration // how long memory may take to become free after a stop; 15 s when 0
	SMI    string        // the program; nvidia-smi when empty

	dashes string // what the flags of it begin with, for errors
}

// visible is the variable by which CUDA is told which GPUs there are.
const visible = "CUDA_VISIBLE_DEVICES"

const (
	mebi = 1 << 20
	gibi = 1 << 30

	// slack is what a driver, a display or another process's bare context may hold. A server that was left
	// behind holds more: weights, at least.
	slack = 768 * mebi

	askSMI = 20 * time.Second // a driver that hangs must not hang spate
)

// GPUUse is what a GPU's memory is used for.
type GPUUse struct {
	Index string   `json:"index"`
	Name  string   `json:"name,omitempty"`
	Used  int64    `json:"used_bytes"`
	Total int64    `json:"total_bytes"`
	By    []GPUApp `json:"by,omitempty"`

	uuid string
}

// GPUApp is a process on a GPU. In a container the driver may name none, or those of the host.
type GPUApp struct {
	PID  int    `json:"pid"`
	Used int64  `json:"used_bytes,omitempty"` // 0: not told
	Name string `json:"name,omitempty"`
}

// BusyError says that GPU memory is in use although no server of ours runs: nothing can be measured there.
type BusyError struct {
	After bool // the server was ended; false: it was about to be started
	GPUs  []GPUUse
	Was   map[string]int64 // bytes in use before the start, by index; nil before

	dashes string
}

// Error names each GPU, what is used and by whom, and what can be done.
func (e *BusyError) Error() string {
	b := &strings.Builder{}
	for i := range e.GPUs {
		g := &e.GPUs[i]
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(b, "GPU %s (%s) has %s of %.1f GiB in use", g.Index, g.Name, size(g.Used), float64(g.Total)/gibi)
		if e.After {
			fmt.Fprintf(b, " (%s before the start)", size(e.Was[g.Index]))
		}
		b.WriteString(g.by())
	}
	if e.After {
		return "the server has ended, but its GPU memory is not free: " + b.String() + "; nothing more is started there: end what holds it, then go on"
	}
	d := cmp.Or(e.dashes, "--")
	return "the GPU is not free for a server: " + b.String() + "; end that, choose other GPUs with " + d + "gpus, or say what others may use with " + d + "gpu-memory-used-ok"
}

// ParseMemory reads how much memory others may use: 20GiB, 500MiB, or any.
func ParseMemory(text string) (int64, error) {
	given := text
	text = strings.TrimSpace(text)
	if text == "any" {
		return math.MaxInt64, nil
	}
	unit := float64(gibi)
	for _, u := range []struct {
		name string
		size float64
	}{{"GiB", gibi}, {"MiB", mebi}, {"GB", 1e9}, {"MB", 1e6}, {"G", gibi}, {"M", mebi}} {
		if head, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(head), u.size
			break
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 || math.IsNaN(v) || v*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size of memory such as 20GiB, 500MiB or any", given)
	}
	return int64(v * unit), nil
}

// GPUList reads numbers or UUIDs of GPUs with commas between them; nil for none.
func GPUList(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
		if n, err := strconv.Atoi(list[i]); (err != nil || n < 0) && !strings.HasPrefix(list[i], "GPU-") && !strings.HasPrefix(list[i], "MIG-") {
			return nil, fmt.Errorf("%q is not a GPU: give numbers such as 0,1, or UUIDs", list[i])
		}
	}
	return list, nil
}

// Choose limits a server to some GPUs, and says what others may use of their memory; both as typed, or empty.
// The flags they were typed with begin with dashes: "--", or "--launch-" where servers are not all there is.
func (s *Spec) Choose(dashes, gpus, usedOK string) error {
	s.GPU.dashes = dashes
	list, err := GPUList(gpus)
	if err != nil {
		return fmt.Errorf("%sgpus: %w", dashes, err)
	}
	if list != nil {
		s.GPU.Only = list
		s.Env = append(slices.Clone(s.Env), visible+"="+strings.Join(list, ","))
	}
	if usedOK == "" {
		return nil
	}
	if s.GPU.UsedOK, err = ParseMemory(usedOK); err != nil {
		return fmt.Errorf("%sgpu-memory-used-ok: %w", dashes, err)
	}
	if usedOK == "any" {
		s.GPU.Skip = "any use by others is allowed"
	}
	return nil
}

func (g *GPUUse) by() string {
	if len(g.By) == 0 {
		return ", by a process the driver does not name"
	}
	var list []string
	for _, a := range g.By {
		text := "process " + strconv.Itoa(a.PID)
		if a.Name != "" {
			text += " " + a.Name
		}
		if a.Used > 0 {
			text += " (" + size(a.Used) + ")"
		}
		list = append(list, text)
	}
	return ", by " + strings.Join(list, ", ")
}

func size(bytes int64) string {
	if bytes < gibi {
		return fmt.Sprintf("%d MiB", bytes/mebi)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/gibi)
}

// look asks the driver about the GPUs a server with an environment will see. note says why nothing is known.
func (g *GPUs) look(ctx context.Context, env []string) (list []GPUUse, note string) {
	if g.Skip != "" {
		return nil, g.Skip
	}
	smi := g.SMI
	if smi == "" {
		smi = "nvidia-smi"
	}
	if _, err := exec.LookPath(smi); err != nil {
		return nil, "there is no nvidia-smi here"
	}
	out, err := query(ctx, smi, "--query-gpu=index,uuid,memory.used,memory.total,name")
	if err != nil {
		return nil, err.Error()
	}
	all := parseGPUs(out)
	if len(all) == 0 {
		return nil, "nvidia-smi reports no GPU with known memory"
	}
	list, note = g.chosen(all, env)
	if note != "" {
		return nil, note
	}
	if out, err := query(ctx, smi, "--query-compute-apps=gpu_uuid,pid,used_memory,process_name"); err == nil { // who it is helps, and decides nothing
		for uuid, app := range parseApps(out) {
			for i := range list {
				if list[i].uuid == uuid {
					list[i].By = app
				}
			}
		}
	}
	return list, ""
}

func query(ctx context.Context, smi, what string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askSMI)
	defer cancel()
	cmd := exec.CommandContext(ctx, smi, what, "--format=csv,noheader,nounits") //nolint:gosec // the user's own nvidia-smi, found on the path
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		said := strings.TrimSpace(string(out))
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && said == "" {
			said = strings.TrimSpace(string(exit.Stderr))
		}
		said, _, _ = strings.Cut(said, "\n")
		return "", fmt.Errorf("nvidia-smi does not answer (%w): %s", err, said)
	}
	return string(out), nil
}

// parseGPUs reads lines of index, uuid, MiB used, MiB there are, name. A GPU that does not tell its memory is
// left out.
func parseGPUs(out string) []GPUUse {
	var list []GPUUse
	for line := range strings.Lines(out) {
		f := fields(line, 5)
		if f == nil {
			continue
		}
		used, err := mib(f[2])
		total, err2 := mib(f[3])
		if _, bad := strconv.Atoi(f[0]); bad != nil || err != nil || err2 != nil {
			continue
		}
		list = append(list, GPUUse{Index: f[0], uuid: f[1], Used: used, Total: total, Name: f[4]})
	}
	return list
}

// parseApps reads lines of GPU, pid, MiB used, name, by GPU.
func parseApps(out string) map[string][]GPUApp {
	by := map[string][]GPUApp{}
	for line := range strings.Lines(out) {
		f := fields(line, 4)
		if f == nil {
			continue
		}
		pid, err := strconv.Atoi(f[1])
		if err != nil || pid <= 0 {
			continue
		}
		used, err := mib(f[2])
		if err != nil {
			used = 0 // not told
		}
		name := f[3]
		if strings.HasPrefix(name, "[") {
			name = ""
		}
		by[f[0]] = append(by[f[0]], GPUApp{PID: pid, Used: used, Name: name})
	}
	return by
}

// fields are the columns of a line, the last of which may hold commas; nil when there are fewer.
func fields(line string, n int) []string {
	f := strings.SplitN(strings.TrimSpace(line), ",", n)
	if len(f) != n {
		return nil
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return f
}

func mib(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > math.MaxInt64/mebi {
		return 0, fmt.Errorf("%q is no number of MiB", text)
	}
	return v * mebi, nil
}

// chosen are the GPUs meant: those named, else those CUDA is shown.
func (g *GPUs) chosen(all []GPUUse, env []string) (list []GPUUse, note string) {
	names, from := g.Only, "--gpus"
	if names == nil {
		text, given := lookupEnv(env, visible)
		if !given {
			return all, ""
		}
		from = visible
		names = strings.Split(text, ",")
	}
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" || name == "-1" || strings.EqualFold(name, "none") || strings.EqualFold(name, "NoDevFiles") {
			break // CUDA stops reading there
		}
		if strings.HasPrefix(name, "MIG-") {
			return nil, from + " names a part of a GPU, whose memory is not reported separately"
		}
		i := slices.IndexFunc(all, func(u GPUUse) bool {
			return u.Index == name || strings.HasPrefix(name, "GPU-") && strings.HasPrefix(u.uuid, name)
		})
		if i < 0 {
			return nil, fmt.Sprintf("%s names GPU %s, which nvidia-smi does not know", from, name)
		}
		list = append(list, all[i])
	}
	if len(list) == 0 {
		return nil, from + " names no GPU"
	}
	return list, ""
}

// lookupEnv finds a variable, first among those a server is given.
func lookupEnv(env []string, name string) (string, bool) {
	for _, e := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v, true
		}
	}
	return os.LookupEnv(name)
}

// gpuBefore checks that the GPUs are free for a server, and notes what is used of them.
func (s *Server) gpuBefore(ctx context.Context) error {
	return patiently(ctx, s.spec.Patience, func() error {
		list, note := s.spec.GPU.look(ctx, s.spec.Env)
		s.Unchecked, s.gpus = note, map[string]int64{}
		var busy []GPUUse
		for _, g := range list {
			s.gpus[g.Index] = g.Used
			if g.Used > max(slack, s.spec.GPU.UsedOK) {
				busy = append(busy, g)
			}
		}
		if busy != nil {
			return &BusyError{GPUs: busy, dashes: s.spec.GPU.dashes}
		}
		return nil
	})
}

// gpuAfter waits until the memory that a server used is free again.
func (s *Server) gpuAfter(ctx context.Context) error {
	if s.Unchecked != "" {
		return nil
	}
	wait := s.spec.GPU.Wait
	if wait == 0 {
		wait = 15 * time.Second
	}
	return patiently(ctx, wait, func() error {
		list, note := s.spec.GPU.look(ctx, s.spec.Env)
		if note != "" { // it answered before: now nobody can tell
			return fmt.Errorf("the server has ended, but it is not known whether its GPU memory is free: %s", note)
		}
		var busy []GPUUse
		for _, g := range list {
			if was, known := s.gpus[g.Index]; known && g.Used > was+slack {
				busy = append(busy, g)
			}
		}
		if busy != nil {
			return &BusyError{After: true, GPUs: busy, Was: s.gpus}
		}
		return nil
	})
}

// patiently asks again until there is no error, time is up or the context has ended.
func patiently(ctx context.Context, wait time.Duration, ask func() error) error {
	for end := time.Now().Add(wait); ; {
		err := ask()
		if err == nil || !time.Now().Before(end) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
