package sweep

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	data, err := os.ReadFile(filepath.Join(dir, PlanFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sweep's plan: %w", err)
	}
	p := &Plan{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, PlanFile), err)
	}
	if p.Schema != planSchema {
		return nil, fmt.Errorf("%s is of version %d, and this spate reads %d", filepath.Join(dir, PlanFile), p.Schema, planSchema)
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
			return nil, &ChangedError{Dir: dir, Changes: changes}
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

// ChangedError says that a folder was begun with another plan.
type ChangedError struct {
	Dir     string
	Changes []string
}

func (e *ChangedError) Error() string {
	const most = 6
	list := e.Changes
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(e.Changes)-most))
	}
	return fmt.Sprintf("the sweep in %s was begun with another plan: %s\nname another folder, or go on with the old plan: spate sweep --resume %s",
		e.Dir, strings.Join(list, "; "), e.Dir)
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
