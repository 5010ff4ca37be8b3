package launch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// The test binary is also the guard, the servers and an owner of one, as separate processes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "guard":
			os.Exit(Guard(os.Args[2:]))
		case "server":
			serve(os.Args[2], os.Args[3])
		case "owner":
			own(os.Args[2])
		}
	}
	os.Exit(m.Run())
}

// serve is a server with a character.
func serve(character, port string) {
	switch character {
	case "refuses":
		fmt.Println("Traceback (most recent call last):")
		fmt.Println("ValueError: max_num_batched_tokens (535) is smaller than max_model_len (32768). Please increase max_num_batched_tokens or decrease max_model_len.")
		os.Exit(1)
	case "hangs":
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	case "forks":
		fork()
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"data":[{"id":"m"}]}`) })
	mux.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
		fmt.Println("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
		os.Exit(137)
	})
	fmt.Println("INFO 11-15 12:00:00 [api_server.py:1] vLLM API server version 0.27.0")
	fmt.Println("INFO 11-15 12:00:01 [kv.py:1] GPU KV cache size: 374,016 tokens")
	fmt.Println("INFO 11-15 12:00:01 [kv.py:2] Maximum concurrency for 40,960 tokens per request: 9.13x")
	srv := http.Server{Addr: "127.0.0.1:" + port, Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, srv.ListenAndServe())
	os.Exit(1)
}

// fork starts a child that leaves the group and the session, and does not listen to SIGTERM either.
func fork() {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; sleep 3600 & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	fmt.Printf("child %d\n", cmd.Process.Pid)
}

// own starts a server, says which processes there are, and waits to be killed.
func own(dir string) {
	s, err := Start(context.Background(), cleaning(spec(dir, "forks"), dir))
	if err != nil {
		panic(err)
	}
	fmt.Println(s.PID(), s.pid, childOf(s.Log), s.URL, s.cgroup)
	time.Sleep(time.Hour)
}

func childOf(log string) int {
	data, err := os.ReadFile(log)
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(data), "child ")
	word, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return pid
}

func spec(dir, character string) Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{
		Command: []string{self, "server", character, "{port}"}, Log: filepath.Join(dir, "server.log"),
		Guard: []string{self, "guard"}, Ready: 30 * time.Second, Grace: 20 * time.Second, GPU: GPUs{Skip: "a test"},
	}
}

func start(t *testing.T, s Spec) *Server {
	t.Helper()
	srv, err := Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		if _, _, state := readStat(string(stat)); state == "Z" || state == "X" {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

// removed waits until a cgroup is gone, where there was one.
func removed(t *testing.T, cgroup string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); cgroup != ""; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(cgroup); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the cgroup %s is still there", cgroup)
		}
	}
}

func TestServerAnswersAndIsStopped(t *testing.T) {
	for _, character := range []string{"plain", "deaf", "forks"} {
		t.Run(character, func(t *testing.T) {
			t.Parallel()
			s := spec(t.TempDir(), character)
			if character != "plain" {
				s.Grace = 300 * time.Millisecond // these will not listen
			}
			srv := start(t, s)
			if status, _, err := get(t.Context(), srv.URL+"/v1/models"); err != nil || status != http.StatusOK {
				t.Errorf("status %d, %v", status, err)
			}
			if srv.Died() != nil {
				t.Errorf("it runs, and died of %v", srv.Died())
			}
			pids := []int{srv.PID(), srv.pid}
			if character == "forks" {
				pids = append(pids, childOf(srv.Log))
			}
			if err := srv.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			for _, pid := range pids {
				gone(t, pid)
			}
			if err := portFree(t.Context(), srv.URL); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFailedStartsSayWhy(t *testing.T) {
	for character, want := range map[string]struct {
		kind Kind
		line string
	}{
		"refuses": {Rule, "ValueError: max_num_batched_tokens (535) is smaller than max_model_len (32768). Please increase max_num_batched_tokens or decrease max_model_len."},
		"hangs":   {Timeout, ""},
	} {
		t.Run(character, func(t *testing.T) {
			t.Parallel()
			s := spec(t.TempDir(), character)
			if character == "hangs" {
				s.Ready = 500 * time.Millisecond
			}
			_, err := Start(t.Context(), s)
			f, ok := errors.AsType[*Failure](err)
			if !ok || f.Kind != want.kind || want.line != "" && f.Line != want.line {
				t.Fatalf("got %#v", err)
			}
			if !strings.Contains(f.Command, " server "+character+" ") || strings.Contains(f.Command, "{port}") || f.Log != s.Log {
				t.Errorf("command %q, log %q", f.Command, f.Log)
			}
		})
	}
}

func TestNoSuchProgram(t *testing.T) {
	_, err := Start(t.Context(), Spec{Command: []string{"no-such-program-here", "{port}"}, Log: filepath.Join(t.TempDir(), "log")})
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != NotFound {
		t.Errorf("got %v", err)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := spec(t.TempDir(), "plain")
	s.Port = l.Addr().(*net.TCPAddr).Port
	_, err = Start(t.Context(), s)
	if f, ok := errors.AsType[*Failure](err); !ok || f.Kind != Port || !f.Kind.Transient() {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(s.Log); err == nil {
		t.Error("it was started although the port was taken")
	}
}

func TestDeathUnderLoad(t *testing.T) {
	srv := start(t, spec(t.TempDir(), "plain"))
	_, _, _ = get(t.Context(), srv.URL+"/die")
	<-srv.Ended()
	f := srv.Died()
	if f == nil || f.Kind != Memory || !f.UnderLoad || f.How != "exit status 137" || !strings.Contains(f.Error(), "the server died (memory): torch.OutOfMemoryError") {
		t.Errorf("%+v", f)
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStopWhenTheUserLeaves(t *testing.T) {
	s := spec(t.TempDir(), "deaf")
	srv := start(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Stop(ctx); err != nil { // no waiting for the grace of 20 s
		t.Error(err)
	}
	gone(t, srv.PID())
}

// owner starts a process that owns a server, and returns it with the pids of server, guard and child, and their cgroup.
func owner(t *testing.T) (cmd *exec.Cmd, pids []int, cgroup string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, "owner", t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(line)
	for _, word := range words[:3] {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return cmd, pids, strings.Join(words[4:], "")
}

func TestNothingSurvivesKillNine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has guards: elsewhere a killed spate leaves the server to its group")
	}
	t.Parallel()
	cmd, pids, cgroup := owner(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, pid := range pids {
		gone(t, pid)
	}
	removed(t, cgroup)
}

// TestAnyTwoOfThreeMayBeKilled kills spate, the watcher and the guard, one or two of them at once: whoever is left ends
// the server with a child that has left its session and ignores SIGTERM.
func TestAnyTwoOfThreeMayBeKilled(t *testing.T) {
	for _, who := range [][]string{{"guard"}, {"watcher"}, {"guard", "spate"}, {"watcher", "spate"}, {"guard", "watcher"}} {
		t.Run(strings.Join(who, " and "), func(t *testing.T) {
			t.Parallel()
			cmd, pids, cgroup := owner(t)
			defer func() {
				_ = cmd.Process.Kill() // where it was not killed yet
				_ = cmd.Wait()
			}()
			server, watcher, child := pids[0], pids[1], pids[2]
			tree := below(watcher)
			guard := tree[0]
			if !slices.Contains(tree, server) || !slices.Contains(tree, child) || guard == server {
				t.Fatalf("below the watcher %d are %v, with the server %d and its child %d", watcher, tree, server, child)
			}
			of := map[string]int{"spate": cmd.Process.Pid, "watcher": watcher, "guard": guard}
			for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // none sees another go
				for _, name := range who {
					if err := syscall.Kill(of[name], sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, pid := range tree {
				gone(t, pid)
			}
			removed(t, cgroup)
		})
	}
}

// TestReforkingChildIsEnded holds that a process which is a new one every moment does not get away.
func TestReforkingChildIsEnded(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "again.sh")
	if err := os.WriteFile(script, []byte("trap '' TERM HUP\n/bin/sh \"$0\" &\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := spec(dir, "plain")
	s.Command = []string{"/bin/sh", "-c", "/bin/sh " + script + " & exec " + Words(s.Command)}
	s.Grace = time.Second // it does not listen
	srv := start(t, s)
	for end := time.Now().Add(30 * time.Second); len(marked(srv.mark)) < 2; { // a list misses it now and then
		if time.Now().After(end) {
			t.Fatal("nothing forks: nothing was tested")
		}
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if left := marked(srv.mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCgroupIsUsedOnlyWhereItCanBeEnded makes one below a folder that is no file system of cgroups.
func TestCgroupIsUsedOnlyWhereItCanBeEnded(t *testing.T) {
	dir := t.TempDir()
	own, mounts, tree := filepath.Join(dir, "own"), filepath.Join(dir, "mounts"), filepath.Join(dir, "tree")
	line := "31 24 0:27 / /elsewhere rw - tmpfs tmpfs rw\n41 31 0:38 / " + tree + " rw,relatime - cgroup2 cgroup2 rw\n"
	err := errors.Join(os.Mkdir(tree, 0o700), os.WriteFile(own, []byte("4:memory:/x\n0::/\n"), 0o600), os.WriteFile(mounts, []byte(line), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if _, at := cgroupMount(mounts); at != tree {
		t.Errorf("the tree of cgroups is at %q, want %q", at, tree)
	}
	if got := newCgroup(mounts, own); got != "" {
		t.Errorf("%s was taken for a cgroup", got)
	}
	if entries, err := os.ReadDir(tree); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestCgroupReachesEverything kills watcher and guard under a server whose child has left session, parents and
// environment. No list of processes leads to it any more; the cgroup does. It is removed with all that was made in it.
func TestCgroupReachesEverything(t *testing.T) {
	probe := newCgroup("/proc/self/mountinfo", "/proc/self/cgroup")
	if probe == "" {
		t.Skip("no cgroup of version 2 can be made here: not root, not delegated to this user, or not mounted")
	}
	removeCgroup(probe)
	dir := t.TempDir()
	s := spec(dir, "plain")
	out := filepath.Join(dir, "child")
	lost := "env -i setsid /bin/sh -c 'trap \"\" TERM HUP; echo $$ > " + out + "; while :; do sleep 1; done' &"
	s.Command = []string{"/bin/sh", "-c", "(" + lost + ") ; exec " + Words(s.Command)}
	srv := start(t, s)
	if srv.Protection != byCgroup {
		t.Fatalf("protection: %s", srv.Protection)
	}
	child := 0
	for end := time.Now().Add(30 * time.Second); child == 0; time.Sleep(10 * time.Millisecond) {
		data, _ := os.ReadFile(out) // not there yet
		if child, _ = strconv.Atoi(strings.TrimSpace(string(data))); time.Now().After(end) {
			t.Fatal("the server has no child: nothing was tested")
		}
	}
	if slices.Contains(marked(srv.mark), child) || !slices.Contains(within(srv.cgroup), child) {
		t.Fatalf("child %d: marked %v, in the cgroup %v", child, marked(srv.mark), within(srv.cgroup))
	}
	if err := os.Mkdir(filepath.Join(srv.cgroup, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	tree := below(srv.pid)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range []int{tree[0], srv.pid} {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pid := range append(tree, child) {
		gone(t, pid)
	}
	if err := srv.Stop(t.Context()); err != nil && !strings.Contains(err.Error(), "guard") {
		t.Error(err)
	}
	if _, err := os.Stat(srv.cgroup); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cgroup is left: %v", err)
	}
}

// TestServerStartsOutsideItsCgroup has a folder that the kernel takes no process into: the server is started all the
// same, and the guard says so.
func TestServerStartsOutsideItsCgroup(t *testing.T) {
	p, inside, err := begin([]string{"/bin/sleep", "60"}, "A=b", t.TempDir())
	if err != nil || inside {
		t.Fatalf("inside %v, %v", inside, err)
	}
	_ = p.Kill()
	_, _ = p.Wait()
	s := &Server{Protection: byCgroup}
	if !s.begun("pid 7 "+outside) || s.Protection != byMark || s.main != 7 {
		t.Errorf("pid %d, protection: %s", s.main, s.Protection)
	}
}

// TestLogIsItsOwnersAndNoLink holds that a log is private, loses the secrets it quotes, and is not written through a link.
func TestLogIsItsOwnersAndNoLink(t *testing.T) {
	dir := t.TempDir()
	s := spec(dir, "plain")
	s.Command = []string{"/bin/sh", "-c", "echo key is ${MY_API_KEY}; exec " + Words(s.Command)}
	s.Env = []string{"MY_API_KEY=birchXcedar"}
	srv := start(t, s)
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(srv.Log)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if data, err := os.ReadFile(srv.Log); err != nil || strings.Contains(string(data), "birchXcedar") || !strings.Contains(string(data), "key is REDACTED") {
		t.Errorf("%v: %.200s", err, data)
	}
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Log = filepath.Join(dir, "link.log")
	if err := os.Symlink(victim, s.Log); err != nil {
		t.Fatal(err)
	}
	if srv, err := Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("a log that is a link: %v", err)
		if err == nil {
			_ = srv.Stop(t.Context())
		}
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "kept" {
		t.Errorf("the file behind the link: %q, %v", data, err)
	}
}

func TestGuardKilledTakesTheServerAlong(t *testing.T) {
	srv := start(t, spec(t.TempDir(), "plain"))
	if err := syscall.Kill(srv.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-srv.Ended()
	gone(t, srv.PID())
	if f := srv.Died(); f == nil || !strings.Contains(f.How, "guard") {
		t.Errorf("%+v", f)
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFacts(t *testing.T) {
	srv := start(t, spec(t.TempDir(), "plain"))
	defer func() {
		if err := srv.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	data, err := os.ReadFile(srv.Log)
	if err != nil {
		t.Fatal(err)
	}
	f := ReadFacts(string(data) + "WARNING 11-15 12:00:00 [x.py:1] slow\nINFO model loading took 14.99 GiB\nAvailable KV cache memory: 51.38 GiB\n")
	if f.Version != "0.27.0" || f.KVTokens != 374016 || f.MaxConcurrency != 9.13 || f.WeightsGiB != 14.99 || f.KVGiB != 51.38 || len(f.Warnings) != 1 || f.Warnings[0] != "slow" {
		t.Errorf("%+v", f)
	}
}

func TestFactsOfEngines(t *testing.T) {
	for _, c := range []struct {
		name, log string
		want      Facts
	}{
		{
			"vLLM before its second engine", "model weights take 14.99GiB; non_torch_memory takes 0.13GiB; PyTorch activation peak memory takes 1.21GiB; the rest of the memory reserved for KV Cache is 54.93GiB.\n# GPU blocks: 27898, # CPU blocks: 2048",
			Facts{WeightsGiB: 14.99, ActivationGiB: 1.21, KVGiB: 54.93, KVTokens: 446368},
		},
		{
			"SGLang", "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=64.02 GB, mem usage=14.98 GB.\nKV Cache is allocated. #tokens: 434923, K size: 26.55 GB, V size: 26.55 GB\nmax_total_num_tokens=434923, chunked_prefill_size=8192",
			Facts{WeightsGiB: 14.98, KVTokens: 434923},
		},
		{
			"llama.cpp, slots of their own", "0.00.155.071 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'\n0.00.020.134 W srv          init: security: no API key is set",
			Facts{MaxConcurrency: 4, KVTokens: 8192, Warnings: []string{"security: no API key is set"}},
		},
		{"llama.cpp, one cache", "load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'true'", Facts{MaxConcurrency: 4, KVTokens: 2048}},
	} {
		if got := ReadFacts(c.log); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]Kind{
		"api_server.py: error: unrecognized arguments: --max-num-sqs 4":                                                                      BadFlag,
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.2 GiB":                                                              Memory,
		"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`":                                      KVSmall,
		"OSError: [Errno 98] Address already in use":                                                                                         Port,
		"ValueError: max_num_batched_tokens (100) must be greater than or equal to max_num_seqs (256).":                                      Rule,
		"RuntimeError: CUDA error: no kernel image is available for execution on the device":                                                 CUDA,
		"huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files":                                                    Download,
		"ValueError: Free memory on device (3.1/23.6 GiB) on startup is less than desired GPU memory utilization":                            Memory,
		"RuntimeError: Engine core initialization failed. See root cause above.\nsomething else":                                             Unknown,
		"ValueError: To serve at least one request with max seq len 131072, 16.0 GiB KV cache is needed, which is larger than the available": KVSmall,
		"0.00.028.065 E llama_init_from_model: quantized V cache requires flash_attn to be enabled\nRuntimeError: Failed to init server":     Rule,
		"error: invalid argument: --no-mmap":                                                                                                 BadFlag,
		"E gguf_init_from_file: failed to open GGUF file 'nothing.gguf' (No such file or directory)\nE load_model: x":                        BadFlag,
		"": Unknown,
	} {
		if got := Classify("INFO starting\n" + text + "\nINFO bye"); got.Kind != want {
			t.Errorf("%q is %q (%s), want %q", text, got.Kind, got.Line, want)
		}
	}
	if got := Classify("RuntimeError: Engine core initialization failed.\n\n"); got.Line != "RuntimeError: Engine core initialization failed." {
		t.Errorf("line %q", got.Line)
	}
}

