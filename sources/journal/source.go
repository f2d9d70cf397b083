package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/journal/internal/journalfile"
)

const (
	maxUnread    = 100
	maxSequences = 64 // without files
)

// Reasons of losses and errors.
const (
	lostVacuumed = "vacuumed"
	lostDamaged  = "journal_damaged"
	errorRead    = "read"
)

// Source reads the journals of one node.
type Source struct {
	cfg   Config
	roots []*root
	rules atomic.Pointer[rules.Set]

	// Only Run uses these.
	pipe    sources.Pipeline
	files   map[journalfile.ID]*file
	refused map[string][]sources.Unread // unread files by folder
	open    int
	young   bool   // a file is being created
	waiting string // path of a file whose newest entry cannot be read yet
	ruled   *rules.Set
	lines   lines

	mu        sync.Mutex
	sequences map[journalfile.ID]*sequence
	places    map[journalfile.ID]uint64 // number of the newest entry of each file that was read
	begun     bool                      // everything was read once, perhaps before a restart
	streams   *simplelru.LRU[string, *stream]
	status    sources.Status
	behind    bool // there are unread entries
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg.Name = cmp.Or(cfg.Name, "journal")
	cfg.LookBack = cmp.Or(cfg.LookBack, defaultLookBack)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, defaultPoll)
	if len(cfg.Dirs) == 0 {
		cfg.Dirs = []string{"/var/log/journal", "/run/log/journal"}
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Source{
		cfg: cfg, files: map[journalfile.ID]*file{}, refused: map[string][]sources.Unread{},
		sequences: map[journalfile.ID]*sequence{}, places: map[journalfile.ID]uint64{},
		status: sources.Status{
			Name: cfg.Name, Errors: map[string]int64{errorRead: 0, lostVacuumed: 0, lostDamaged: 0}, Losses: map[string]sources.Loss{},
		},
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive
	for _, dir := range cfg.Dirs {
		s.roots = append(s.roots, newRoot(path.Clean(dir)))
	}
	return s
}

// Name returns "journal" unless the configuration sets another name.
func (s *Source) Name() string { return s.cfg.Name }

// Info implements sources.Source. The source reads only streams that a rule selects.
func (s *Source) Info() sources.Info { return sources.Info{Local: true, UseRules: s.rules.Store} }

// Serves reports whether the selector can match a stream of this source.
func (s *Source) Serves(from rules.Selector) bool {
	fixed, free := s.cfg.StreamLabels()
	for _, m := range from.Matchers() {
		if !slices.Contains(free, m.Name) && !m.Matches(fixed[m.Name]) {
			return false
		}
	}
	return true
}

// saved is the form of the positions.
type saved struct {
	Version   int                          `json:"v"`
	Begun     bool                         `json:"begun"`
	Sequences map[journalfile.ID]*sequence `json:"sequences"`
	Places    map[journalfile.ID]uint64    `json:"files,omitempty"`
	Losses    map[string]sources.Loss      `json:"losses,omitempty"`
}

const version = 1

// Positions returns the sequences and how far each file was read, nil if there was no
// journal. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) == 0 {
		return nil
	}
	b, err := json.Marshal(saved{Version: version, Begun: s.begun, Sequences: s.sequences, Places: s.places, Losses: s.status.Losses})
	if err != nil {
		return nil // numbers, strings and times of a clock can always be encoded
	}
	return b
}

