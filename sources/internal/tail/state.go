package tail

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sort"
	"strconv"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources"
)

// maxStreams bounds the logs that are read, and the positions that are saved and
// taken from a state file.
const (
	maxStreams   = 10000
	maxPositions = maxStreams
)

// positions is the saved form.
type positions struct {
	Version int                     `json:"v"`
	At      time.Time               `json:"at"`
	Streams map[string]*position    `json:"streams"`
	Losses  map[string]sources.Loss `json:"losses,omitempty"`
	Roots   map[string]string       `json:"roots,omitempty"` // identity of each root, by path
}

// Positions returns the state with which Restore continues after the ingested lines.
func (t *Tailer) Positions() json.RawMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	losses, err := json.Marshal(t.losses)
	at, err2 := json.Marshal(t.readTo())
	roots, err3 := json.Marshal(t.roots)
	if err != nil || err2 != nil || err3 != nil {
		return nil // of strings, numbers and a time that a clock returned: cannot fail
	}
	// Nothing may be taken meanwhile, and this is written once a second for up to
	// thousands of files: it has the form of positions, made without reflection.
	b := make([]byte, 0, 256+256*min(len(t.followers)+len(t.restored), maxPositions))
	b = append(append(b, `{"v":1,"at":`...), at...)
	b = append(b, `,"streams":{`...)
	n := 0
	add := func(key string, p *position) {
		if p == nil || n >= maxPositions {
			return
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = append(appendJSON(b, key), ':')
		b = p.appendJSON(b)
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
	b = append(b, '}')
	if len(t.losses) > 0 {
		b = append(append(b, `,"losses":`...), losses...)
	}
	if len(t.roots) > 0 {
		b = append(append(b, `,"roots":`...), roots...)
	}
	return append(b, '}')
}

// appendJSON appends a string as JSON.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			j, _ := json.Marshal(s) // strings have a form always
			return append(b, j...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendJSON appends what json.Marshal makes of the position.
func (p *position) appendJSON(b []byte) []byte {
	b = p.point.appendFields(append(b, '{'))
	if p.Old != nil {
		b = p.Old.appendFields(append(b, `,"old":{`...))
		b = append(b, '}')
	}
	if p.Ended {
		b = append(b, `,"ended":true`...)
	}
	for i, d := range p.Done {
		if i == 0 {
			b = append(b, `,"done":[`...)
		} else {
			b = append(b, ',')
		}
		b = hex.AppendEncode(append(b, `{"h":"`...), d.Head[:])
		b = strconv.AppendInt(append(b, `","l":`...), int64(d.HeadN), 10)
		b = strconv.AppendInt(append(b, `,"t":`...), d.First, 10)
		b = strconv.AppendInt(append(b, `,"s":`...), d.Size, 10)
		b = append(b, '}')
	}
	if len(p.Done) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func (p point) appendFields(b []byte) []byte {
	b = appendJSON(append(b, `"n":`...), p.Name)
	b = hex.AppendEncode(append(b, `,"h":"`...), p.Head[:])
	b = strconv.AppendInt(append(b, `","l":`...), int64(p.HeadN), 10)
	if p.First != 0 {
		b = strconv.AppendInt(append(b, `,"t":`...), p.First, 10)
	}
	b = strconv.AppendInt(append(b, `,"o":`...), p.Off, 10)
	b = hex.AppendEncode(append(b, `,"m":"`...), p.Mark[:])
	b = strconv.AppendInt(append(b, `","k":`...), int64(p.MarkN), 10)
	return strconv.AppendInt(append(b, `,"e":`...), p.End, 10)
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
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved, t.state = p.At, true
	if now := t.cfg.Clock(); t.saved.After(now) {
		t.saved = now // the clock was set back
	}
	for key, pos := range p.Streams {
		t.restored[key] = &restored{pos: pos}
	}
	for _, tr := range t.trees {
		if id := p.Roots[tr.root.path]; id != "" {
			t.roots[tr.root.path] = id
		}
	}
	for reason, l := range p.Losses {
		if _, known := t.errs[reason]; known {
			if now := t.cfg.Clock(); l.At.After(now) {
				l.At = now
			}
			t.losses[reason] = l
		}
	}
	return nil
}

// Status returns the state of the source.
func (t *Tailer) Status() sources.Status {
	now := t.cfg.Clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := sources.Status{
		Name: t.cfg.Source, Up: t.up, Error: t.lastErr, Watermark: t.watermark,
		Lost: copyOf(t.lost), Errors: copyOf(t.errs), Losses: copyOf(t.losses),
		Unread: t.unread(now),
	}
	total := t.closed
	begun := t.opened
	for _, c := range t.followers {
		begun = begun && c.begun.Load()
		c.mu.Lock()
		v := c.view
		v.Lines = c.count.Lines
		total = add(total, c.count)
		behind := c.bound.Before(t.foundAt)
		c.mu.Unlock()
		if behind {
			s.Lag = max(s.Lag, now.Sub(later(t.watermark, t.began)))
		}
		s.Streams = append(s.Streams, v)
	}
	t.begun = t.begun || begun
	s.Opened = t.begun
	if !t.up && t.opened {
		s.Lag = max(0, now.Sub(later(t.watermark, t.began)))
	}
	sort.Slice(s.Streams, func(i, j int) bool { return s.Streams[i].Path < s.Streams[j].Path })
	s.Count(total)
	return s
}

func copyOf[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	maps.Copy(c, m)
	return c
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

// final returns the state to keep of a follower with nothing left to read.
func (c *follower) final() (over bool, n matcher.Counters, saved *position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if saved = c.saved; saved != nil && c.over && !saved.Ended {
		saved = &position{point: saved.point, Ended: true} // what was lost of it is counted
	}
	return c.over, c.count, saved
}

func (c *follower) readUpTo() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound
}

// closeIdleFiles closes the files that were not read for the longest time, if too
// many are open.
func (t *Tailer) closeIdleFiles() {
	excess := int(t.files.Load()) - t.cfg.MaxOpen
	if t.outOfFDs.Swap(false) {
		excess = max(excess, int(t.files.Load())/2)
	}
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
		if c.holds {
			all = append(all, idle{c, c.view.LastRead})
		}
		c.mu.Unlock()
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at.Before(all[j].at) })
	for _, i := range all[:min(excess, len(all))] {
		i.c.closeIdle.Store(true)
		t.queue.add(i.c)
	}
}

func (t *Tailer) crowded() bool { return int(t.files.Load()) >= t.cfg.MaxOpen }

// fail counts an error and keeps its text.
func (t *Tailer) fail(reason string, err error) {
	if errors.Is(err, fs.ErrNotExist) && reason != "list" {
		return // files come and go
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs[reason]++
	t.lastErr = err.Error()
}

func (t *Tailer) count(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs[reason]++
}

func (t *Tailer) lose(reason string, n int64) {
	if n <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[reason] += n
}
