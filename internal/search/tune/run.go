package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"spate/internal/trial"
)

// plannedFile is what a folder was begun for.
const plannedFile = "tune.json"

// Events of a journal.
const (
	eventAdvice = "advice" // of the simulator
	eventStart  = "start"
	eventDone   = "done"
	eventEnd    = "end"
)

// Folder is where a search keeps its journal and its runs.
type Folder struct {
	*trial.Work
	History []Observation
	Advice  *Advice // of a simulator; nil: not asked, or there is none
}

// Open opens the folder of a search. One that was begun goes on if the file is still the same. What only
// bounds the search may change.
func Open(dir string, f *File) (*Folder, error) {
	w, err := trial.Open(dir)
	if err != nil {
		return nil, err
	}
	d := &Folder{Work: w}
	if err := d.begin(f); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return d, nil
}

func (d *Folder) begin(f *File) error {
	was, err := trial.Load[File](d.Dir, plannedFile)
	switch {
	case err != nil:
		return err
	case was == nil && len(d.Journal) > 0:
		return fmt.Errorf("%s has a journal and no %s: it is not the folder of a search", d.Dir, plannedFile)
	case was == nil:
		return d.Save(plannedFile, f.public())
	}
	is := *f.public()
	was.Trials, was.Time, is.Trials, is.Time = 0, 0, 0, 0
	if diff := trial.Differences(was, is); len(diff) > 0 {
		return &trial.ChangedError{
			Begun: "the search in " + d.Dir + " was begun with another file", Changes: diff,
			Way: "put the file back, or name another folder with --output-dir",
		}
	}
	return d.recall()
}

// recall reads what was observed.
func (d *Folder) recall() error {
	for i, e := range d.Journal {
		switch e.Event {
		case eventAdvice:
			d.Advice = &Advice{}
			if err := json.Unmarshal(e.Data, d.Advice); err != nil {
				return fmt.Errorf("journal line %d: %w", i+1, err)
			}
		case eventDone:
			var o Observation
			if err := json.Unmarshal(e.Data, &o); err != nil {
				return fmt.Errorf("journal line %d: %w", i+1, err)
			}
			if o.N != len(d.History) {
				return fmt.Errorf("journal line %d: step %d where %d is due", i+1, o.N, len(d.History))
			}
			d.History = append(d.History, o)
		}
	}
	return nil
}

// Options of Run.
type Options struct {
	// Prior says what a simulator thinks well of, asked once the default was measured; nil: there is none.
	Prior func(history []Observation) (*Advice, error)
	Show  func(Progress)
	Stop  <-chan struct{} // closed to end after what is running
}

// Progress is where a search stands.
type Progress struct {
	Now     *Step // being made; nil: between two
	History []Observation
	Tuner   *Tuner
	Last    *Observation // that just came in
	Earlier bool         // it was in the journal
}

// Run makes steps until the search is over, or it is stopped; stopped is true then. Every observation is in
// the journal before the next step begins.
func Run(ctx context.Context, d *Folder, t *Tuner, r Runner, o Options) (stopped bool, err error) {
	show := o.Show
	if show == nil {
		show = func(Progress) {}
	}
	t.Advice = d.Advice
	if n := len(d.History); n > 0 {
		show(Progress{History: d.History, Tuner: t, Last: &d.History[n-1], Earlier: true})
	}
	for {
		step, more, err := t.Next(d.History)
		if err != nil || !more {
			return false, errors.Join(err, d.over(err))
		}
		if trial.Stopped(ctx, o.Stop) {
			return true, nil
		}
		if step.Phase == Trial && step.Trial > 0 && o.Prior != nil && d.Advice == nil {
			if err := d.ask(t, o.Prior); err != nil {
				return false, err
			}
			continue
		}
		if err := d.NoteData(eventStart, step.Key(), step); err != nil {
			return false, err
		}
		show(Progress{Now: &step, History: d.History, Tuner: t})
		obs, err := r.Try(ctx, step)
		if trial.Stopped(ctx, o.Stop) {
			return true, err
		}
		if err != nil {
			return false, err
		}
		if err := d.NoteData(eventDone, step.Key(), obs); err != nil {
			return false, err
		}
		d.History = append(d.History, obs)
		show(Progress{History: d.History, Tuner: t, Last: &d.History[len(d.History)-1]})
	}
}

// ask hears the simulator and writes down what it said: a search that goes on must not hear anything else.
func (d *Folder) ask(t *Tuner, prior func([]Observation) (*Advice, error)) error {
	advice, err := prior(d.History)
	if err != nil {
		return err
	}
	if err := d.NoteData(eventAdvice, "", advice); err != nil {
		return err
	}
	d.Advice, t.Advice = advice, advice
	return nil
}

// over notes that the search came to its end.
func (d *Folder) over(err error) error {
	if err != nil || len(d.Journal) > 0 && d.Journal[len(d.Journal)-1].Event == eventEnd {
		return nil
	}
	return d.NoteData(eventEnd, "", struct{}{})
}
