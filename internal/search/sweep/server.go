package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"spate/internal/host/launch"
	"spate/internal/trial"
)

// explain says on one line why a start failed, and on the next ones what the server printed last.
func explain(start *trial.StartError, program string) error {
	f, ok := errors.AsType[*launch.Failure](start.Err)
	switch {
	case !ok:
		return start.Err
	case f.How == "" && f.Kind == launch.NotFound:
		return fmt.Errorf("start %s: %s", program, f.Line)
	case f.How == "": // it was not even tried
		return errors.New(f.Line)
	case f.Kind == launch.Crash || f.Kind == launch.Timeout:
		return errors.New(f.How + lastLines(f.Log))
	}
	return fmt.Errorf("%s, %s: %s%s", f.How, f.Kind, f.Line, lastLines(f.Log))
}

// lastLines quotes the end of a server's log.
func lastLines(log string) string {
	const lines = 5
	data, err := os.ReadFile(log)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return "; the end of " + log + ":\n  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// Spec is the server to start, as far as the suite says; log is the file for what it prints.
func (l *Launch) Spec(log string) launch.Spec {
	spec := launch.Spec{
		Command: words(l.Command), Cleanup: words(l.Stop), Env: l.environ(), URL: l.URL, Log: log,
		Ready: max(l.Ready, 1), Grace: max(l.Grace, 1), // there, 0 asks for a default
	}
	if spec.URL == "" && !picksPort(l.Command) {
		spec.URL = defaultURL
	}
	return spec
}

const portMark = "{port}"

func picksPort(command []string) bool {
	return slices.ContainsFunc(command, func(w string) bool { return strings.Contains(w, portMark) })
}

// words are a command as it is run: several are the program and its arguments, one is for the shell.
func words(command []string) []string {
	if len(command) != 1 || strings.TrimSpace(command[0]) == "" {
		return command
	}
	return shell(command[0])
}

// shell is how a line is run. A plain one needs no shell, and what needs one is put in the shell's
// place where that is possible, so that the process that is watched is the server itself.
func shell(line string) []string {
	if !strings.ContainsAny(strings.ReplaceAll(line, portMark, "0"), "|&;<>()$`\\\"'*?[]#~%={}!\n") {
		return strings.Fields(line)
	}
	if !strings.ContainsAny(line, "|&;\n") && !strings.Contains(strings.Fields(line)[0], "=") {
		line = "exec " + line
	}
	return []string{"/bin/sh", "-c", line}
}

// environ is what the launch adds to this process's environment; vLLM's prefix cache can only be reset
// in its development mode.
func (l *Launch) environ() []string {
	env := []string{"VLLM_SERVER_DEV_MODE=1"}
	for _, k := range sortedKeys(l.Env) {
		env = append(env, k+"="+l.Env[k])
	}
	return env
}
