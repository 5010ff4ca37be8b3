package client

import (
	"net/http"
	"slices"
	"strings"

	"spate/internal/call"
)

// filled is a header whose value has a place for something of the request: {session} for its conversation, {group}
// for the group of prompts it begins like. Routers take such headers to send what belongs together to one server.
type filled struct{ name, value string }

func fills(value string) bool {
	return strings.Contains(value, "{session}") || strings.Contains(value, "{group}")
}

// filledHeaders picks them out of the user's headers.
func filledHeaders(h http.Header) []filled {
	var out []filled
	for name, values := range h {
		for _, v := range values {
			if fills(v) {
				out = append(out, filled{name, v})
			}
		}
	}
	slices.SortFunc(out, func(a, b filled) int { return strings.Compare(a.name, b.name) })
	return out
}

// of is the value for one request; empty where the request has nothing to put there.
func (f filled) of(r *call.Request) string {
	session, group := r.Session, r.Labels["group"]
	if strings.Contains(f.value, "{session}") && session == "" || strings.Contains(f.value, "{group}") && group == "" {
		return ""
	}
	return strings.NewReplacer("{session}", session, "{group}", group).Replace(f.value)
}
