package recorder

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"spate/internal/call"
)

// This file is the form in which a Spill keeps records. Nothing but the process that wrote it reads it, so it has
// neither a version nor a check. Numbers are varints, times are differences, and words that come back, such as
// finish reasons, are kept once.

// dictionary is the words seen so far; there is an end to how many it takes, since servers make words up.
type dictionary struct {
	list  []string
	codes map[string]uint64
}

const (
	maxWords   = 4096
	maxWordLen = 256
)

// code is the number of a word, from 1; 0 when it has none.
func (d *dictionary) code(w string) uint64 {
	if k, ok := d.codes[w]; ok {
		return k
	}
	if len(d.list) >= maxWords || len(w) > maxWordLen {
		return 0
	}
	w = strings.Clone(w)
	d.list = append(d.list, w)
	d.codes[w] = uint64(len(d.list))
	return uint64(len(d.list))
}

// labelSets are the sets of labels seen so far, by their packed form.
type labelSets struct {
	list  []map[string]string
	codes map[string]uint64
}

type packer struct {
	words  dictionary
	labels labelSets
}

func newPacker() packer {
	return packer{words: dictionary{codes: map[string]uint64{}}, labels: labelSets{codes: map[string]uint64{}}}
}

// The flags of a record.
const (
	flagRetried = 1 << iota
	flagInBand
	flagReused
	flagServer
	flagLabels
	flagTokens
	flagKinds
)

func (p *packer) record(b []byte, r *call.Record) []byte {
	flags := uint64(0)
	set := func(on bool, flag uint64) {
		if on {
			flags |= flag
		}
	}
	set(r.Retried, flagRetried)
	set(r.InBand, flagInBand)
	set(r.Reused, flagReused)
	set(r.Server != nil, flagServer)
	set(len(r.Labels) > 0, flagLabels)
	for i := range r.Chunks {
		set(r.Chunks[i].Tokens != 0, flagTokens)
		set(r.Chunks[i].Kind != call.Visible, flagKinds)
	}
	b = binary.AppendUvarint(b, flags)
	for _, n := range numbersOf(r) {
		b = binary.AppendVarint(b, *n)
	}
	for _, n := range countsOf(r) {
		b = binary.AppendVarint(b, int64(*n))
	}
	for _, w := range wordsOf(r) {
		b = p.word(b, *w)
	}
	for _, s := range textsOf(r) {
		b = packText(b, *s)
	}
	b = packStamps(b, r)
	if r.Server != nil {
		for _, d := range timesOf(r.Server) {
			b = binary.AppendVarint(b, int64(*d))
		}
	}
	if len(r.Labels) > 0 {
		b = p.labelSet(b, r.Labels)
	}
	return packChunks(b, r.Chunks, flags)
}

// The fields of a record by how they are packed; pack and unpack go through the same lists.
func numbersOf(r *call.Record) [5]*int64 {
	return [...]*int64{(*int64)(&r.Dial), (*int64)(&r.Handshake), (*int64)(&r.Audio), (*int64)(&r.RetryWait), &r.BytesIn}
}

func countsOf(r *call.Record) [14]*int {
	return [...]*int{
		&r.ID, &r.Attempt, &r.Turn, &r.Target, &r.AskedOut, &r.Inputs, &r.Claimed, &r.Status,
		&r.Asked.N, &r.In.N, &r.Out.N, &r.Cached.N, &r.Reason.N, &r.ToolOut.N,
	}
}

func wordsOf(r *call.Record) [12]*string {
	return [...]*string{
		(*string)(&r.Phase), (*string)(&r.Outcome), (*string)(&r.Fault), &r.Model, &r.Finish, &r.Worker,
		(*string)(&r.Asked.From), (*string)(&r.In.From), (*string)(&r.Out.From), (*string)(&r.Cached.From), (*string)(&r.Reason.From), (*string)(&r.ToolOut.From),
	}
}

func textsOf(r *call.Record) [6]*string {
	return [...]*string{&r.Name, &r.Session, &r.Err, &r.Text, &r.Thoughts, &r.ToolText}
}

func stampsOf(r *call.Record) [11]*time.Duration {
	return [...]*time.Duration{
		&r.Due, &r.Dispatched, &r.Started, &r.Sent, &r.FirstByte, &r.Headers, &r.FirstToken, &r.FirstText, &r.LastToken, &r.LastEvent, &r.End,
	}
}

func timesOf(s *call.ServerTimes) [4]*time.Duration {
	return [...]*time.Duration{&s.Queue, &s.FirstToken, &s.Generation, &s.MeanITL}
}

// word is a word that may come back: its number, or 0 and the word.
func (p *packer) word(b []byte, w string) []byte {
	k := p.words.code(w)
	b = binary.AppendUvarint(b, k)
	if k == 0 {
		b = packText(b, w)
	}
	return b
}

