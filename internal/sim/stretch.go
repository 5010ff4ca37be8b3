package sim

import "time"

// A stretch is a row of decode steps in which the same requests each compute one token: nobody
// arrives, ends or is preempted. Its requests need not be visited in every step, only those that
// cross the edge of a block, so a stretch costs far less than its steps one by one and ends in
// exactly the same state.

// stretch is scratch space: running positions by their place within a block.
type stretch struct {
	start []int32 // first entry of each place in order
	order []int32
}

// repeats is the number of times a planned decode batch can be run before its items change. The
// first run is the one planned.
func (l *lane) repeats(f *flight) int {
	if l.cfg.Depth() > 1 || l.cfg.Drafts > 0 || f.shape.Prefill > 0 || f.receive > 0 || len(f.parts) == 0 {
		return 1
	}
	if l.cfg.LoRASlots > 0 && l.waiting.len() > 0 {
		return 1
	}
	size := l.size()
	if l.edges == nil {
		l.edges = make([]int32, size)
	}
	edges := l.edges // blocks wanted by place within a block
	clear(edges)
	most := 1 << 30
	for _, s := range l.running {
		most = min(most, s.Out-s.gen)
		w := int32(1)
		if l.cfg.WindowGroups > 0 {
			w += int32(l.cfg.WindowGroups)
		}
		edges[s.computed%size] += w
		if l.cfg.Window > 0 && s.computed < l.cfg.Window {
			most = min(most, l.cfg.Window-s.computed)
		}
	}
	free := int32(l.pool.Free())
	for k := 1; k < most; k++ {
		free -= edges[(size-(k-1)%size)%size]
		if free < 0 {
			return k
		}
	}
	return max(1, most)
}

// Advance ends the planned batch len(ends) times and leaves the next one under way, as if it had
// been planned at the last of these times. There must be one batch under way, with more repeats than
// ends.
func (e *Engine) Advance(ends []time.Duration) *Outputs {
	e.out.List, e.out.Steps = e.out.List[:0], len(ends)
	if len(ends) == 0 {
		return &e.out
	}
	f := e.flights[0]
	e.note(f, len(ends))
	e.extend(f.lane, len(ends))
	for i := range f.parts {
		s := f.parts[i].s
		first := s.gen == 0
		s.gen += len(ends)
		s.computed += len(ends)
		f.items[i].Context += len(ends)
		e.out.List = append(e.out.List, Output{ID: s.ID, Tokens: len(ends), First: first})
	}
	e.stats.Tokens += int64(len(ends)) * int64(len(f.parts))
	f.shape = f.shape.After(len(ends))
	f.repeat -= len(ends)
	f.lane.since += len(ends)
	e.count += int64(len(ends))
	f.lane.lastPlanned = ends[len(ends)-1]
	return &e.out
}

// CommitRun ends the planned batch at each of the given times, the last of which frees the engine to
// plan again. With one time it is Commit.
func (e *Engine) CommitRun(ends []time.Duration) *Outputs {
	k := len(ends) - 1
	if k <= 0 || len(e.flights) == 0 {
		return e.Commit(ends[0])
	}
	f := e.flights[0]
	e.note(f, k)
	e.extend(f.lane, k)
	for i := range f.parts {
		s := f.parts[i].s
		s.gen += k
		s.computed += k
	}
	e.stats.Tokens += int64(k) * int64(len(f.parts))
	f.shape = f.shape.After(k)
	e.count += int64(k)
	f.lane.since += k
	f.lane.lastPlanned = ends[k-1]
	out := e.Commit(ends[k])
	out.Steps += k
	for i := range out.List {
		out.List[i].Tokens += k
	}
	return out
}

// extend takes and publishes the blocks that k more decode steps of all running requests need, in
// the order in which single steps would.
func (e *Engine) extend(l *lane, k int) {
	st := &e.scratch
	st.sort(l)
	size := l.size()
	for j := 1; j <= k; j++ {
		at := (size - (j-1)%size) % size // these need a block for the token of step j
		full := (size - j%size) % size   // these fill their block with it
		if !l.cfg.PrefixCaching {
			for _, i := range st.bucket(at) {
				l.extend(l.running[i])
			}
			continue
		}
		st.merge(l, at, full, j)
	}
}

// merge walks two buckets in running order, taking blocks for one and publishing for the other.
func (st *stretch) merge(l *lane, at, full, j int) {
	edge, done := st.bucket(at), st.bucket(full)
	if at == full { // blocks of one token
		for _, i := range edge {
			s := l.running[i]
			l.extend(s)
			l.publish(s, s.computed+j)
		}
		return
	}
	for len(edge) > 0 || len(done) > 0 {
		if len(done) == 0 || len(edge) > 0 && edge[0] < done[0] {
			l.extend(l.running[edge[0]])
			edge = edge[1:]
			continue
		}
		s := l.running[done[0]]
		l.publish(s, s.computed+j)
		done = done[1:]
	}
}

// sort groups the running list by place within a block, keeping its order inside a group.
func (st *stretch) sort(l *lane) {
	size := l.size()
	st.start = append(st.start[:0], make([]int32, size+1)...)
	for _, s := range l.running {
		st.start[s.computed%size+1]++
	}
	for p := range size {
		st.start[p+1] += st.start[p]
	}
	if cap(st.order) < len(l.running) {
		st.order = make([]int32, len(l.running), 2*len(l.running))
	}
	st.order = st.order[:len(l.running)]
	for i := len(l.running) - 1; i >= 0; i-- {
		p := l.running[i].computed%size + 1
		st.start[p]--
		st.order[st.start[p]] = int32(i)
	}
	copy(st.start, st.start[1:])
	st.start[size] = int32(len(l.running))
}

func (st *stretch) bucket(place int) []int32 {
	return st.order[st.start[place]:st.start[place+1]]
}