// TestCleanup: what a server left elsewhere is ended, after a stop, after a failed start, and after kill -9.
func TestCleanup(t *testing.T) {
	cleaned := func(t *testing.T, dir string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if data, err := os.ReadFile(filepath.Join(dir, "cleaned")); err == nil && strings.HasPrefix(string(data), "port ") && !strings.Contains(string(data), "{") {
				return
			}
		}
		t.Error("nothing was cleaned up")
	}
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := start(t, cleaning(spec(dir, "plain"), dir)).Stop(t.Context()); err != nil {
			t.Error(err)
		}
		cleaned(t, dir)
	})
	t.Run("without a guard", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := cleaning(spec(dir, "plain"), dir)
		s.Guard = nil
		s.Cleanup[2] += "; echo swept"
		if err := start(t, s).Stop(t.Context()); err != nil {
			t.Error(err)
		}
		cleaned(t, dir)
		if log, err := os.ReadFile(s.Log); err != nil || !strings.Contains(string(log), "swept") {
			t.Errorf("the log has not what was said: %v\n%s", err, log)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if _, err := Start(t.Context(), cleaning(spec(dir, "refuses"), dir)); err == nil {
			t.Error("it started")
		}
		cleaned(t, dir)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		cmd, pids, _ := owner(t)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		cleaned(t, cmd.Args[2])
		for _, pid := range pids {
			gone(t, pid)
		}
	})
}

