package config

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"spate/internal/figure"
	"spate/internal/load/schedule"
	"spate/internal/rng"
	"spate/internal/safe/secret"
)

// Tenant is one of several workloads of a run: what it sends, when, to which model, and what it is judged
// by. All other settings are the run's.
type Tenant struct {
	Name    string             `json:"name"`
	Headers []Header           `json:"headers,omitempty"`
	APIKey  secret.Value       `json:"api_key,omitempty"`
	Model   Model              `json:"model"`
	Dataset Dataset            `json:"dataset"`
	Load    Load               `json:"load"` // without the prefix of request ids, which is the run's and the name
	Body    Body               `json:"body"`
	Goodput []Limit            `json:"goodput,omitempty"`
	SLO     []figure.Objective `json:"slo,omitempty"`
	Given   map[string]Source  `json:"given,omitempty"`
}

// MixedDataset stands for the dataset of a run whose tenants have different ones.
const MixedDataset = "tenants"

// TenantSeed is the seed of a tenant that names none: its own, whatever other tenants there are, so that
// two tenants with the same flags send different prompts at different times.
func TenantSeed(seed int64, name string) int64 {
	if seed < 0 || seed > math.MaxUint32 {
		return seed // no seed at all, as Validate says
	}
	return int64(rng.New(uint64(seed), "tenant "+name).Uint32())
}

// AddTenant takes a tenant's part of settings that were resolved as those of a run of its own.
func (b *Bench) AddTenant(name string, t *Bench) {
	one := Tenant{
		Name: name, Headers: t.Target.Headers, APIKey: t.Target.APIKey, Model: t.Model, Dataset: t.Dataset, Load: t.Load,
		Body: t.Body, Goodput: t.Check.Goodput, SLO: t.Check.SLO, Given: t.Given,
	}
	one.Load.RequestIDPrefix = ""
	b.Tenants = append(b.Tenants, one)
}

// Tenant is the i-th tenant as the settings of a run of its own.
func (b *Bench) Tenant(i int) *Bench {
	t, c := &b.Tenants[i], *b
	c.Tenants = nil
	c.Target.Headers, c.Target.APIKey = t.Headers, t.APIKey
	c.Model, c.Dataset, c.Load, c.Body, c.Given = t.Model, t.Dataset, t.Load, t.Body, t.Given
	c.Check.Goodput, c.Check.SLO = t.Goodput, t.SLO
	c.Load.RequestIDPrefix = b.Load.RequestIDPrefix + t.Name + "-"
	return &c
}

// OfTenant is the i-th tenant's part of settings as a run keeps them. Settings of another version stay as they are.
func OfTenant(run []byte, i int) []byte {
	var b Bench
	if json.Unmarshal(run, &b) != nil || i >= len(b.Tenants) {
		return run
	}
	own, err := json.Marshal(b.Tenant(i))
	if err != nil {
		return run
	}
	return own
}

// Each yields the workloads of a run: every tenant by name, as the settings of a run of its own. A plain run is one
// tenant without a name.
func (b *Bench) Each() iter.Seq2[string, *Bench] {
	return func(yield func(string, *Bench) bool) {
		if len(b.Tenants) == 0 {
			yield("", b)
			return
		}
		for i := range b.Tenants {
			if !yield(b.Tenants[i].Name, b.Tenant(i)) {
				return
			}
		}
	}
}

// Mark stands before what is said of a tenant, and is empty for that of a plain run.
func Mark(name string) string {
	if name == "" {
		return ""
	}
	return "tenant " + name + ": "
}

// Describe is one line for what several tenants do, made of a line for each.
func (b *Bench) Describe(lines []string) string {
	parts := make([]string, len(lines))
	for i, line := range lines {
		parts[i] = b.Tenants[i].Name + ": " + line
	}
	return fmt.Sprintf("%d tenants; %s", len(lines), strings.Join(parts, "; "))
}

// JoinTenants makes the run's own settings say what its tenants amount to: all requests together, at the
// sum of their rates and caps where each has one. Objectives stay with the tenants.
func (b *Bench) JoinTenants() {
	own := b.Load
	b.Load = Load{
		Settings: schedule.Settings{RequestRate: Float(math.Inf(1)), Burstiness: 1}, GracePeriod: own.GracePeriod, AbortOnError: own.AbortOnError,
		ProbeRate: own.ProbeRate, Seed: own.Seed, RequestIDPrefix: own.RequestIDPrefix,
	}
	prompts, slots, rate, longest := 0, 0, 0.0, time.Duration(0)
	counted, capped, paced, timed := true, true, true, true
	for i := range b.Tenants {
		l := &b.Tenants[i].Load
		counted, prompts = counted && l.NumPrompts > 0, prompts+l.NumPrompts
		if capped = capped && l.MaxConcurrency != nil; capped {
			slots += *l.MaxConcurrency
		}
		paced, rate = paced && !l.RequestRate.Inf(), rate+float64(l.RequestRate)
		timed, longest = timed && l.Duration > 0, max(longest, l.Duration)
		b.Load.NumWarmups += l.NumWarmups
	}
	if counted {
		b.Load.NumPrompts = prompts
	}
	if capped {
		b.Load.MaxConcurrency = &slots
	}
	if paced {
		b.Load.RequestRate = Float(rate)
	}
	if timed {
		b.Load.Duration = longest
	}
	b.joinRest()
}

// joinRest takes what all tenants agree on.
func (b *Bench) joinRest() {
	all := func(same func(*Tenant) bool) bool {
		return !slices.ContainsFunc(b.Tenants, func(t Tenant) bool { return !same(&t) })
	}
	first := &b.Tenants[0]
	b.Check.Goodput, b.Check.SLO = nil, nil
	b.Body = Body{IgnoreEOS: all(func(t *Tenant) bool { return t.Body.IgnoreEOS })}
	if all(func(t *Tenant) bool { return reflect.DeepEqual(t.Model, first.Model) }) {
		b.Model = first.Model
	}
	b.Dataset = Dataset{Name: MixedDataset}
	if all(func(t *Tenant) bool { return reflect.DeepEqual(t.Dataset, first.Dataset) }) {
		b.Dataset = first.Dataset
	}
}
