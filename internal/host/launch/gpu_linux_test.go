package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// smi links an nvidia-smi into dir that says gpus and apps. Of several for next, each is what it says of the GPUs
// once more, so that memory drains from look to look. (A script written here could be busy for a moment while
// another test starts a process.)
func smi(t *testing.T, dir, gpus, apps string, next ...string) string {
	t.Helper()
	files := map[string]string{"apps": apps}
	for i, text := range append([]string{gpus}, next...) {
		files[fmt.Sprint("gpus", i)] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := filepath.Abs("testdata/nvidia-smi")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "nvidia-smi")
	if err := os.Symlink(script, path); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	idleGPU = "0, GPU-aaaa-1, 3, 143771, NVIDIA H200"
	fullGPU = "0, GPU-aaaa-1, 70003, 143771, NVIDIA H200"
)

func TestGPUMustBeFree(t *testing.T) {
	for _, c := range []struct {
		name, gpus, apps string
		set              func(*Spec)
		want             string // of the error; empty: it starts
		unchecked        string
	}{
		{name: "free", gpus: idleGPU},
		{name: "a driver's context", gpus: "0, GPU-aaaa-1, 512, 143771, NVIDIA H200"},
		{name: "taken", gpus: fullGPU, apps: "GPU-aaaa-1, 4711, 69000, python, or so\nGPU-bbbb-2, 9, 1, other", want: "GPU 0 (NVIDIA H200) has 68.4 GiB of 140.4 GiB in use, by process 4711 python, or so (67.4 GiB); end that, choose other GPUs with --gpus"},
		{name: "nobody is named", gpus: fullGPU, want: "in use, by a process the driver does not name"},
		{name: "declared", gpus: fullGPU, set: func(s *Spec) { s.GPU.UsedOK = 70 << 30 }},
		{name: "declared too little", gpus: fullGPU, set: func(s *Spec) { s.GPU.UsedOK = 60 << 30 }, want: "68.4 GiB of 140.4 GiB in use"},
		{name: "another is taken", gpus: fullGPU + "\n1, GPU-bbbb-2, 3, 143771, NVIDIA H200", set: func(s *Spec) { s.GPU.Only = []string{"1"} }},
		{name: "by the server's own variable", gpus: fullGPU + "\n1, GPU-bbbb-2, 3, 143771, NVIDIA H200", set: func(s *Spec) { s.Env = []string{"CUDA_VISIBLE_DEVICES=GPU-bb"} }},
		{name: "the second of two", gpus: idleGPU + "\n1, GPU-bbbb-2, 9000, 143771, NVIDIA H200", want: "GPU 1 (NVIDIA H200) has 8.8 GiB of 140.4 GiB"},
		{name: "no such GPU", gpus: idleGPU, set: func(s *Spec) { s.GPU.Only = []string{"7"} }, unchecked: "--gpus names GPU 7, which nvidia-smi does not know"},
		{name: "hidden", gpus: fullGPU, set: func(s *Spec) { s.Env = []string{"CUDA_VISIBLE_DEVICES="} }, unchecked: "CUDA_VISIBLE_DEVICES names no GPU"},
		{name: "a slice", gpus: fullGPU, set: func(s *Spec) { s.Env = []string{"CUDA_VISIBLE_DEVICES=MIG-1"} }, unchecked: "names a part of a GPU"},
		{name: "shared with the host", gpus: "0, GPU-aaaa-1, [N/A], [N/A], NVIDIA GB10", unchecked: "reports no GPU with known memory"},
		{name: "not wanted", gpus: fullGPU, set: func(s *Spec) { s.GPU.Skip = "not here" }, unchecked: "not here"},
		{name: "no such program", set: func(s *Spec) { s.GPU.SMI += "-none" }, unchecked: "there is no nvidia-smi here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := spec(dir, "plain")
			s.GPU = GPUs{SMI: smi(t, dir, c.gpus, c.apps)}
			if c.set != nil {
				c.set(&s)
			}
			srv, err := Start(t.Context(), s)
			if c.want != "" {
				if _, busy := errors.AsType[*BusyError](err); !busy || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v", err)
				}
				if _, err := os.Stat(s.Log); err == nil {
					t.Error("it was started all the same")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.unchecked == "" && srv.Unchecked != "" || !strings.Contains(srv.Unchecked, c.unchecked) {
				t.Errorf("not checked because %q, want %q", srv.Unchecked, c.unchecked)
			}
			if err := srv.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGPUMustBeFreeAgain: after a stop memory may take a while to be free; where it stays used, that is said.
func TestGPUMustBeFreeAgain(t *testing.T) {
	t.Run("drains", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := spec(dir, "plain")
		s.GPU.Skip, s.GPU.SMI = "", smi(t, dir, idleGPU, "", fullGPU, "0, GPU-aaaa-1, 9000, 143771, NVIDIA H200", "0, GPU-aaaa-1, 500, 143771, NVIDIA H200")
		s.GPU.Wait = time.Hour
		srv := start(t, s)
		if err := srv.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if data, err := os.ReadFile(filepath.Join(dir, "asked")); err != nil || strings.Count(string(data), "--query-gpu=") != 4 {
			t.Errorf("asked %s, %v", data, err)
		}
	})
	t.Run("stays", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := spec(dir, "plain")
		s.GPU.Skip, s.GPU.SMI = "", smi(t, dir, idleGPU, "GPU-aaaa-1, 4711, 69000, VLLM::EngineCore", fullGPU)
		s.GPU.Wait = time.Millisecond
		srv := start(t, s)
		err := srv.Stop(t.Context())
		const want = "its GPU memory is not free: GPU 0 (NVIDIA H200) has 68.4 GiB of 140.4 GiB in use (3 MiB before the start), by process 4711 VLLM::EngineCore (67.4 GiB)"
		if busy, ok := errors.AsType[*BusyError](err); !ok || !busy.After || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v", err)
		}
		gone(t, srv.PID())
	})
	t.Run("stays after a failed start", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := spec(dir, "refuses")
		s.GPU.Skip, s.GPU.SMI = "", smi(t, dir, idleGPU, "", fullGPU)
		s.GPU.Wait = time.Millisecond
		_, err := Start(t.Context(), s)
		left, ok := errors.AsType[*LeftError](err)
		if _, busy := errors.AsType[*BusyError](err); !ok || !busy || left.Failure.Kind != Rule || !strings.Contains(err.Error(), "ValueError: max_num_batched_tokens (535)") {
			t.Errorf("got %v", err)
		}
		if _, plain := errors.AsType[*Failure](err); plain {
			t.Error("a failure by itself would be taken for one that leaves nothing behind")
		}
	})
	t.Run("is free in time for the start", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := spec(dir, "plain")
		s.GPU.Skip, s.GPU.SMI = "", smi(t, dir, fullGPU, "", fullGPU, idleGPU)
		s.Patience = time.Hour
		if err := start(t, s).Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func FuzzGPUs(f *testing.F) {
	f.Add(fullGPU+"\n1, GPU-b, [N/A], 1, x", "GPU-aaaa-1, 4711, 69000, python", "0,GPU-b")
	f.Fuzz(func(t *testing.T, gpus, apps, shown string) {
		all := parseGPUs(gpus)
		parseApps(apps)
		list, note := (&GPUs{}).chosen(all, []string{visible + "=" + shown})
		if (len(list) == 0) == (note == "") {
			t.Errorf("%d GPUs, and %q", len(list), note)
		}
		_ = (&BusyError{GPUs: all, After: true}).Error()
	})
}

// TestRealGPU runs where there is a GPU: a server that holds some of its memory keeps another from being started,
// and after it was ended the memory is free again.
func TestRealGPU(t *testing.T) {
	if list, note := (&GPUs{}).look(t.Context(), nil); len(list) == 0 {
		t.Skip(note)
	}
	holds := func(gib string) Spec {
		s := spec(t.TempDir(), "plain")
		s.Command, s.GPU = []string{"python3", "testdata/holds-gpu.py", "{port}", gib}, GPUs{}
		s.Env = []string{visible + "=0"}
		return s
	}
	srv := start(t, holds("5"))
	if srv.Unchecked != "" {
		t.Errorf("not checked: %s", srv.Unchecked)
	}
	_, err := Start(t.Context(), holds("1"))
	if busy, ok := errors.AsType[*BusyError](err); !ok || busy.GPUs[0].Used < 5*gibi {
		t.Errorf("a second one: %v", err)
	}
	t.Log(err)
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := start(t, holds("1")).Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