func packText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// packStamps keeps which stamps were taken, and each as the time since the one before.
func packStamps(b []byte, r *call.Record) []byte {
	mask, prev := uint64(0), time.Duration(0)
	for i, at := range stampsOf(r) {
		if *at != call.Unset {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, at := range stampsOf(r) {
		if *at != call.Unset {
			b = binary.AppendVarint(b, int64(*at-prev))
			prev = *at
		}
	}
	return b
}

func (p *packer) labelSet(b []byte, labels map[string]string) []byte {
	var packed []byte
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		packed = packText(packText(packed, k), labels[k])
	}
	k, known := p.labels.codes[string(packed)]
	if !known && len(p.labels.list) < maxWords {
		p.labels.list = append(p.labels.list, maps.Clone(labels))
		k = uint64(len(p.labels.list))
		p.labels.codes[string(packed)] = k
	}
	b = binary.AppendUvarint(b, k)
	if k == 0 {
		b = binary.AppendUvarint(b, uint64(len(labels)))
		b = append(b, packed...)
	}
	return b
}

// packChunks keeps the times as differences; tokens and kinds only where they say something.
func packChunks(b []byte, chunks []call.Chunk, flags uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(chunks)))
	prev := time.Duration(0)
	for i := range chunks {
		b = binary.AppendVarint(b, int64(chunks[i].At-prev))
		prev = chunks[i].At
	}
	for i := range chunks {
		if flags&flagTokens != 0 {
			b = binary.AppendVarint(b, int64(chunks[i].Tokens))
		}
		if flags&flagKinds != 0 {
			b = append(b, byte(chunks[i].Kind))
		}
	}
	return b
}

// unpacker reads records into one that it uses again and again.
type unpacker struct {
	words  *dictionary
	labels *labelSets
	rec    call.Record
	server call.ServerTimes
	b      []byte
	bad    bool
}

var errPacked = errors.New("a kept record is damaged")

func (u *unpacker) record(b []byte) (*call.Record, error) {
	u.b, u.bad = b, false
	chunks := u.rec.Chunks[:0]
	u.rec = call.Record{}
	r := &u.rec
	flags := u.uint()
	r.Retried, r.InBand, r.Reused = flags&flagRetried != 0, flags&flagInBand != 0, flags&flagReused != 0
	for _, n := range numbersOf(r) {
		*n = u.int()
	}
	for _, n := range countsOf(r) {
		*n = int(u.int())
	}
	for _, w := range wordsOf(r) {
		*w = u.word()
	}
	for _, s := range textsOf(r) {
		*s = u.text()
	}
	u.stamps(r)
	if flags&flagServer != 0 {
		for _, d := range timesOf(&u.server) {
			*d = time.Duration(u.int())
		}
		r.Server = &u.server
	}
	if flags&flagLabels != 0 {
		r.Labels = u.labelSet()
	}
	r.Chunks = u.chunks(chunks, flags)
	if u.bad {
		return nil, errPacked
	}
	return r, nil
}

func (u *unpacker) uint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) int() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.bad = true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) word() string {
	k := u.uint()
	switch {
	case k == 0:
		return u.text()
	case k > uint64(len(u.words.list)):
		u.bad = true
		return ""
	}
	return u.words.list[k-1]
}

func (u *unpacker) text() string {
	n := u.uint()
	if n > uint64(len(u.b)) {
		u.bad = true
		return ""
	}
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) stamps(r *call.Record) {
	mask, prev := u.uint(), time.Duration(0)
	for i, at := range stampsOf(r) {
		*at = call.Unset
		if mask&(1<<i) != 0 {
			prev += time.Duration(u.int())
			*at = prev
		}
	}
}

func (u *unpacker) labelSet() map[string]string {
	k := u.uint()
	if k > uint64(len(u.labels.list)) {
		u.bad = true
		return nil
	}
	if k > 0 {
		return u.labels.list[k-1]
	}
	out := map[string]string{}
	for n := u.uint(); n > 0 && !u.bad; n-- {
		key := u.text()
		out[key] = u.text()
	}
	return out
}

func (u *unpacker) chunks(dst []call.Chunk, flags uint64) []call.Chunk {
	n := u.uint()
	if n > uint64(len(u.b)) {
		u.bad = true
		return nil
	}
	if n == 0 {
		return nil
	}
	dst = slices.Grow(dst, int(n))[:n]
	if !u.times(dst) {
		u.bad = true
		return nil
	}
	for i := range dst {
		if flags&flagTokens != 0 {
			dst[i].Tokens = int32(u.int())
		}
		if flags&flagKinds != 0 && len(u.b) > 0 {
			dst[i].Kind = call.Kind(u.b[0])
			u.b = u.b[1:]
		}
	}
	return dst
}

// times reads the times of chunks. Almost all of a record is these, and it is read some thirty times, so the varints
// are taken apart here rather than one call for each.
func (u *unpacker) times(dst []call.Chunk) bool {
	b, i, at := u.b, 0, int64(0)
	for k := range dst {
		v, shift := uint64(0), 0
		for {
			if i >= len(b) || shift > 63 {
				return false
			}
			c := b[i]
			i++
			v |= uint64(c&0x7f) << shift
			if c < 0x80 {
				break
			}
			shift += 7
		}
		at += int64(v>>1) ^ -int64(v&1)
		dst[k] = call.Chunk{At: time.Duration(at), Kind: call.Visible}
	}
	u.b = b[i:]
	return true
}

// clone is a record that stays.
func clone(r *call.Record) call.Record {
	out := *r
	out.Chunks = slices.Clone(r.Chunks)
	if r.Server != nil {
		s := *r.Server
		out.Server = &s
	}
	return out
}
