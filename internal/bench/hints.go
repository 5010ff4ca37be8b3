package bench

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"spate/internal/host/probe"
	"spate/internal/judge/metrics"
	"spate/internal/judge/verdict"
)

// maxListed bounds how many of a server's models an error names.
const maxListed = 8

// hint says what a refusal with this status is about and what to do, empty where the server's own words
// must do.
func (t *tenant) hint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		if t.Config.Target.APIKey == "" {
			return "the server requires a key: set OPENAI_API_KEY or give --api-key"
		}
		return "the server refuses the key: see --api-key and OPENAI_API_KEY"
	case http.StatusNotFound:
		if has := modelList(t.target.info.Models); has != "" && !lists(t.target.info.Models, t.target.served) {
			return fmt.Sprintf("the server has no model %q; it has %s: see --model and --served-model-name", t.target.served, has)
		}
		return "see --endpoint, which is " + t.Config.Target.Endpoint + ", and --model"
	case http.StatusMethodNotAllowed:
		return "see --endpoint, which is " + t.Config.Target.Endpoint + ", and --backend"
	}
	return ""
}

func lists(models []probe.Model, name string) bool {
	return slices.ContainsFunc(models, func(m probe.Model) bool { return m.ID == name })
}

// modelList is the server's models in words; empty when it named none.
func modelList(models []probe.Model) string {
	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return strings.Join(names, ", ")
}

// allSent reports whether every request there was to send came to its own end: failures that would have ended the run
// then came too late to end anything.
func (t *tenant) allSent() bool {
	l, sent := &t.Config.Load, &t.res.Tally
	return l.Duration == 0 && len(l.Stages) == 0 && sent.Canceled == 0 && sent.Dropped == 0 && sent.Due >= t.load.expect
}

// hintFailures puts the way on first where most failures are refusals that have one.
func (s *session) hintFailures(v *verdict.Verdict, kinds []metrics.FailureKind) {
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Name == "failures" && f.Level != verdict.OK && len(kinds) > 0 {
			if h := s.whole.hint(kinds[0].Status); h != "" {
				f.Hint = h + "; " + f.Hint
			}
		}
	}
}

// whyAborted is why failed requests ended the run, with the way on.
func (t *tenant) whyAborted(why string, status int) string {
	if f := verdict.RefusedFields(why); len(f) > 0 {
		why += "; to leave that out: --extra-body." + strings.Join(f, " null --extra-body.") + " null"
	}
	if h := t.hint(status); h != "" {
		why += "; " + h
	}
	return why
}
