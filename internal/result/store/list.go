package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"spate/internal/judge/verdict"
	"spate/internal/result"
)

// Item is what is known of a stored result without reading all of it.
type Item struct {
	ID      string
	Key     string // result.Identity
	Name    string
	Format  string // as harvest names it
	Run     bool   // spate measured it
	Tool    string
	State   string
	Verdict string
	Model   string
	Engine  string
	Backend string
	GPU     string
	Error   string    // of a failed start
	Started time.Time // zero: the result does not say
	Added   time.Time
	Command string
	Labels  map[string]string
	Figures result.Figures // under vLLM's names, as printed

	Folder string // where the run lay when it was put, empty for results of other tools
	Host   string // on which machine
	Source string // the file a result of another tool was found in
	Line   int
}

// At is when the result was measured, or else when it came into the store.
func (it *Item) At() time.Time {
	if it.Started.IsZero() {
		return it.Added
	}
	return it.Started
}

// Judged is the item as far as its verdict goes.
func (it *Item) Judged() *result.Entry {
	e := &result.Entry{Labels: it.Labels}
	if it.Run {
		e.Run = &result.Run{State: result.State(it.State)}
		e.Run.Verdict.Grade = verdict.Grade(it.Verdict)
	}
	return e
}

// Filter says which results are meant. What is empty asks for nothing.
type Filter struct {
	IDs []string // exactly these

	// A word matches anywhere in the name, capitals aside; with * or ? the pattern is the whole name.
	Model, Engine, Backend, GPU, Format, Verdict string

	Labels       []Label
	Since, Until time.Time // of At: from the first up to, not including, the second
	Where        []Bound   // on figures; a result without the figure does not meet it
	Sort         string    // "started" (default), "added", "id", "name", "model" or a figure
	Desc         bool
	Limit        int // 0: all
}

// Label is a label to have: with this value, which may be a pattern, or with any.
type Label struct {
	Name, Value string
	Any         bool
}

// columns that sorting knows beside figures.
var sortColumns = map[string]string{
	"started": "COALESCE(r.started, r.added)", "added": "r.added", "id": "r.id", "name": "r.name", "model": "r.model",
	"engine": "r.engine", "gpu": "r.gpu", "verdict": "r.verdict",
}

// IsSort reports whether results can be sorted by a name that is no figure's.
func IsSort(name string) bool { return sortColumns[name] != "" }

const itemColumns = "r.id, r.identity, r.name, r.format, r.tool, r.state, r.verdict, r.model, r.engine, r.backend, r.gpu," +
	" r.started, r.added, r.command, r.folder, r.source, r.line, r.host, r.error"

// List finds results. They come newest first, unless the filter says otherwise.
func (s *Store) List(ctx context.Context, f Filter) ([]Item, error) {
	where, args := f.conditions()
	query := "SELECT " + itemColumns + " FROM spate_runs r"
	order, sortArgs := f.order()
	if sortArgs != nil {
		query += " LEFT JOIN spate_figures o ON o.run = r.id AND o.extra = 0 AND o.name = ?"
		args = append(sortArgs, args...)
	}
	query += where + order
	if f.Limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	var items []Item
	err := s.each(ctx, s.db, query, args, func(rows *sql.Rows) error {
		it, err := scanItem(rows)
		items = append(items, it)
		return err
	})
	if err == nil {
		err = s.decorate(ctx, items)
	}
	if err != nil {
		return nil, fmt.Errorf("list results: store %s: %w", s.place, s.dialect.explain(err))
	}
	return items, nil
}

func scanItem(rows *sql.Rows) (Item, error) {
	var it Item
	var started *int64
	var added int64
	err := rows.Scan(&it.ID, &it.Key, &it.Name, &it.Format, &it.Tool, &it.State, &it.Verdict, &it.Model, &it.Engine, &it.Backend, &it.GPU,
		&started, &added, &it.Command, &it.Folder, &it.Source, &it.Line, &it.Host, &it.Error)
	it.Run = it.Format == result.FormatSpate
	it.Added = time.UnixMicro(added).UTC()
	if started != nil {
		it.Started = time.UnixMicro(*started).UTC()
	}
	return it, err
}

