// Package serve is an OpenAI-compatible server whose answers follow a known timetable and whose
// every write is stamped with the true time it happened. It is what `spate sim` runs, what
// `spate demo` and `spate bench --sim` measure, and what the client's own accuracy is judged by.
//
// A request comes in on a connection goroutine (conn.go), is decoded (decode.go) and handed to the
// pacer (pacer.go): one locked thread that asks an Engine (engine.go) which tokens are due and
// writes their events straight to the sockets (stream.go). Timetable (timetable.go) is the engine
// here; another engine can take its place without touching the HTTP side. Faults and per-request
// timings come from a Script (script.go), and what was really written goes to the truth log
// (truth.go).
//
// Read engine.go first.
package serve
