package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestModelNamedLikeAFile: a model that is called like a file of the working folder is a name, not a tokenizer.
func TestModelNamedLikeAFile(t *testing.T) {
	t.Parallel()
	addr := simProcess(t, "--ttft", "0", "--itl", "0", "--model", "truth")
	c := prepare(t, nil, "bench", "--base-url", "http://"+addr, "--model", "truth", "--num-prompts", "2", "--osl", "2", "--no-output", "--no-store")
	if err := os.WriteFile(filepath.Join(c.cmd.Dir, "truth"), []byte("my notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	has(t, "block", c.want(ExitDone).out, "Successful requests:                     2 ")
}

// TestSimAnswersToBothNames: a model of the catalog is known by the name that was typed and by its full one.
func TestSimAnswersToBothNames(t *testing.T) {
	t.Parallel()
	addr := simProcess(t, "Qwen3-8B", "--gpu", "H100", "--time-scale", "20")
	for _, model := range []string{"Qwen3-8B", "Qwen/Qwen3-8B"} {
		c := prepare(t, nil, "bench", "--base-url", "http://"+addr, "--model", model, "--num-prompts", "2", "--osl", "2", "--no-output", "--no-store")
		has(t, model, c.want(ExitDone).out, "Successful requests:                     2 ")
	}
}