// cleaning is a spec that leaves a file behind when all is over.
func cleaning(s Spec, dir string) Spec {
	s.Cleanup = []string{"sh", "-c", "echo port {port} >'" + filepath.Join(dir, "cleaned") + "'"}
	return s
}

func FuzzClassify(f *testing.F) {
	f.Add("ValueError: x\n\x1b[31mred\x1b[0m")
	f.Add("(EngineCore pid=12) ERROR 11-15 12:00:00 [core.py:1] CUDA out of memory")
	f.Fuzz(func(t *testing.T, log string) {
		if got := Classify(log); len(got.Line) > maxLine+10 {
			t.Errorf("a line of %d bytes", len(got.Line))
		}
		ReadFacts(log)
	})
}

func TestWords(t *testing.T) {
	if got := Words([]string{"a b", "c", "it's", ""}); got != `'a b' c 'it'\''s' ''` {
		t.Errorf("%s", got)
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"vllm serve m --port {port}":   {"vllm", "serve", "m", "--port", "{port}"},
		`sh -c 'a "b" $c' "d e"  f\ g`: {"sh", "-c", `a "b" $c`, "d e", "f g"},
		"  ''  x ":                     {"", "x"},
		"":                             nil,
	} {
		if got, err := Split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`a 'b`, `a "b`, `a \`} {
		if got, err := Split(line); err == nil {
			t.Errorf("%q is %q", line, got)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`a 'b c' "d"`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil || !utf8.ValidString(line) {
			return
		}
		again, err := Split(Words(words))
		if err != nil || !slices.Equal(again, words) {
			t.Errorf("%q: %q comes back as %q, %v", line, words, again, err)
		}
	})
}
