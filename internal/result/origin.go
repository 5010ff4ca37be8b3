package result

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// told is a label or a fact of the context, as the result has it.
func (e *Entry) told(name string) string {
	if v, ok := e.Labels[name]; ok {
		return v
	}
	return e.Context.Text(name)
}

// engines are the words by which a launch command or a backend tells its engine.
var engines = []string{"vllm", "sglang", "lmdeploy", "tensorrt_llm", "trtllm", "text-generation", "tgi", "llama-server", "ollama", "mlc_llm", "dynamo"}

// Engine is the server's software: a label, what the server said of itself, how it was started, or the
// backend, where that is an engine's and not only a protocol.
func (e *Entry) Engine() string {
	if v := e.told("engine"); v != "" {
		return v
	}
	if e.Run != nil && e.Run.Server.Kind != "" {
		return e.Run.Server.Kind
	}
	texts := []string{e.Context.Text("server_command"), e.Context.Text("backend")}
	if e.Launch != nil {
		texts = append([]string{*e.Launch}, texts...)
	}
	for _, text := range texts {
		text = strings.ToLower(text)
		best, at := "", len(text)
		for _, name := range engines {
			if i := strings.Index(text, name); i >= 0 && i < at {
				best, at = name, i
			}
		}
		if best != "" {
			return best
		}
	}
	return ""
}

// GPU is the accelerator's name: a label, what the result says, or what was seen of it during the run.
func (e *Entry) GPU() string {
	for _, name := range []string{"gpu", "gpu_name", "gpu_type", "accelerator"} {
		if v := e.told(name); v != "" {
			return v
		}
	}
	if e.Run == nil {
		return ""
	}
	var env struct {
		GPUs []struct {
			Name string `json:"name"`
		} `json:"gpus"`
	}
	if json.Unmarshal(e.Run.Environment, &env) != nil || len(env.GPUs) == 0 { // without one, or in a form this does not know
		return ""
	}
	return env.GPUs[0].Name
}

// Version is that of the server's software: a label, what the server said of itself, or what the result says.
func (e *Entry) Version() string {
	for _, name := range []string{"version", "engine_version"} {
		if v := e.told(name); v != "" {
			return v
		}
	}
	if e.Run == nil {
		return ""
	}
	return e.Run.Server.Version
}

// arguments are the flags the server was started with, where a launch command tells them.
func (e *Entry) arguments() map[string]any {
	f, _ := e.Context.Get("server_arguments")
	args, _ := f.Value.(map[string]any)
	return args
}

// Flags are the names of the flags the server was started with.
func (e *Entry) Flags() []string { return slices.Sorted(maps.Keys(e.arguments())) }

// server is what is known of the server under a name: its software, GPU or version, or one of its flags.
func (e *Entry) server(name string) any {
	switch name {
	case "engine":
		return e.Engine()
	case "gpu":
		return e.GPU()
	case "version":
		return e.Version()
	}
	for _, key := range []string{name, strings.ReplaceAll(name, "-", "_"), strings.ReplaceAll(name, "_", "-")} {
		if v, ok := e.arguments()[key]; ok {
			return v
		}
	}
	return nil
}
