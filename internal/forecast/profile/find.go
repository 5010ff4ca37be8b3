package profile

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"spate/internal/sim/engineconf"
)

// Default is what is simulated when nothing is named.
const Default = "Qwen3-8B@H100-SXM"

// Named is the profile of a name among some, of a file, which read reads, or of model@gpu.
func Named(read func(name string) ([]byte, error), list []*Profile, name string) (*Profile, error) {
	if strings.HasSuffix(name, ".json") {
		data, err := read(name)
		if err != nil {
			return nil, err
		}
		return Decode(data)
	}
	if model, gpu, ok := engineconf.ProfileName(name); ok {
		return OfPair(model, gpu)
	}
	found, err := Find(list, name)
	if err != nil {
		return nil, fmt.Errorf("%w; model@gpu, such as %s, works for every model and GPU known", err, Default)
	}
	return found, nil
}

// NamedShipped is Named among the profiles that ship.
func NamedShipped(read func(name string) ([]byte, error), name string) (*Profile, error) {
	list, err := Shipped()
	if err != nil {
		return nil, err
	}
	return Named(read, list, name)
}

// Read reads profile files and folders of them; without any, it returns those that ship.
func Read(read func(name string) ([]byte, error), paths []string) ([]*Profile, error) {
	if len(paths) == 0 {
		return Shipped()
	}
	var out []*Profile
	for _, path := range paths {
		names, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := read(name)
			if err != nil {
				return nil, err
			}
			p, err := Decode(data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// filesOf is a file, or the JSON files of a folder.
func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking for profiles: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	found, err := filepath.Glob(filepath.Join(path, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("looking for profiles: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no profile (*.json) in %s", path)
	}
	slices.Sort(found)
	return found, nil
}

// WriteList prints profiles, a line each.
func WriteList(w io.Writer, list []*Profile) error {
	width := 0
	for _, p := range list {
		width = max(width, len(p.Name))
	}
	for _, p := range list {
		e := &p.Engine
		text := e.Note
		if e.Known() {
			text = fmt.Sprintf("%s on %d x %s, %s %s", e.Model, max(1, e.GPUs), e.GPU, e.Engine, e.Version)
		}
		state := "calibrated"
		if !p.Calibrated {
			state = "not calibrated"
		}
		if alias := p.Alias(); alias != "" {
			text = fmt.Sprintf("%s (alias %s)", text, alias)
		}
		if _, err := fmt.Fprintf(w, "%-*s %-14s %s\n", width, p.Name, state, text); err != nil {
			return err
		}
	}
	return nil
}

// WriteChoices prints what can be simulated: the measured profiles, and common models on common GPUs.
func WriteChoices(w io.Writer) error {
	list, err := Shipped()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("measured:\n")
	for _, p := range list {
		if p.Calibrated {
			facts := slices.DeleteFunc([]string{p.Engine.Model, p.Engine.GPU, p.Engine.Version}, func(s string) bool { return s == "" })
			fmt.Fprintf(&b, "  %-55s %s (alias %s)\n", p.Name, cmp.Or(strings.Join(facts, ", "), "model and GPU unknown"), p.Alias())
		}
	}
	b.WriteString("not calibrated, computed from the model's config.json and the GPU's datasheet (any model@gpu works):\n")
	for _, pair := range engineconf.CommonProfiles() {
		gpus := "1 GPU"
		if pair.TP > 1 {
			gpus = fmt.Sprintf("%d GPUs", pair.TP)
		}
		fmt.Fprintf(&b, "  %-55s %s\n", pair.Name(), gpus)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
