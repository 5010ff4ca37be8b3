package accuracy

import (
	"slices"
	"time"

	"spate/internal/judge/stats"
)

// Seen is one answer as a reader saw it. Times are the host's monotonic clock in nanoseconds.
type Seen struct {
	ID   string
	Due  int64 // when the schedule wanted it sent; 0 without one
	Sent int64 // just before its first byte was written
	At   []int64
}

// Served is one answer as the server wrote it, on the same clock.
type Served struct {
	ID      string
	Arrived int64   // its last byte had been read
	At      []int64 // just before the write of each token
}

// Dist sums up a sample of times, in milliseconds.
type Dist struct {
	Mean float64 `json:"mean_ms"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

// Row is one run: a load, a reader, and how true its figures were.
//
// True TTFT is the server's: from the request's last byte read to the write of the first token. What
// a reader adds to it is its lateness in writing, the wire both ways, the server's lateness in
// reading, and its own in stamping.
type Row struct {
	Reader   Reader `json:"reader"`
	Streams  int    `json:"streams"`
	Requests int    `json:"requests"`
	Failed   int    `json:"failed"`
	Error    string `json:"error,omitempty"`
	Unjoined int    `json:"unjoined"` // answers whose tokens the two sides count differently
	Events   int    `json:"events"`

	Stamp Dist `json:"stamp_error"` // stamp minus true write time, over all tokens

	TTFTReported     float64 `json:"ttft_reported_ms"`        // mean
	TTFTTrue         float64 `json:"ttft_true_ms"`            // mean
	TTFTError        float64 `json:"ttft_error_ms"`           // reported minus true
	TTFTOffTimetable float64 `json:"ttft_off_timetable_ms"`   // reported minus what the timetable says
	TTFTStamp        float64 `json:"ttft_stamp_error_ms"`     // mean stamp error of first tokens alone
	ITLReported      float64 `json:"itl_p99_reported_ms"`     // p99 of gaps between stamps
	ITLTrue          float64 `json:"itl_p99_true_ms"`         // p99 of gaps between writes
	ITLError         float64 `json:"itl_p99_error_ms"`        // reported minus true
	ITLOffTimetable  float64 `json:"itl_p99_off_timetable"`   // reported minus what the timetable says
	SendLag          Dist    `json:"send_lag"`                // sent minus due, with a schedule
	Wall             float64 `json:"wall_s"`                  //
	EventRate        float64 `json:"events_per_s"`            //
	CPU              float64 `json:"cpu_s"`                   //
	CPUPerEvent      float64 `json:"cpu_us_per_event"`        // which is ms per 1,000 events
	CPUCores         float64 `json:"cpu_cores"`               // used on average
	PerCore          float64 `json:"events_per_core_second"`  //
	RSS              uint64  `json:"rss_peak_bytes"`          //
	ServerLateP99    float64 `json:"server_lateness_p99_ms"`  // write minus timetable
	ServerCPUPerEv   float64 `json:"server_cpu_us_per_event"` //
}

// joined are the samples of a run, in milliseconds.
type joined struct {
	stamp          []float64
	first          []float64 // stamp errors of first tokens
	ttft, trueTTFT []float64
	itl, trueITL   []float64
	lag            []float64
	unjoined       int
}

// join matches answers by name and tokens by their place in the answer.
func join(seen []Seen, served []Served) joined {
	var j joined
	byID := make(map[string]*Served, len(served))
	for i := range served {
		byID[served[i].ID] = &served[i]
	}
	for i := range seen {
		s := &seen[i]
		t := byID[s.ID]
		if t == nil || len(t.At) != len(s.At) || len(s.At) == 0 {
			j.unjoined++
			continue
		}
		delete(byID, s.ID)
		j.add(s, t)
	}
	j.unjoined += len(byID)
	return j
}

func (j *joined) add(s *Seen, t *Served) {
	for k, at := range s.At {
		j.stamp = append(j.stamp, ms(at-t.At[k]))
		if k > 0 {
			j.itl = append(j.itl, ms(at-s.At[k-1]))
			j.trueITL = append(j.trueITL, ms(t.At[k]-t.At[k-1]))
		}
	}
	j.first = append(j.first, ms(s.At[0]-t.At[0]))
	j.ttft = append(j.ttft, ms(s.At[0]-s.Sent))
	j.trueTTFT = append(j.trueTTFT, ms(t.At[0]-t.Arrived))
	if s.Due != 0 {
		j.lag = append(j.lag, ms(s.Sent-s.Due))
	}
}

func ms(ns int64) float64 { return float64(ns) / float64(time.Millisecond) }

// distOf sorts xs and sums it up.
func distOf(xs []float64) Dist {
	if len(xs) == 0 {
		return Dist{}
	}
	slices.Sort(xs)
	return Dist{
		Mean: stats.Mean(xs), P50: stats.SortedMedian(xs), P99: stats.SortedPercentile(xs, 99), Max: xs[len(xs)-1],
	}
}

// newRow computes a run's figures.
func newRow(l Load, by Reader, saw *readerReport, did *serverReport) Row {
	r := Row{
		Reader: by, Streams: l.Streams, Requests: l.Requests, Failed: saw.Failed, Error: saw.Error, Events: saw.Events,
		Wall: saw.Wall.Seconds(), CPU: saw.CPU.Seconds(), RSS: saw.RSS,
		ServerLateP99: ms(int64(did.Stats.Lateness.P99)),
	}
	if saw.Events > 0 && saw.CPU > 0 && saw.Wall > 0 {
		n := float64(saw.Events)
		r.EventRate, r.CPUPerEvent, r.PerCore = n/r.Wall, r.CPU*1e6/n, n/r.CPU
		r.CPUCores = r.CPU / r.Wall
		r.ServerCPUPerEv = did.CPU.Seconds() * 1e6 / n
	}
	if l.Flood {
		return r
	}
	j := join(saw.Seen, did.Served)
	r.Unjoined = j.unjoined
	r.Stamp, r.SendLag = distOf(j.stamp), distOf(j.lag)
	r.TTFTStamp = stats.Mean(j.first)
	r.TTFTReported, r.TTFTTrue = stats.Mean(j.ttft), stats.Mean(j.trueTTFT)
	r.TTFTError = r.TTFTReported - r.TTFTTrue
	r.TTFTOffTimetable = r.TTFTReported - ms(int64(l.TTFT+l.Spread/2))
	r.ITLReported, r.ITLTrue = distOf(j.itl).P99, distOf(j.trueITL).P99
	r.ITLError = r.ITLReported - r.ITLTrue
	r.ITLOffTimetable = r.ITLReported - ms(int64(l.ITL))
	return r
}
