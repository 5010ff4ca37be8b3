package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"spate/internal/call"
	"spate/internal/judge/verdict"
)

// Hosted APIs refuse fields they do not document, such as vLLM's ignore_eos, with a 400 for every request.
// What is known of such a server is left out from the start; what is not is learned from one first request,
// before the run.

// firstFor bounds the wait for the answer to a first request; a slow server is no reason not to measure it.
const firstFor = time.Minute

// hosted reports whether the server looks like an API that somebody else runs: reached over https, and
// saying nothing of an engine. Public is whether its name is one of the internet's.
func (t *tenant) hosted() (hosted, public bool) {
	if info := &t.target.info; info.Engine != "" || info.Version != "" || t.Config.Sim.Enabled || len(t.target.client.BaseURLs) == 0 {
		return false, false
	}
	hosted, public = true, true
	for _, base := range t.target.client.BaseURLs {
		u, err := url.Parse(base)
		hosted = hosted && err == nil && u.Scheme == "https"
		public = public && err == nil && publicName(u.Hostname())
	}
	return hosted, hosted && public
}

// publicName reports whether a host name is one of the internet's rather than of a cluster or an office.
func publicName(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
	}
	inside := []string{".local", ".localhost", ".internal", ".lan", ".home.arpa", ".svc", ".test"}
	return strings.Contains(host, ".") && !slices.ContainsFunc(inside, func(end string) bool { return strings.HasSuffix(host, end) })
}

// spareHosted leaves out what spate adds by itself and hosted APIs do not document. Answers may then be
// shorter than asked for; what the user asks for by name is sent.
func (t *tenant) spareHosted() {
	body := &t.target.client.Body
	if _, public := t.hosted(); public && body.IgnoreEOS && !t.Config.Has("ignore-eos") {
		body.IgnoreEOS, t.Config.Body.IgnoreEOS = false, false
		t.note("ignore_eos is not sent: this looks like a hosted API, which refuses it; answers may be shorter than asked for (--ignore-eos sends it)")
	}
}

// learn sends a first request to a server of unknown ways, and leaves out what it refuses. A server that
// would refuse every request is told before the run.
func (t *tenant) learn(ctx context.Context) error {
	if hosted, _ := t.hosted(); !hosted {
		return nil
	}
	for {
		rec, err := t.try(ctx, time.Now().Add(firstFor))
		if err != nil || rec.Outcome == call.OK {
			return err
		}
		if !t.leaveOut(&rec) {
			return t.refused(&rec)
		}
	}
}

// leaveOut takes the fields that a server refuses out of every request, where spate put them there by
// itself. It reports whether there was one: then another try is worth it.
func (t *tenant) leaveOut(rec *call.Record) bool {
	body := &t.target.client.Body
	left := map[string]any{}
	if len(body.Extra) > 0 && json.Unmarshal(body.Extra, &left) != nil {
		return false
	}
	var out []string
	for _, f := range verdict.RefusedFields(rec.Err) {
		if _, named := left[f]; named {
			continue // by the user, or left out before
		}
		out = append(out, f)
		left[f] = nil
		switch f {
		case "ignore_eos":
			t.Config.Body.IgnoreEOS = false
		case "max_completion_tokens":
			body.MaxTokens = true
		}
	}
	if out == nil {
		return false
	}
	extra, err := json.Marshal(left)
	if err != nil {
		return false
	}
	body.Extra = extra
	t.client.SetBody(*body)
	t.note("the server refuses %s: not sent (HTTP %d to a first request)", strings.Join(out, " and "), rec.Status)
	return true
}

// refused is the error of a first request that every other would meet, too; nil where the next may fare
// better.
func (t *tenant) refused(rec *call.Record) error {
	switch rec.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
	case http.StatusNotFound:
		if has := modelList(t.target.info.Models); has == "" || lists(t.target.info.Models, t.target.served) {
			return nil // a server that is still starting may say so
		}
	default:
		return nil
	}
	if h := t.hint(rec.Status); h != "" {
		return fmt.Errorf("a first request was refused: %s; %s", rec.Err, h)
	}
	return fmt.Errorf("a first request was refused: %s", rec.Err)
}
