package attack

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"spate/internal/result"
)

// victim is a good file, and the commands that read it. FILE, FOLDER and OUT stand for the damaged file, the folder it
// lies in and a file to write.
type victim struct {
	name     string
	good     []byte
	folder   string // of a run whose other files lie beside it
	commands [][]string
}

const root = "../../.."

// victims are made of a real run and of files in this repository.
func victims(t *testing.T) []victim {
	t.Helper()
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	args := []string{
		"bench", "--sim", "timetable", "--num-prompts", "12", "--random-input-len", "8", "--random-output-len", "4", "--output-dir", run,
		"--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "vllm.json",
	}
	if code, err := spate(t, dir, args...); err != nil || code != 0 {
		t.Fatalf("the run that is damaged: exit code %d, %v", code, err)
	}
	folders := [][]string{
		{"report", "FOLDER"},
		{"report", "FOLDER", "-o", "OUT.html"},
		{"report", "FOLDER", "-o", "OUT.md"},
		{"explain", "FOLDER"},
		{"import", "FOLDER"},
		{"import", "FOLDER", "--json"},
		{"compare", run, "FOLDER"},
	}
	imports := [][]string{{"import", "FILE"}, {"import", "FILE", "--json"}, {"report", "FILE"}}
	var all []victim
	for _, name := range []string{result.RecordsFile, result.ResultFile, result.RunFile, "series.jsonl", result.EnvironmentFile} {
		all = append(all, victim{name: name, good: load(t, filepath.Join(run, name)), folder: run, commands: folders})
	}
	all = append(all, victim{name: "vllm.json", good: load(t, filepath.Join(dir, "vllm.json")), commands: imports})
	sets := map[string]string{"custom": "examples/prompts.jsonl", "mooncake": "examples/trace.jsonl", "sharegpt": "internal/test/e2e/testdata/data/sharegpt.json"}
	for _, kind := range []string{"custom", "mooncake", "sharegpt"} {
		path := filepath.Join(root, sets[kind])
		all = append(all, victim{name: filepath.Base(path), good: load(t, path), commands: [][]string{dry("--dataset-name", kind, "--dataset-path", "FILE")}})
	}
	for _, name := range []string{"bert", "digits", "regex", "unigram"} {
		good := load(t, filepath.Join(root, "internal", "token", "tokenizer", "testdata", name+".tokenizer.json.gz"))
		all = append(all, victim{name: "tokenizer.json", good: good, commands: [][]string{{"bench", "--dry-run", "--model", "m", "--num-prompts", "2", "--random-input-len", "8", "--tokenizer", "FILE"}}})
	}
	for _, name := range []string{"chat-slo.yaml", "stages.yaml", "closed-loop.yaml"} {
		all = append(all, victim{name: name, good: load(t, filepath.Join(root, "examples", name)), commands: [][]string{dry("--config", "FILE")}})
	}
	return append(all, harvested(t, imports)...)
}

// harvested are the files of other tools that import reads.
func harvested(t *testing.T, commands [][]string) (all []victim) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "internal", "result", "harvest", "testdata"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if good := load(t, path); len(good) < 256<<10 {
			all = append(all, victim{name: d.Name(), good: good, commands: commands})
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("found %d files of other tools: %v", len(all), err)
	}
	return all
}

func dry(args ...string) []string {
	return append([]string{"bench", "--dry-run", "--model", "m", "--skip-tokenizer-init", "--num-prompts", "20"}, args...)
}

