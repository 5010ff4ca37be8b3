package tune

import (
	"maps"
	"path"
	"slices"
	"strings"

	"spate/internal/host/launch"
	"spate/internal/safe/secret"
	"spate/internal/search/suggest"
)

// templates are how the engines are started.
var templates = map[string]string{
	"vllm":      "vllm serve {model} --port {port} {flags}",
	"sglang":    "python -m sglang.launch_server --model-path {model} --port {port} {flags}",
	"lmdeploy":  "lmdeploy serve api_server {model} --server-port {port} {flags}",
	"llama.cpp": "llama-server -m {model} --port {port} {flags}",
	"sim":       "{spate} sim {model} --gpu {gpu} --engine-version {version} --port {port} {flags}",
}

// Kinds are the servers that need no command.
func Kinds() []string { return slices.Sorted(maps.Keys(templates)) }

// guessKind tells an engine by its command.
func guessKind(command []string) string {
	for _, w := range command {
		switch {
		case path.Base(w) == "vllm" || strings.HasPrefix(w, "vllm.") || strings.Contains(w, "vllm-openai"):
			return "vllm"
		case strings.HasPrefix(w, "sglang") || strings.Contains(w, "sglang"):
			return "sglang"
		case path.Base(w) == "lmdeploy":
			return "lmdeploy"
		case path.Base(w) == "llama-server":
			return "llama.cpp"
		case path.Base(w) == "spate":
			return "sim"
		}
	}
	return ""
}

// Flags are the words of fixed flags and settings. The default is started with the fixed ones alone.
func (f *File) Flags(set suggest.Settings) []string {
	var out []string
	for _, x := range f.Fixed {
		if !strings.HasPrefix(x.Name, envPrefix) {
			out = append(out, words(x.Name, x.Value, "")...)
		}
	}
	if f.isDefault(set) {
		return out
	}
	for i := range f.Knobs {
		k := &f.Knobs[i]
		if v, ok := set[k.Name]; ok && !k.env() && !f.fixed(k.Name) {
			out = append(out, words(k.Name, v, k.Off)...)
		}
	}
	return out
}

// Env are the variables of fixed ones and settings, NAME=value.
func (f *File) Env(set suggest.Settings) []string {
	var out []string
	for _, x := range slices.Concat(f.Server.Env, f.Fixed) {
		if name, ok := strings.CutPrefix(x.Name, envPrefix); ok || slices.Contains(f.Server.Env, x) {
			out = append(out, name+"="+x.Value)
		}
	}
	if f.isDefault(set) {
		return out
	}
	for i := range f.Knobs {
		k := &f.Knobs[i]
		if v, ok := set[k.Name]; ok && k.env() && v != unset {
			if k.Kind == suggest.Switch {
				v = map[string]string{"true": "1", "false": "0"}[v]
			}
			out = append(out, strings.TrimPrefix(k.Name, envPrefix)+"="+v)
		}
	}
	return out
}

func (f *File) fixed(name string) bool {
	return slices.ContainsFunc(f.Fixed, func(x Flag) bool { return x.Name == name })
}

func (f *File) isDefault(set suggest.Settings) bool {
	return maps.Equal(set, f.Defaults())
}

// unset is the value of a choice that leaves the flag out.
const unset = "default"

// words are a flag as typed.
func words(name, value, off string) []string {
	flag := "--" + name
	if len(name) == 1 {
		flag = "-" + name
	}
	switch {
	case value == "true" && off != valued:
		return []string{flag}
	case value == "false" && off != valued:
		if off != "" {
			return strings.Fields(off)
		}
		return nil
	case value == unset:
		return nil
	}
	return []string{flag, value}
}

// valued marks a switch that is written with true or false behind it.
const valued = "value"

// Command is the command line of a server with some settings. port and self are filled in where they are
// known; empty ones leave the placeholder.
func (f *File) Command(set suggest.Settings, port, self string) []string {
	fill := strings.NewReplacer("{model}", f.Model, "{gpu}", f.GPU, "{version}", f.Version)
	var out []string
	for i, w := range f.Server.Command {
		if w == "{flags}" {
			out = append(out, f.Flags(set)...)
			continue
		}
		if i > 0 && (w == "{gpu}" && f.GPU == "" || w == "{version}" && f.Version == "") {
			out = out[:len(out)-1] // and the flag before it
			continue
		}
		w = fill.Replace(w)
		w = strings.ReplaceAll(w, "{flags}", launch.Words(f.Flags(set)))
		if port != "" {
			w = strings.ReplaceAll(w, "{port}", port)
		}
		if self != "" {
			w = strings.ReplaceAll(w, "{spate}", self)
		}
		out = append(out, w)
	}
	return out
}

// public is the file with references in the place of secrets: what it starts is to be started again.
func (f *File) public() *File {
	q := *f
	q.Server.Command, q.Server.Stop = secret.Refer(f.Server.Command), secret.Refer(f.Server.Stop)
	q.Server.Env, q.Fixed = slices.Clone(f.Server.Env), slices.Clone(f.Fixed)
	for i, x := range q.Server.Env {
		_, q.Server.Env[i].Value, _ = strings.Cut(secret.ReferEnv([]string{x.Name + "=" + x.Value})[0], "=")
	}
	for i, x := range q.Fixed {
		if name, ok := strings.CutPrefix(x.Name, envPrefix); ok {
			_, q.Fixed[i].Value, _ = strings.Cut(secret.ReferEnv([]string{name + "=" + x.Value})[0], "=")
		} else {
			q.Fixed[i].Value = secret.Refer([]string{"--" + x.Name, x.Value})[1]
		}
	}
	q.Workloads = slices.Clone(f.Workloads)
	for i := range q.Workloads {
		q.Workloads[i].Args = secret.Args(q.Workloads[i].Args)
	}
	if f.Held != nil {
		held := *f.Held
		held.Args = secret.Args(held.Args)
		q.Held = &held
	}
	return &q
}

// Line is the command line for people, with the variables it needs; secrets are references.
func (f *File) Line(set suggest.Settings) string {
	f = f.public()
	port := "8000"
	line := launch.Words(f.Command(set, port, "spate"))
	if env := f.Env(set); len(env) > 0 {
		line = launch.Words(env) + " " + line
	}
	return line
}