// Restore sets the positions.
func (s *Source) Restore(b json.RawMessage) error {
	if len(b) == 0 {
		return nil
	}
	var in saved
	err := json.Unmarshal(b, &in)
	if err == nil && in.Version != version {
		err = fmt.Errorf("version %d is not known", in.Version)
	}
	for _, q := range in.Sequences {
		if err == nil && (q == nil || q.Goal < q.Done || q.Last < q.Goal) {
			err = errors.New("the position in a sequence is not possible")
		}
	}
	if err != nil {
		return fmt.Errorf("read the positions of %s: %w", s.cfg.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = in.Begun
	maps.Copy(s.sequences, in.Sequences)
	maps.Copy(s.places, in.Places)
	for _, reason := range []string{lostVacuumed, lostDamaged} {
		if l, ok := in.Losses[reason]; ok {
			l.At = times.Earlier(l.At, s.cfg.Clock())
			s.status.Losses[reason] = l
		}
	}
	return nil
}

// Status implements sources.Source.
func (s *Source) Status() sources.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Errors, st.Losses, st.Unread = maps.Clone(st.Errors), maps.Clone(st.Losses), slices.Clone(st.Unread)
	for _, str := range s.streams.Values() {
		st.Streams = append(st.Streams, str.status())
	}
	if s.behind && !st.Watermark.IsZero() {
		st.Lag = max(0, s.cfg.Clock().Sub(st.Watermark))
	}
	return st
}

func (s *Source) set(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// lose counts lines that can no longer be read. s.mu is held.
func (s *Source) lose(reason string, n uint64, where string) {
	count := int64(min(n, 1<<40)) //nolint:gosec // it is bounded
	s.status.Errors[reason] += count
	s.status.Losses[reason] = sources.Loss{Count: s.status.Losses[reason].Count + count, At: s.cfg.Clock().UTC(), Path: where}
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.end()
	for {
		s.round(ctx)
		if !pause.Sleep(ctx, s.cfg.PollInterval, nil) {
			return nil
		}
	}
}

func (s *Source) end() {
	s.set(func(st *sources.Status) { st.Up = false })
	for _, f := range s.files {
		f.close()
	}
	for _, r := range s.roots {
		r.dir.Close()
	}
}

// round reads everything that is there, and then advances the watermark: journald stamps
// an entry when it receives it, so what it writes from now on is newer, but for what it
// was about to write. The lateness of files allows for that.
func (s *Source) round(ctx context.Context) {
	start := s.cfg.Clock()
	s.young, s.waiting = false, ""
	found := s.find(start)
	s.rule()
	err := s.refresh(found.err)
	if !s.read(ctx) {
		return
	}
	idle := ""
	if err == nil && found.folders == 0 {
		if idle = s.absent(); idle == "" {
			err = errors.New("the journal is gone: is the folder of the node mounted? Now " + s.where())
		}
	}
	s.finish(start, found, idle, err)
}

func (s *Source) where() string {
	return "there are no files of journald in " + strings.Join(s.cfg.Dirs, " and ")
}

// absent returns why there is nothing to read, "" if there was something once.
func (s *Source) absent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) > 0 {
		return ""
	}
	return s.where() + ": this node has no journal, or its folders are not mounted"
}

// refresh looks for new entries in all files. It adds to err why something is not read.
func (s *Source) refresh(err error) error {
	for _, f := range s.files {
		if f.f == nil || f.ready {
			continue // there is enough to read
		}
		e := f.refresh()
		if e == nil {
			continue
		}
		s.set(func(st *sources.Status) { st.Errors[errorRead]++ })
		if !archived(f.path) {
			err = errors.Join(err, e)
			continue
		}
		s.mu.Lock()
		s.lose(lostDamaged, 1, f.path)
		s.mu.Unlock()
		s.close(f)
	}
	return err
}

// finish publishes the result of a round that read to the end.
func (s *Source) finish(start time.Time, found finding, idle string, err error) {
	proved := err == nil && !s.young && s.waiting == ""
	s.mu.Lock()
	st := &s.status
	st.Unread, st.Idle, st.Up, st.Error = found.unread[:min(len(found.unread), maxUnread)], idle, err == nil, ""
	switch {
	case err != nil:
		st.Error = err.Error()
	case s.waiting != "":
		st.Error = "the newest entry of " + s.waiting + " is not complete; it is read when journald completes it, writes the next one or rotates the file"
	}
	if s.behind = !proved; proved {
		s.begun = s.begun || idle == ""
		st.Opened, st.Watermark = true, start
		for _, q := range s.sequences {
			if n := q.looked(); n > 0 {
				s.lose(lostVacuumed, n, q.Dir)
			}
		}
	}
	s.sweep(proved)
	s.mu.Unlock()
	if proved {
		s.pipe.AdvanceWatermark(s.cfg.Name, start)
	}
}
