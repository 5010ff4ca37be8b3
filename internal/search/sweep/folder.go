package sweep

import (
	"errors"
	"fmt"
	"path/filepath"

	"spate/internal/trial"
)

// Names within a folder.
const (
	PlanFile   = "sweep.json" // what is to be done
	serversDir = "servers"    // what launched servers printed
)

// Folder is where a sweep keeps its plan, its journal and its runs.
type Folder struct {
	*trial.Work
	Plan *Plan
}

// Load reads the plan of a folder; nil when it has none.
func Load(dir string) (*Plan, error) {
	p, err := trial.Load[Plan](dir, PlanFile)
	if p == nil || err != nil {
		return nil, err
	}
	if p.Schema != planSchema {
		return nil, fmt.Errorf("%s has version %d; this version of spate reads %d", filepath.Join(dir, PlanFile), p.Schema, planSchema)
	}
	return p, nil
}

// Open opens the folder of a sweep. One that was begun goes on if the plan is still the same; its id
// is then the earlier one.
func Open(dir string, p *Plan) (*Folder, error) {
	earlier, err := Load(dir)
	if err != nil {
		return nil, err
	}
	if earlier != nil {
		if changes := earlier.public().Changes(p.public()); len(changes) > 0 {
			return nil, &trial.ChangedError{
				Begun: "the sweep in " + dir + " was begun with another plan", Changes: changes,
				Way: "name another folder, or go on with the old plan: spate sweep --resume " + dir,
			}
		}
		p.ID = earlier.ID
	}
	w, err := trial.Open(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{Work: w, Plan: p}
	if earlier == nil {
		if err := f.Save(PlanFile, p.public()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// Left counts the measurements that are still to be made.
func (f *Folder) Left() (left, all int) {
	for _, group := range f.Plan.Steps() {
		for _, s := range group {
			all++
			if !f.Done(f.Plan.Key(s)) {
				left++
			}
		}
	}
	return left, all
}
