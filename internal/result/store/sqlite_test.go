package store

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"

	"spate/internal/result"
)

// TestOldSchemas opens files that earlier versions wrote. They stay in testdata for ever.
func TestOldSchemas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v1.db")
	data, err := os.ReadFile("testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	if v, err := s.version(context.Background(), s.db); err != nil || v != len(migrations) {
		t.Errorf("schema %d, %v; want %d", v, err, len(migrations))
	}
	items := list(t, s, Filter{Sort: "id"})
	if diff := cmp.Diff([]string{"0c54f00cbd41", "20261115-120000-Qwen3-8B-d627", "5dbd392384e1"}, idsOf(items)); diff != "" {
		t.Fatalf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"kept": "yes"}, items[0].Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	_, own := get(t, s, items[1].ID)
	if own.Run == nil || own.Text("mean_e2el_ms") != "900" || own.Run.Config == nil || s.Records(&items[1]) != RecordsGone {
		t.Errorf("run: %+v, records %s", own, s.Records(&items[1]))
	}
	kept, err := s.PutAll(context.Background(), imported(t))
	if err != nil || kept[0].New || kept[1].New {
		t.Errorf("results of the old file are not known again: %+v, %v", kept, err)
	}
	if it, _ := get(t, s, put(t, s, measured(t, t.TempDir(), 1))[0]); it.Host != s.host {
		t.Errorf("a new run lies on %q, want %q", it.Host, s.host)
	}
}

// TestKilled kills writers at random moments, from before the file exists on. Whatever was said to be in
// is in, and the store opens.
func TestKilled(t *testing.T) {
	t.Parallel()
	kills := 8
	if n, err := strconv.Atoi(os.Getenv("SPATE_STORE_KILLS")); err == nil {
		kills = n
	}
	draw := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	path := filepath.Join(t.TempDir(), "killed.db")
	told := 0
	for kill := range kills {
		if kill%4 == 0 { // a new file now and then: making one is the riskiest moment
			path, told = filepath.Join(t.TempDir(), fmt.Sprintf("killed%d.db", kill)), 0
		}
		told = killOne(t, draw, path, told)
		s := open(t, path)
		items := list(t, s, Filter{Sort: "mean_ttft_ms"})
		if len(items) < told || len(items) > told+1 { // the one being put may be in or not
			t.Fatalf("kill %d: %d results, and %d were said to be in", kill, len(items), told)
		}
		for n := range items {
			if len(items[n].Figures) != 61 || items[n].Figures[0].Text != fmt.Sprintf("%d.00", n) {
				t.Fatalf("kill %d: result %d has %d figures", kill, n, len(items[n].Figures))
			}
		}
		if entries, err := s.Entries(context.Background(), items); err != nil || len(entries) != len(items) {
			t.Fatalf("kill %d: %d of %d entries, %v", kill, len(entries), len(items), err)
		}
		if sound, err := s.texts(context.Background(), "PRAGMA integrity_check"); err != nil || len(sound) != 1 || sound[0] != "ok" {
			t.Fatalf("kill %d: %v, %v", kill, sound, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		told = len(items)
	}
}

// killOne starts a writer, lets it put some results and kills it. It returns how many the store has at least.
func killOne(t *testing.T, draw *rand.Rand, path string, have int) int {
	t.Helper()
	cmd := childCmd(t, path, have, 10_000)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10_000)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	wait := time.Duration(draw.Int64N(int64(40 * time.Millisecond)))
	for range draw.IntN(4) { // 0: it may not have opened the file yet
		<-lines
		have++
		wait = time.Duration(draw.Int64N(int64(8 * time.Millisecond)))
	}
	time.Sleep(wait) // any moment will do
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range lines { // also said before the kill
		have++
	}
	_ = cmd.Wait() // it was killed
	return have
}

func TestFullDisk(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "full.db"))
	put(t, s, numbered(0))
	var pages int
	if err := s.each(context.Background(), s.db, "PRAGMA page_count", nil, func(r *sql.Rows) error { return r.Scan(&pages) }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", pages+2)); err != nil {
		t.Fatal(err)
	}
	var many []result.Entry
	for n := range 50 {
		many = append(many, numbered(1+n))
	}
	_, err := s.PutAll(context.Background(), many)
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("put on a full disk: %v", err)
	}
	if n := len(list(t, s, Filter{})); n != 1 {
		t.Errorf("%d results after a put that could not be, want the one from before", n)
	}
}

// TestReadOnly makes writing impossible also for root: where SQLite needs a file there is a folder.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked.db")
	s := open(t, path)
	put(t, s, imported(t)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+"-wal", 0o755); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if n := len(list(t, s, Filter{})); n != 2 {
		t.Errorf("%d results can be read, want 2", n)
	}
	_, err := s.Put(context.Background(), numbered(0))
	if err == nil || !strings.Contains(err.Error(), "can only be read") || !strings.Contains(err.Error(), path) {
		t.Errorf("put into a store that cannot be written: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stranger := filepath.Join(dir, "stranger.db")
	c, err := sqlite.NewConnector("file:" + stranger)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(c)
	if _, err := db.ExecContext(context.Background(), "CREATE TABLE customers (id INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, where, want string }{
		{"not a database", file("text.db", strings.Repeat("not a database\n", 100)), "not a store"},
		{"another program's", stranger, "of another program"},
		{"below a file", filepath.Join(file("plain", "x"), "spate"), "make its folder"},
		{"unknown scheme", "postgre://x/y", `did you mean "postgres"?`},
		{"nowhere", "", "not a place for a store"},
		{"nobody answers", "postgres://me:secret@127.0.0.1:1/db?connect_timeout=5", "connection refused"},
		{"a URL that is none", "postgres://me:secret@%zz/db", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(context.Background(), c.where)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

func BenchmarkPut(b *testing.B) {
	s, err := Open(context.Background(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		if _, err := s.Put(context.Background(), numbered(n)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkList(b *testing.B) {
	s, err := Open(context.Background(), filepath.Join(b.TempDir(), "bench.db"))
	if err != nil {
		b.Fatal(err)
	}
	var all []result.Entry
	for n := range 5000 {
		all = append(all, numbered(n))
	}
	if _, err := s.PutAll(context.Background(), all); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		items, err := s.List(context.Background(), Filter{Where: []Bound{{Figure: "mean_ttft_ms", Op: Less, Value: 20}}, Sort: "figure_01", Desc: true})
		if err != nil || len(items) != 20 {
			b.Fatalf("%d results, %v", len(items), err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
