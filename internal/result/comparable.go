package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// conditions are the parts of a run's settings that change what its figures mean: what was sent, when,
// and how it was asked for. Where it went and what was written are the user's business.
var conditions = []string{"dataset", "load", "body", "model", "target.backend", "target.endpoint", "client", "tenants"}

// ignored are settings within them that never matter: what a bound on stillness gives up is counted as failed.
var ignored = []string{"client.idle_timeout_ns", "load.request_id_prefix", "model.tokenizer", "model.served_name", "dataset.path"}

// sampled is what two samples of one tenant's workload may differ in.
var sampled = []string{"load.seed", "dataset.salt"}

// Comparable says whether the figures of two runs may be set side by side. The error names the
// conditions that differ.
func (r *Run) Comparable(o *Run) error {
	var diffs []string
	note := func(what string, a, b any) {
		if a != b {
			diffs = append(diffs, fmt.Sprintf("%s: %v against %v", what, a, b))
		}
	}
	note("end of latency", r.Plan.EndRule, o.Plan.EndRule)
	note("state", r.State, o.State)
	a, errA := flatten(r.Config)
	b, errB := flatten(o.Config)
	if errA != nil || errB != nil {
		return fmt.Errorf("runs %s and %s cannot be compared: settings of one are unreadable", r.ID, o.ID)
	}
	diffs = append(diffs, differing(a, b, matters)...)
	if len(diffs) == 0 {
		return nil
	}
	const most = 5
	if n := len(diffs); n > most {
		diffs = append(diffs[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Errorf("runs %s and %s differ in %s", r.ID, o.ID, strings.Join(diffs, "; "))
}

// drawn are the settings that decide which requests a run sends, but for the salt before each of them.
var drawn = []string{"load.seed", "dataset", "model.tokenizer"}

// DrawnApart names the settings by which two runs sent different requests; none where both sent the same.
// A prediction keeps no settings but its seed.
func (r *Run) DrawnApart(o *Run) []string {
	if len(r.Config) == 0 || len(o.Config) == 0 {
		if r.Plan.Seed != o.Plan.Seed {
			return []string{fmt.Sprintf("--seed %d against %d", r.Plan.Seed, o.Plan.Seed)}
		}
		return nil
	}
	a, errA := flatten(r.Config)
	b, errB := flatten(o.Config)
	if errA != nil || errB != nil {
		return []string{"settings of one run are unreadable"}
	}
	return differing(a, b, func(key string) bool {
		own := withinTenant(key)
		return own != "dataset.salt" && within(own, drawn)
	})
}

// differing names the settings, of those that count, in which two runs differ.
func differing(a, b map[string]string, counts func(key string) bool) []string {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	out, told := lengths(a, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if a[key] == b[key] || !counts(key) || told(key) {
			continue
		}
		name := strings.ReplaceAll(key, dotInName, ".") + ":"
		if key == "load.seed" {
			name = "--seed"
		}
		out = append(out, fmt.Sprintf("%s %s against %s", name, cmp.Or(a[key], "unset"), cmp.Or(b[key], "unset")))
	}
	return out
}

// lengths names --isl and --osl where runs of one kind of dataset differ in them, by the lengths that were
// sent. Either flag sets a length of every kind of dataset, which told then knows to be said, or not to matter where the
// length of the kind that was sent is the same.
func lengths(a, b map[string]string) (diffs []string, told func(key string) bool) {
	kind := strings.ReplaceAll(strings.Trim(a["dataset.name"], `"`), "-", "_")
	var said []string
	for _, l := range []struct{ flag, key string }{{"--isl", ".input_len"}, {"--osl", ".output_len"}} {
		sent := "dataset." + kind + l.key
		if a["dataset.name"] != b["dataset.name"] || a["dataset"+l.key] == b["dataset"+l.key] || a[sent] == "" && b[sent] == "" {
			continue
		}
		if a[sent] != b[sent] {
			diffs = append(diffs, fmt.Sprintf("%s %s against %s", l.flag, cmp.Or(a[sent], "unset"), cmp.Or(b[sent], "unset")))
		}
		said = append(said, l.key)
	}
	return diffs, func(key string) bool {
		return strings.HasPrefix(key, "dataset.") && slices.ContainsFunc(said, func(end string) bool { return strings.HasSuffix(key, end) })
	}
}

func matters(key string) bool {
	own := withinTenant(key)
	return within(own, conditions) && !within(own, ignored) && (own == key || !within(own, sampled))
}

// withinTenant is the name of a setting without the tenant it is of: the same rules hold within one.
func withinTenant(key string) string {
	if rest, ok := strings.CutPrefix(key, "tenants."); ok {
		_, key, _ = strings.Cut(rest, ".")
	}
	return key
}

// within reports whether a setting is one of some, or a part of one.
func within(key string, parts []string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return key == p || strings.HasPrefix(key, p+".") })
}

// flatten turns settings into paths and values; null counts as absent.
func flatten(config json.RawMessage) (map[string]string, error) {
	out := make(map[string]string)
	if len(config) == 0 {
		return out, nil
	}
	var tree any
	if err := json.Unmarshal(config, &tree); err != nil {
		return nil, fmt.Errorf("decode settings: %w", err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for k, child := range v {
				walk(strings.TrimPrefix(path+"."+k, "."), child)
			}
		case []any:
			if path == "tenants" {
				walk(path, byName(v))
				return
			}
			text, _ := json.Marshal(v) // a decoded value always encodes
			out[path] = string(text)
		default:
			text, _ := json.Marshal(v) // a decoded value always encodes
			out[path] = string(text)
		}
	}
	walk("", tree)
	return out, nil
}

// dotInName stands for a dot within a name, which must not look like the next step of a path, nor like another name.
const dotInName = "\x00"

// byName is a list of named things as an object.
func byName(list []any) map[string]any {
	out := make(map[string]any, len(list))
	for i, v := range list {
		one, _ := v.(map[string]any)
		name, _ := one["name"].(string)
		if name == "" {
			name = "#" + strconv.Itoa(i) // no tenant is called so
		}
		out[strings.ReplaceAll(name, ".", dotInName)] = v
	}
	return out
}
