package harvest

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"spate/internal/result"
)

// commandKind tells what a command line does.
type commandKind int

const (
	noCommand commandKind = iota
	clientCommand
	serverCommand
)

var (
	shellPrompt = regexp.MustCompile(`^(?:\++ |[$%❯] ?|(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[: ][^$#]*\]?[$#] )|# )`)
	assignment  = regexp.MustCompile(`^[A-Za-z_]\w*=`)
)

// wrappers are commands that run the command after them.
var wrappers = []string{
	"sudo", "nohup", "time", "exec", "env", "numactl", "taskset", "srun", "python", "python3", "uv", "run", "-m", "-u",
	"bash", "sh", "-E", "stdbuf", "-oL", "timeout", "!",
}

// clients and servers are the first words of commands that measure and of those that are measured.
var clients = [][]string{
	{"benchmark_serving.py"},
	{"vllm", "bench", "serve"},
	{"sglang.bench_serving"},
	{"sglang.benchmark.serving"},
	{"bench_serving.py"},
	{"profile_restful_api.py"},
	{"benchmark_serving.sh"},
	{"tensorrt_llm.serve.scripts.benchmark_serving"},
	{"trtllm-bench"},
	{"genai-perf"},
	{"aiperf", "profile"},
	{"guidellm"},
	{"evalscope", "perf"},
	{"token_benchmark_ray.py"},
	{"inference-benchmarker"},
	{"vllm_benchmark.py"},
	{"spate", "bench"},
	{"vllm-bench"},
}

var servers = [][]string{
	{"vllm", "serve"},
	{"vllm.entrypoints.openai.api_server"},
	{"vllm.entrypoints.api_server"},
	{"sglang.launch_server"},
	{"lmdeploy", "serve", "api_server"},
	{"trtllm-serve"},
	{"text-generation-launcher"},
	{"llama-server"},
}

// images are parts of the names of container images that serve models.
var images = []string{"vllm", "sglang", "lmdeploy", "text-generation-inference", "tritonserver", "tensorrt-llm", "trtllm", "llama.cpp"}

// readCommand recognises a command line; cmd is it without the prompt before it.
func readCommand(text string) (kind commandKind, cmd string) {
	cmd = strings.TrimSpace(text)
	if len(cmd) < 8 || strings.HasPrefix(cmd, "## ") {
		return noCommand, ""
	}
	cmd = strings.TrimSpace(cmd[len(shellPrompt.FindString(cmd)):])
	words := strings.Fields(strings.TrimSuffix(cmd, `\`))
	kind = kindOf(words)
	if kind == noCommand {
		return noCommand, ""
	}
	return kind, cmd
}

func kindOf(words []string) commandKind {
	for len(words) > 0 && (assignment.MatchString(words[0]) || slices.Contains(wrappers, words[0])) {
		words = words[1:]
	}
	if len(words) == 0 {
		return noCommand
	}
	if (words[0] == "docker" || words[0] == "podman" || words[0] == "nerdctl") && slices.Contains(words[:min(len(words), 3)], "run") {
		return containerKind(words)
	}
	first := path.Base(words[0])
	if n := matchWords(clients, first, words); n > 0 {
		return ifCommand(clientCommand, words, n)
	}
	if n := matchWords(servers, first, words); n > 0 {
		return ifCommand(serverCommand, words, n)
	}
	return noCommand
}

func matchWords(table [][]string, first string, words []string) int {
	for _, t := range table {
		if t[0] == first && len(words) >= len(t) && slices.Equal(words[1:len(t)], t[1:]) {
			return len(t)
		}
	}
	return 0
}

// ifCommand tells a command from a sentence that begins like one: it has flags, paths, or nothing more.
func ifCommand(kind commandKind, words []string, n int) commandKind {
	if len(words) <= n+1 {
		return kind
	}
	for _, w := range words[n:] {
		if strings.HasPrefix(w, "-") || strings.ContainsAny(w, `/\$=`) {
			return kind
		}
	}
	return noCommand
}

// containerKind is a container that serves a model, or one that runs a client.
func containerKind(words []string) commandKind {
	for i, w := range words {
		if n := matchWords(clients, path.Base(w), words[i:]); n > 0 {
			return clientCommand
		}
	}
	for _, w := range words {
		name := strings.ToLower(w)
		if !strings.HasPrefix(w, "-") && slices.ContainsFunc(images, func(im string) bool { return strings.Contains(name, im) }) {
			return serverCommand
		}
	}
	if words[len(words)-1] == `\` || len(words) < 6 { // the image may come on a line below
		return serverCommand
	}
	return noCommand
}

// flagsOf reads the flags of a command line: --num-prompts 10 is num_prompts = 10, a bare flag true.
func flagsOf(cmd string) []argument {
	words := shellWords(cmd)
	var out []argument
	for i := 0; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag || name == "" {
			continue
		}
		arg := argument{value: true}
		if key, value, found := strings.Cut(name, "="); found {
			name, arg.value = key, result.Plain(value)
		} else if i+1 < len(words) && !isFlagWord(words[i+1]) {
			i++
			arg.value = result.Plain(words[i])
		}
		if arg.name = strings.ReplaceAll(name, "-", "_"); arg.name != "" {
			out = append(out, arg)
		}
	}
	return out
}

func isFlagWord(w string) bool {
	return strings.HasPrefix(w, "-") && !printed.MatchString(w)
}

// shellWords splits a command as a shell does, without expanding anything.
func shellWords(s string) []string {
	var words []string
	var word strings.Builder
	open := false
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '\'':
			word.WriteByte(c)
		case c == '\\' && i+1 < len(s):
			i++
			word.WriteByte(s[i])
			open = true
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if open {
				words = append(words, word.String())
				word.Reset()
				open = false
			}
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words
}
