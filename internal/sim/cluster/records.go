package cluster

import (
	"slices"
	"strconv"
	"time"

	"spate/internal/call"
)

// Records are the requests as a benchmark client would have recorded them, in the order of the load. The numbers of
// several clients take turns, so that each is another one's.
func (r *Result) Records() []call.Record {
	list := make([]call.Record, len(r.Requests))
	for i := range r.Requests {
		list[i] = r.Requests[i].Record()
		list[i].ID = list[i].ID*r.clients + r.Requests[i].Client
	}
	slices.SortFunc(list, func(a, b call.Record) int { return a.ID - b.ID })
	return list
}

// Record is a request as a benchmark client would have recorded it.
func (r *Request) Record() call.Record {
	asked := call.Count{N: r.In, From: call.FromRequested}
	rec := call.NewRecord(&call.Request{
		ID: r.Index, Name: strconv.Itoa(r.Index), Phase: call.Measure, In: asked, MaxOut: r.Out,
	})
	rec.Target = r.Engine
	rec.Due, rec.Dispatched, rec.Started, rec.Sent = r.Due, r.Sent, r.Sent, r.Sent
	rec.Due = min(rec.Due, r.Sent)
	if r.Failed {
		rec.Outcome, rec.Fault, rec.Err = call.Failed, call.FaultEvent, r.Err
		if r.Err == errCanceled.Error() {
			rec.Outcome, rec.Fault, rec.Err = call.Canceled, call.NoFault, ""
		}
		rec.End = max(r.Sent, r.Last)
		return rec
	}
	rec.Outcome, rec.Status = call.OK, 200
	rec.FirstByte, rec.Headers, rec.FirstToken, rec.FirstText = r.First, r.First, r.First, r.First
	rec.LastToken, rec.LastEvent, rec.End = r.Last, r.Last, r.Last
	rec.In = call.Count{N: r.In, From: call.FromServer}
	rec.Out = call.Count{N: r.Got, From: call.FromServer}
	rec.Cached = call.Count{N: r.Cached, From: call.FromServer}
	rec.Finish = "length"
	rec.Server = &call.ServerTimes{Queue: r.Scheduled - r.Queued, FirstToken: r.First - r.Scheduled, Generation: r.Last - r.First}
	if r.Got > 1 {
		rec.Server.MeanITL = rec.Server.Generation / time.Duration(r.Got-1)
	}
	rec.Chunks = r.chunks()
	return rec
}

func (r *Request) chunks() []call.Chunk {
	list := make([]call.Chunk, 0, r.Chunks())
	tokens := int32(1)
	if r.multi {
		tokens = 0 // not known chunk by chunk
	}
	for _, run := range r.runs {
		for i := range run.Steps {
			list = append(list, call.Chunk{At: r.log.at(run.First+i) + r.delay, Tokens: tokens, Kind: call.Visible})
		}
	}
	return list
}

// Chunks is the number of messages that carried tokens.
func (r *Request) Chunks() int {
	n := 0
	for _, run := range r.runs {
		n += int(run.Steps)
	}
	return n
}
