package tune

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"spate/internal/host/launch"
	"spate/internal/safe/secret"
	"spate/internal/search/suggest"
)

// Deploy are the files in which a setting is taken into use, by name.
func (f *File) Deploy(set suggest.Settings) (map[string]string, error) {
	f = f.public()
	command := f.Command(set, "8000", "spate")
	env := f.Env(set)
	compose, err := f.compose(command, env, set)
	if err != nil {
		return nil, err
	}
	helm, err := f.helm(set, env)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"serve.sh":            "#!/bin/sh\nexec env " + launch.Words(append(env, command...)) + "\n",
		"server.service":      f.unit(command, env),
		"docker-compose.yaml": compose,
		"values.yaml":         helm,
	}, nil
}

// unit is a systemd unit.
func (f *File) unit(command, env []string) string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "[Unit]\nDescription=%s serving %s\nAfter=network-online.target\nWants=network-online.target\n\n[Service]\n", f.Server.Kind, f.Model)
	for _, e := range env {
		if name, value, _ := strings.Cut(e, "="); value == "${"+name+"}" { // systemd fills in none here
			fmt.Fprintf(b, "# %s is a secret: systemctl set-environment, or an EnvironmentFile\nPassEnvironment=%s\n", name, name)
			continue
		}
		fmt.Fprintf(b, "Environment=%s\n", quoteUnit(e))
	}
	words := make([]string, len(command))
	for i, w := range command {
		words[i] = quoteUnit(w)
	}
	fmt.Fprintf(b, "ExecStart=/usr/bin/env %s\nRestart=on-failure\nKillMode=control-group\nTimeoutStopSec=60\nLimitNOFILE=1048576\n\n[Install]\nWantedBy=multi-user.target\n", strings.Join(words, " "))
	return b.String()
}

// quoteUnit writes a word as systemd reads it: a percent sign and a dollar mean more there.
func quoteUnit(w string) string {
	if secret.Reference(w) {
		return w // of a variable of the service
	}
	w = strings.NewReplacer("%", "%%", "$", "$$").Replace(w)
	if w == "" || strings.ContainsAny(w, " \t\"'\\;") {
		return strconv.Quote(w)
	}
	return w
}

// images are where the engines come as containers.
var images = map[string]string{
	"vllm": "vllm/vllm-openai", "sglang": "lmsysorg/sglang", "lmdeploy": "openmmlab/lmdeploy", "llama.cpp": "ghcr.io/ggml-org/llama.cpp", "sim": "spate",
}

func (f *File) image() string {
	image := images[f.Server.Kind]
	if image == "" {
		image = f.Server.Kind
	}
	tag := "latest"
	switch {
	case f.Server.Kind == "llama.cpp":
		tag = "server-cuda"
	case f.Version != "" && f.Server.Kind != "sim":
		tag = "v" + strings.TrimPrefix(f.Version, "v")
	}
	return image + ":" + tag
}

// arguments are what follows an image whose entry point is the server: the flags alone, for vLLM's.
func (f *File) arguments(set suggest.Settings) []string {
	if f.Server.Kind == "vllm" {
		return append([]string{"--model", f.Model, "--port", "8000"}, f.Flags(set)...)
	}
	return f.Command(set, "8000", "spate")
}

// compose is a compose file.
func (f *File) compose(command, env []string, set suggest.Settings) (string, error) {
	service := map[string]any{"image": f.image(), "ports": []string{"8000:8000"}, "restart": "unless-stopped", "ipc": "host"}
	if f.Server.Kind == "vllm" {
		service["command"] = f.arguments(set)
	} else {
		service["entrypoint"] = command
	}
	if len(env) > 0 {
		service["environment"] = env
	}
	if f.Server.Kind != "sim" {
		service["deploy"] = map[string]any{"resources": map[string]any{"reservations": map[string]any{"devices": []any{
			map[string]any{"driver": "nvidia", "count": f.GPUs(set), "capabilities": []string{"gpu"}},
		}}}}
		service["volumes"] = []string{"${HF_HOME:-~/.cache/huggingface}:/root/.cache/huggingface"}
	}
	return asYAML(map[string]any{"services": map[string]any{"server": service}})
}

// helm are values in the form most charts for inference servers take.
func (f *File) helm(set suggest.Settings, env []string) (string, error) {
	repo, tag, _ := strings.Cut(f.image(), ":")
	values := map[string]any{
		"image": map[string]any{"repository": repo, "tag": tag}, "model": f.Model, "args": kubernetes(f.arguments(set)),
		"service": map[string]any{"port": 8000},
	}
	if f.Server.Kind != "sim" {
		values["resources"] = map[string]any{"limits": map[string]any{"nvidia.com/gpu": f.GPUs(set)}}
	}
	var list []map[string]any
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if value == "${"+name+"}" {
			list = append(list, map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": map[string]string{"name": "server-secrets", "key": name}}})
			continue
		}
		list = append(list, map[string]any{"name": name, "value": value})
	}
	if list != nil {
		values["env"] = list
	}
	return asYAML(values)
}

// kubernetes are arguments with references as Kubernetes writes them.
func kubernetes(args []string) []string {
	out := slices.Clone(args)
	for i, w := range out {
		if secret.Reference(w) {
			out[i] = "$(" + strings.Trim(w, "${}") + ")"
		}
	}
	return out
}

func asYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return string(data), nil
}
