package tune

import (
	"os"
	"testing"

	"spate/internal/settings/config"
	"spate/internal/settings/flags"
)

func resolve(args []string) (*config.Bench, error) {
	r, err := flags.Parse(args, flags.Options{
		Env: func(string) (string, bool) { return "", false }, ReadFile: func(string) ([]byte, error) { return nil, os.ErrNotExist }, IDPrefix: "t-",
	})
	if err != nil {
		return nil, err
	}
	return r.Bench, nil
}

func example(t testing.TB, name string) *File {
	t.Helper()
	data, err := os.ReadFile("../../../examples/tune/" + name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
