package tail

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

// maxStreams bounds the logs that are read, and the positions that are saved and
// taken from a state file.
const (
	maxStreams   = 10000
	maxPositions = maxStreams
	maxUnread    = 100 // listed logs that are not read
)

// positions is the saved form.
type positions struct {
	Version int                     `json:"v"`
	At      time.Time               `json:"at"`
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
	Roots   map[string]string       `json:"roots,omitempty"` // identity of each root, by path
	Streams map[string]*position    `json:"streams,omitempty"`
}

// Positions returns the state with which Restore continues after the ingested lines.
func (t *Tailer) Positions() json.RawMessage {
	var s sources.Status
	t.report(&s)
	t.mu.Lock()
	defer t.mu.Unlock()
	b, err := json.Marshal(positions{Version: 1, At: t.readTo(), Losses: s.Losses, Roots: t.roots})
	if err != nil {
		return nil // of strings, numbers and a time that a clock returned: cannot fail
	}
	// No line is taken meanwhile, and there may be thousands of streams: most have the
	// position of the last time, which is encoded.
	b = slices.Grow(b, 300*min(len(t.followers)+len(t.restored), maxPositions))
	b = append(b[:len(b)-1], `,"streams":{`...)
	n := 0
	add := func(key string, p *position) {
		if p == nil || n >= maxPositions {
			return
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(b, p.encode(key)...)
	}
	for key, c := range t.followers {
		c.mu.Lock()
		saved := c.saved // replaced, never changed
		c.mu.Unlock()
		add(key, saved)
	}
	for key, r := range t.restored {
		add(key, r.pos)
	}
	return append(b, "}}"...)
}

// encode returns the position of a stream as a member of a JSON object. The caller
// holds Tailer.mu and the checkpoint lock.
func (p *position) encode(key string) []byte {
	if p.encoded == nil {
		k, err := json.Marshal(key)
		v, err2 := json.Marshal(p)
		if err != nil || err2 != nil {
			return []byte(`"":null`) // cannot happen
		}
		p.encoded = slices.Concat(k, []byte(":"), v)
	}
	return p.encoded
}

// readTo returns the time before which a stream outside the positions is not read.
func (t *Tailer) readTo() time.Time {
	switch {
	case !t.watermark.IsZero():
		return t.watermark.UTC()
	case t.state:
		return t.saved.UTC()
	}
	return t.cfg.Clock().UTC()
}

// Restore sets the positions to continue from. It must be called before Run.
func (t *Tailer) Restore(b json.RawMessage) error {
	if len(b) == 0 || string(b) == "null" {
		return nil
	}
	var p positions
	if err := json.Unmarshal(b, &p); err != nil {
		return fmt.Errorf("restore positions: %w", err)
	}
	if p.Version != 1 {
		return fmt.Errorf("restore positions: version %d is not known", p.Version)
	}
	if len(p.Streams) > maxPositions {
		return errors.New("restore positions: too many streams")
	}
	for key, pos := range p.Streams {
		if pos == nil || !pos.valid() || pos.Old != nil && !pos.Old.valid() || !validDone(pos.Done) {
			return fmt.Errorf("restore positions: the one of %q is not possible", key)
		}
	}
	now := t.cfg.Clock()
	t.restore(p.Losses, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.state = p.At, true
	if t.saved.After(now) {
		t.saved = now // the clock was set back
	}
	for key, pos := range p.Streams {
		t.restored[key] = &restored{pos: pos}
	}
	for _, tr := range t.trees {
		if id := p.Roots[tr.root.Path]; id != "" {
			t.roots[tr.root.Path] = id
		}
	}
	return nil
}

// Status returns the state of the source.
func (t *Tailer) Status() sources.Status {
	now := t.cfg.Clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := sources.Status{Name: t.cfg.Source, Up: t.up, Watermark: t.watermark, Unread: t.unread(now)}
	t.report(&s)
	lag := max(0, now.Sub(later(t.watermark, t.began)))
	total := t.closed
	begun := t.opened
	for _, c := range t.followers {
		begun = begun && c.begun.Load()
		c.mu.Lock()
		v := c.view
		v.Lines = c.counters.Lines
		total = add(total, c.counters)
		if c.bound.Before(t.foundAt) {
			s.Lag = lag
		}
		c.mu.Unlock()
		s.Streams = append(s.Streams, v)
	}
	t.begun = t.begun || begun
	s.Opened = t.begun
	if !t.up && t.opened {
		s.Lag = lag
	}
	slices.SortFunc(s.Streams, func(a, b sources.StreamStatus) int { return cmp.Compare(a.Path, b.Path) })
	s.Count(total)
	return s
}

func add(a, b matcher.Counters) matcher.Counters {
	a.Lines += b.Lines
	a.Bytes += b.Bytes
	a.Evaluated += b.Evaluated
	a.Dropped += b.Dropped
	a.Truncated += b.Truncated
	a.Unparsed += b.Unparsed
	return a
}

// unread lists the logs that exist and are not read, ordered by path. The caller
// holds mu.
func (t *Tailer) unread(now time.Time) []sources.Unread {
	out := t.shortage(now)
	if !t.hangs.IsZero() {
		for _, tr := range t.trees {
			out = append(out, sources.Unread{Path: tr.root.Path, Why: "looking through its folders does not end", Since: t.hangs, Holds: true})
		}
	}
	for _, u := range t.down {
		out = append(out, u)
	}
	for _, c := range t.followers {
		out = append(out, c.unread()...)
	}
	for _, u := range t.refused {
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b sources.Unread) int { return cmp.Compare(a.Path, b.Path) })
	return out[:min(len(out), maxUnread)]
}

// setSearching records whether the search for streams hangs.
func (t *Tailer) setSearching(now time.Time, hangs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !hangs:
		t.hangs = time.Time{}
	case t.hangs.IsZero():
		t.hangs = now
	}
}

// refuse records the refused streams of a tree. The caller holds mu.
func (t *Tailer) refuse(tr *tree, s Stream) {
	if _, known := t.refused[s.Key]; known || len(t.refused) >= maxUnread {
		return
	}
	t.count("refused")
	t.refused[s.Key] = sources.Unread{Path: tr.root.Abs(s.Dir), Why: s.Refused, Since: t.cfg.Clock()}
}

// closeIdleFiles closes the files that were not read for the longest time, if too
// many are open.
func (t *Tailer) closeIdleFiles() {
	excess := t.excess()
	if excess <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	type idle struct {
		c  *follower
		at time.Time
	}
	var all []idle
	for _, c := range t.followers {
		c.mu.Lock()
		if c.pinned {
			all = append(all, idle{c, c.view.LastRead})
		}
		c.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b idle) int { return a.at.Compare(b.at) })
	for _, i := range all[:min(excess, len(all))] {
		i.c.closeIdle.Store(true)
		t.queue.Add(i.c)
	}
}