func load(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".gz") {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(z)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var (
	numbers = regexp.MustCompile(`-?\d+(\.\d+)?([eE][+-]?\d+)?`)
	strs    = regexp.MustCompile(`"[^"\\\n]*"`)
	values  = regexp.MustCompile(`:\s*("[^"\\\n]*"|-?\d[\d.eE+-]*|true|false|null)`)

	oddNumbers = []string{
		"0", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775806", "2147483647", "1e308", "-1e308", "1e-320", "1e999",
		"NaN", "Infinity", "0.1", "18446744073709551616", "99999999999999999999999999", "00", "-0", "1_000", "0x10",
	}
	oddStrings = []string{
		`""`, `"\u001b[2J\u001b]0;owned\u0007"`, "\"\x1b[31m\"", `"\u202e"`, `"/dev/zero"`, `"../../../../../etc/passwd"`, `"=1+1"`, `"<script>alert(1)</script>"`,
		`"\ud800"`, "\"\xff\xfe\"", `"\u0000"`, `"%s%s%n"`, `"a\nb"`, `"` + strings.Repeat("m", 5000) + `"`, `"(a|aa)+$"`, `"(((((a*)*)*)*)*)*b"`, `"{{ range(10**9) | join }}"`,
	}
	oddValues = []string{": null", ": []", ": {}", ": true", ": [[[[]]]]", `: "x"`, ": 7", ": -1", ": 1e400", `: {"a":{"a":{"a":{}}}}`, ":"}
)

// damage is one change of a file.
func damage(r *rand.Rand, data []byte, all []victim) []byte {
	data = bytes.Clone(data)
	at := func() int { return r.IntN(len(data) + 1) }
	cut := func() (from, to int) { a, b := at(), at(); return min(a, b), max(a, b) }
	insert := func(text string) []byte {
		i := at()
		return append(append(bytes.Clone(data[:i]), text...), data[i:]...)
	}
	switch r.IntN(16) {
	case 0: // flipped bits
		for range 1 + r.IntN(8) {
			if len(data) > 0 {
				data[r.IntN(len(data))] ^= 1 << r.IntN(8)
			}
		}
		return data
	case 1:
		return data[:at()]
	case 2: // a hole
		from, to := cut()
		return append(data[:from], data[to:]...)
	case 3: // twice
		from, to := cut()
		return append(bytes.Clone(data[:to]), data[from:]...)
	case 4: // lines in another order
		lines := bytes.SplitAfter(data, []byte("\n"))
		r.Shuffle(len(lines), func(i, k int) { lines[i], lines[k] = lines[k], lines[i] })
		return bytes.Join(lines, nil)
	case 5, 6, 7:
		return swap(r, data, numbers, oddNumbers)
	case 8, 9:
		return swap(r, data, strs, oddStrings)
	case 10, 11:
		return swap(r, data, values, oddValues)
	case 12:
		return insert(strings.Repeat([]string{"[", "{", `{"a":`, "- ", "\x00", "\xff", "\r"}[r.IntN(7)], 1<<r.IntN(18)))
	case 13: // a piece of another file
		other := all[r.IntN(len(all))].good
		i := r.IntN(len(other))
		return insert(string(other[i:min(len(other), i+r.IntN(4096))]))
	case 14: // one line without an end
		return bytes.ReplaceAll(data, []byte("\n"), []byte(" "))
	default:
		return bytes.Repeat(data, r.IntN(5))
	}
}

// swap puts odd words in the place of one to four matches.
func swap(r *rand.Rand, data []byte, what *regexp.Regexp, odd []string) []byte {
	for range 1 + r.IntN(4) {
		found := what.FindAllIndex(data, -1)
		if len(found) == 0 {
			return data
		}
		m := found[r.IntN(len(found))]
		data = append(append(bytes.Clone(data[:m[0]]), odd[r.IntN(len(odd))]...), data[m[1]:]...)
	}
	return data
}

// TestHostileFiles has the commands that read files read damaged ones.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short: attacks the real program; make attack is the long form")
	}
	all := victims(t)
	n := size(80, 3000)
	atOnce(n, func(i int) {
		r := draws(t, 1_000_000+i)
		v := all[i%len(all)]
		if err := v.attack(t, r, damage(r, v.good, all)); err != nil {
			t.Errorf("file %d (seed %d), %v", i, seed(t), err)
		}
	})
	t.Logf("files: %d", n)
}

// attack lets one command read the damaged file.
func (v *victim) attack(t *testing.T, r *rand.Rand, bad []byte) error {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	folder := filepath.Join(dir, "damaged")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	if v.folder != "" {
		if err := os.CopyFS(folder, os.DirFS(v.folder)); err != nil {
			return err
		}
		if v.name != result.ResultFile && r.IntN(2) == 0 { // so that the run is made again from the rest
			if err := os.Remove(filepath.Join(folder, result.ResultFile)); err != nil {
				return err
			}
		}
	}
	file := filepath.Join(folder, v.name)
	if err := os.WriteFile(file, bad, 0o600); err != nil {
		return err
	}
	args := strings.Split(strings.NewReplacer("FILE", file, "FOLDER", folder, "OUT", filepath.Join(dir, "out")).Replace(strings.Join(v.commands[r.IntN(len(v.commands))], "\x00")), "\x00")
	if _, err := spate(t, dir, args...); err != nil {
		kept := filepath.Join(os.TempDir(), fmt.Sprintf("spate-attack-%x-%s", r.Uint32(), v.name))
		return errors.Join(fmt.Errorf("%s, kept as %s: spate %s: %w", v.name, kept, strings.Join(args, " "), err), os.WriteFile(kept, bad, 0o600))
	}
	return nil
}
