package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/sources"
	"crowsnest/state"
)

// snapshotVersion is raised when an older program could misread a snapshot.
const snapshotVersion = 1

// saveEvery is how often a changed state is written. After a kill, what was read
// since then and while it was being written is read again: within a second.
const saveEvery = 700 * time.Millisecond

// urgentEvery is how soon the state is written after a receiver that cannot detect
// repeats accepted an alert. A kill before that repeats it.
const urgentEvery = 20 * time.Millisecond

// snapshot is everything that outlives the process, at one moment.
type snapshot struct {
	Version int                        `json:"version"`
	Saved   time.Time                  `json:"saved"`
	Engine  json.RawMessage            `json:"engine"`
	Sources map[string]json.RawMessage `json:"sources"`
	Sinks   map[string]json.RawMessage `json:"sinks,omitempty"`
	Self    json.RawMessage            `json:"self,omitempty"` // alerts of the program about itself
}

// keeper is a sink that has something to keep over a restart.
type keeper interface {
	Export() ([]byte, error)
	Import([]byte) error
}

// saver copies the state every saveEvery and writes it. Detection goes on
// where the disk refuses: the state is then as old as its last good write.
type saver struct {
	dir     string      // "" : nothing is kept
	off     atomic.Bool // another instance uses the folder
	pipe    *pipeline
	sources []sources.Source
	sinks   []sinks.Sink
	self    keeper // alerts of the program about itself; nil: none
	log     zerolog.Logger
	staged  staged // of an agent
	urgent  chan struct{}

	from time.Time   // when the state that was restored was saved
	held *state.Held // nil: another instance has the lock, or it cannot be had
	busy sync.Mutex  // held while the state is saved

	mu      sync.Mutex
	saved   time.Time
	errors  int64
	failing unsaved   // since the last write that succeeded
	writing time.Time // since when a write is under way; zero: none is
}

// run saves until ctx ends. The last word is written by the caller with save,
// when everything else has stopped.
func (s *saver) run(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.urgent:
			if due == nil {
				due = time.After(urgentEvery)
			}
		case <-due:
			due = nil
			s.save()
		case <-tick.C:
			s.hold()
			switch {
			case !s.keeps():
				s.pipe.copied(s.positions)
				s.confirm()
			case s.pipe.up != nil:
				s.alone(func() { s.saveSafe(false) })
			case s.pipe.changed.Load() || s.lastFailed():
				s.save()
			}
		}
	}
}

// accepted has the state written at its next turn, or at once where a kill would
// notify a receiver twice. It does not block and is safe for concurrent use.
func (s *saver) accepted(unique bool) {
	s.pipe.changed.Store(true)
	if !unique {
		return
	}
	select {
	case s.urgent <- struct{}{}:
	default:
	}
}

// keeps reports whether state is kept at all.
func (s *saver) keeps() bool { return s.dir != "" && !s.off.Load() }

func (s *saver) lastFailed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.failing.since.IsZero()
}

// alone calls f unless the state is being saved: a disk that hangs must not hang
// the callers after it.
func (s *saver) alone(f func()) {
	if s.busy.TryLock() {
		defer s.busy.Unlock()
		f()
	}
}

// save writes the state now. A failure is counted and logged, not returned:
// there is nothing that a caller could do. While it is being saved already, save
// does nothing.
func (s *saver) save() {
	if !s.keeps() {
		return
	}
	s.alone(func() {
		if s.pipe.up != nil {
			s.saveSafe(true)
			return
		}
		payload, err := s.copy(func() {})
		s.write(payload, err)
	})
}

// write writes a copy, unless err says that there is none.
func (s *saver) write(payload []byte, err error) {
	began := s.pipe.now()
	s.mu.Lock()
	s.writing = began
	s.mu.Unlock()
	if err == nil {
		err = state.Save(s.dir, payload)
	}
	now := s.pipe.now()
	s.mu.Lock()
	was := !s.failing.since.IsZero()
	s.writing = time.Time{}
	if err != nil {
		s.errors++
		if s.failing.why = err; !was {
			s.failing.since = began
		}
	} else {
		s.saved, s.failing = now, unsaved{}
	}
	s.mu.Unlock()
	if err == nil {
		s.confirm()
	}
	switch {
	case err != nil && !was:
		s.log.Error().Err(err).Msg("state cannot be saved; detection goes on, a restart will look back instead")
	case err == nil && was:
		s.log.Info().Msg("state is saved again")
	}
}

// positions asks the sources that want to know what is saved for their positions.
func (s *saver) positions() {
	for _, src := range s.sources {
		if _, ok := src.(sources.Saver); ok {
			src.Positions()
		}
	}
}

// confirm reports to these sources that their positions are saved.
func (s *saver) confirm() {
	for _, src := range s.sources {
		if saver, ok := src.(sources.Saver); ok {
			saver.Saved()
		}
	}
}