// decorate adds labels and figures, for many items at a time.
func (s *Store) decorate(ctx context.Context, items []Item) error {
	at := map[string]*Item{}
	for i := range items {
		items[i].Labels = map[string]string{}
		at[items[i].ID] = &items[i]
	}
	for part := range slices.Chunk(items, 500) {
		in, ids := idList(part)
		err := s.each(ctx, s.db, "SELECT run, name, value FROM spate_labels WHERE run IN "+in, ids, func(rows *sql.Rows) error {
			var run, name, value string
			err := rows.Scan(&run, &name, &value)
			at[run].Labels[name] = value
			return err
		})
		if err != nil {
			return err
		}
		err = s.figures(ctx, "extra = 0 AND run IN "+in, ids, func(id string, _ int, f result.Figure) {
			at[id].Figures = append(at[id].Figures, f)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func idList(items []Item) (in string, ids []any) {
	for i := range items {
		ids = append(ids, items[i].ID)
	}
	return "(?" + strings.Repeat(", ?", len(ids)-1) + ")", ids
}

// conditions is the filter as SQL.
func (f *Filter) conditions() (text string, args []any) {
	var all []string
	add := func(condition string, values ...any) {
		all = append(all, condition)
		args = append(args, values...)
	}
	if f.IDs != nil {
		if len(f.IDs) == 0 {
			add("1 = 0")
		} else {
			add("r.id IN (?"+strings.Repeat(", ?", len(f.IDs)-1)+")", anys(f.IDs)...)
		}
	}
	for _, p := range []struct{ column, pattern string }{
		{"model", f.Model},
		{"engine", f.Engine},
		{"backend", f.Backend},
		{"gpu", f.GPU},
		{"format", f.Format},
		{"verdict", f.Verdict},
	} {
		if p.pattern == "" {
			continue
		}
		// What a result does not say of itself users say with a label.
		add("(LOWER(r."+p.column+") LIKE ? ESCAPE '!' OR EXISTS (SELECT 1 FROM spate_labels l WHERE l.run = r.id AND l.name = ?"+
			" AND LOWER(l.value) LIKE ? ESCAPE '!'))", like(p.pattern, true), p.column, like(p.pattern, true))
	}
	for _, l := range f.Labels {
		condition := "EXISTS (SELECT 1 FROM spate_labels l WHERE l.run = r.id AND l.name = ?"
		if l.Any {
			add(condition+")", l.Name)
			continue
		}
		add(condition+" AND LOWER(l.value) LIKE ? ESCAPE '!')", l.Name, like(l.Value, false))
	}
	if !f.Since.IsZero() {
		add(sortColumns["started"]+" >= ?", f.Since.UnixMicro())
	}
	if !f.Until.IsZero() {
		add(sortColumns["started"]+" < ?", f.Until.UnixMicro())
	}
	for _, b := range f.Where {
		add("r.id IN (SELECT f.run FROM spate_figures f WHERE f.name = ? AND f.value "+string(b.Op)+" ?)", b.Figure, b.Value) // by its index
	}
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}

// like is a pattern with * and ? as SQL has it, in lower case.
func like(pattern string, anywhere bool) string {
	escaped := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(strings.ToLower(clean(pattern)))
	out := strings.NewReplacer("*", "%", "?", "_").Replace(escaped)
	if anywhere && out == escaped {
		return "%" + out + "%"
	}
	return out
}

// order is the sorting; results without the figure come last, and ties by id, so that a list is the same
// every time.
func (f *Filter) order() (text string, args []any) {
	direction := " ASC"
	if f.Desc {
		direction = " DESC"
	}
	if f.Sort == "" {
		return " ORDER BY " + sortColumns["started"] + " DESC, r.id", nil
	}
	if column, ok := sortColumns[f.Sort]; ok {
		return " ORDER BY " + column + direction + ", r.id", nil
	}
	return " ORDER BY CASE WHEN o.value IS NULL THEN 1 ELSE 0 END, o.value" + direction + ", r.id", []any{f.Sort}
}

// Where a run's records are.
const (
	RecordsHere  = "here"
	RecordsGone  = "gone"      // the folder was moved or deleted
	RecordsAway  = "elsewhere" // on another machine
	RecordsNever = "none"      // only figures are known
)

// Records says whether the run's folder is still where it was.
func (s *Store) Records(it *Item) string {
	switch {
	case it.Folder == "":
		return RecordsNever
	case isFolder(it.Folder):
		return RecordsHere
	case it.Host != "" && it.Host != s.host:
		return RecordsAway
	}
	return RecordsGone
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// FigureNames are the figures results in the store have, sorted.
func (s *Store) FigureNames(ctx context.Context) ([]string, error) {
	return s.texts(ctx, "SELECT DISTINCT name FROM spate_figures ORDER BY name")
}

func (s *Store) texts(ctx context.Context, query string, args ...any) (out []string, err error) {
	err = s.each(ctx, s.db, query, args, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		out = append(out, text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read store %s: %w", s.place, s.dialect.explain(err))
	}
	return out, nil
}
