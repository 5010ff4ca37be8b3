package sweep

import (
	"cmp"
	"fmt"
	"strings"

	"spate/internal/trial"
)

// Changes names what differs between the plan a folder was made for and another.
func (p *Plan) Changes(o *Plan) []string {
	var out []string
	note := func(what string, a, b any) {
		if fmt.Sprint(a) != fmt.Sprint(b) {
			out = append(out, fmt.Sprintf("%s was %v and is %v", what, a, b))
		}
	}
	note("repeat", p.Repeat, o.Repeat)
	note("order", p.Order, o.Order)
	note("order seed", p.Seed, o.Seed)
	note("cache", p.Cache, o.Cache)
	note("profile to predict with", cmp.Or(p.Predict, "none"), cmp.Or(o.Predict, "none"))
	out = append(out, changedSettings("", p.Bench, o.Bench)...)
	out = append(out, changedServers(p, o)...)
	out = append(out, changedPoints(p, o)...)
	if len(out) == 0 {
		out = changedDigests(p, o)
	}
	return out
}

func changedSettings(of string, a, b []Setting) []string {
	texts := func(list []Setting) map[string]string {
		m := map[string]string{}
		for _, s := range list {
			m[s.Flag] = strings.TrimSpace(m[s.Flag] + " " + s.Text())
		}
		return m
	}
	x, y := texts(a), texts(b)
	all := map[string]string{}
	for k := range x {
		all[k] = ""
	}
	for k := range y {
		all[k] = ""
	}
	var out []string
	for _, k := range sortedKeys(all) {
		if x[k] != y[k] {
			out = append(out, fmt.Sprintf("%s--%s was %s and is %s", of, k, cmp.Or(x[k], "not given"), cmp.Or(y[k], "not given")))
		}
	}
	return out
}

func changedServers(p, o *Plan) []string {
	var out []string
	for i := range p.Servers {
		s := &p.Servers[i]
		t := o.Server(s.Name)
		switch {
		case t == nil:
			out = append(out, "server "+s.Name+" is gone")
		case !same(s.Launch, t.Launch):
			out = append(out, "server "+s.Name+" is launched differently")
		case !same(s.Labels, t.Labels):
			out = append(out, "server "+s.Name+" has other labels")
		default:
			out = append(out, changedSettings("server "+s.Name+": ", s.Bench, t.Bench)...)
		}
	}
	for i := range o.Servers {
		if p.Server(o.Servers[i].Name) == nil {
			out = append(out, "server "+o.Servers[i].Name+" is new")
		}
	}
	return out
}

func changedPoints(p, o *Plan) []string {
	find := func(q *Plan, pt *Point) *Point {
		var found *Point
		for i := range q.Points {
			if same := q.Points[i].String() == pt.String(); same && q.Points[i].Key == pt.Key {
				return &q.Points[i]
			} else if same && found == nil {
				found = &q.Points[i] // secrets may be all that tells two apart
			}
		}
		return found
	}
	var out []string
	for i := range p.Points {
		pt := &p.Points[i]
		switch other := find(o, pt); {
		case other == nil:
			out = append(out, "point "+pt.String()+" is gone")
		case other.Key != pt.Key:
			out = append(out, "point "+pt.String()+" has another place")
		}
	}
	for i := range o.Points {
		if find(p, &o.Points[i]) == nil {
			out = append(out, "point "+o.Points[i].String()+" is new")
		}
	}
	return out
}

// changedDigests finds what changed behind the same words.
func changedDigests(p, o *Plan) []string {
	for i := range p.Points {
		if !trial.SameDigest(p.Points[i].Digest, o.Points[i].Digest) {
			return []string{"the flags of point " + p.Points[i].String() + " amount to other settings: a file, the environment or a default of spate has changed"}
		}
	}
	return nil
}