// copy takes everything at one moment, at which it calls also, and encodes it
// afterwards.
func (s *saver) copy(also func()) ([]byte, error) {
	snap := snapshot{Version: snapshotVersion, Saved: s.pipe.now().UTC(), Sources: map[string]json.RawMessage{}, Sinks: map[string]json.RawMessage{}}
	var err error
	var engine episodes.Copy
	s.pipe.copied(func() {
		also()
		if s.pipe.up == nil {
			engine = s.pipe.engine.Copy()
		}
		for _, src := range s.sources {
			if pos := src.Positions(); pos != nil {
				snap.Sources[src.Name()] = pos
			}
		}
		for _, sink := range s.sinks {
			if k, ok := sink.(keeper); ok && err == nil {
				snap.Sinks[sink.Name()], err = k.Export()
			}
		}
		if s.self != nil && err == nil {
			snap.Self, err = s.self.Export()
		}
	})
	if err == nil && s.pipe.up == nil {
		snap.Engine, err = engine.Encode()
	}
	if err != nil {
		s.pipe.changed.Store(true)
		return nil, fmt.Errorf("copy state: %w", err)
	}
	return snap.encode()
}

// encode returns the snapshot as json.Marshal would, without looking at its parts
// once more: they are valid, and most of it.
func (s snapshot) encode() ([]byte, error) {
	saved, err := json.Marshal(s.Saved)
	if err != nil {
		return nil, fmt.Errorf("copy state: %w", err)
	}
	if s.Engine == nil {
		s.Engine = json.RawMessage("null")
	}
	n := len(s.Engine) + len(s.Self) + 1024
	for _, part := range s.Sources {
		n += len(part)
	}
	for _, part := range s.Sinks {
		n += len(part)
	}
	b := fmt.Appendf(make([]byte, 0, n), `{"version":%d,"saved":%s,"engine":`, s.Version, saved)
	b = appendParts(append(append(b, s.Engine...), `,"sources":`...), s.Sources)
	if len(s.Sinks) > 0 {
		b = appendParts(append(b, `,"sinks":`...), s.Sinks)
	}
	if len(s.Self) > 0 {
		b = append(append(b, `,"self":`...), s.Self...)
	}
	return append(b, '}'), nil
}

// appendParts appends an object of parts that are JSON.
func appendParts(b []byte, parts map[string]json.RawMessage) []byte {
	b = append(b, '{')
	for i, name := range slices.Sorted(maps.Keys(parts)) {
		if i > 0 {
			b = append(b, ',')
		}
		key, _ := json.Marshal(name) // strings have a form always
		b = append(append(b, key...), ':')
		if parts[name] == nil {
			b = append(b, "null"...)
		}
		b = append(b, parts[name]...)
	}
	return append(b, '}')
}

// restore reads the state back and reports whether there was one. What is not usable
// is logged and omitted: the daemon starts with any content of the folder.
func (s *saver) restore() bool {
	if !s.keeps() {
		return false
	}
	payload, note, err := state.Load(s.dir)
	if note != "" {
		s.log.Warn().Msg("saved state: " + note)
	}
	if err != nil {
		s.log.Error().Err(err).Msg("saved state cannot be read; starting without it where it is missing")
	}
	if payload == nil {
		return false
	}
	var snap snapshot
	if err := json.Unmarshal(payload, &snap); err != nil {
		s.log.Error().Err(err).Msg("saved state has an unknown form; starting without it")
		return false
	}
	if snap.Version > snapshotVersion {
		s.log.Error().Int("version", snap.Version).Msg("saved state was written by a newer version; starting without it")
		return false
	}
	return s.apply(snap)
}

func (s *saver) apply(snap snapshot) bool {
	ok := true
	s.from = snap.Saved
	if s.pipe.up != nil {
		snap.Engine = nil // the aggregator has them; they were ours if this was no agent before
	} else if err := s.pipe.engine.Restore(snap.Engine, s.pipe.now()); err != nil {
		s.log.Error().Err(err).Msg("saved episodes cannot be used; starting without them")
		ok = false
	}
	if ok {
		s.pipe.restored(snap.Saved)
	}
	for _, src := range s.sources {
		// Positions without the episodes that belong to them would skip lines.
		pos := snap.Sources[src.Name()]
		if !ok {
			pos = nil
		}
		if err := src.Restore(pos); err != nil {
			s.log.Error().Err(err).Str("source", src.Name()).Msg("saved positions cannot be used; looking back instead")
		}
	}
	if s.self != nil && snap.Self != nil {
		if err := s.self.Import(snap.Self); err != nil {
			s.log.Error().Err(err).Msg("the saved alerts about crowsnest itself cannot be used")
		}
	}
	for _, sink := range s.sinks {
		k, isKeeper := sink.(keeper)
		if saved := snap.Sinks[sink.Name()]; isKeeper && saved != nil {
			if err := k.Import(saved); err != nil {
				s.log.Error().Err(err).Str("sink", sink.Name()).Msg("saved deliveries cannot be used; alerts are sent again")
			}
		}
	}
	return ok
}

// status returns when the state was last written and how often that failed.
func (s *saver) status() (saved time.Time, errors int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved, s.errors
}
