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
	maxSequences = 64 // largest number of sequences without files
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

	// The following fields are used only by Run.
	pipe    sources.Pipeline
	files   map[journalfile.ID]*file
	refused map[string][]sources.Unread // unread files, by folder
	open    int
	young   bool   // whether a file is just being created
	waiting string // path of a file whose newest entry cannot be read yet
	ruled   *rules.Set
	lines   lines

	mu        sync.Mutex
	sequences map[journalfile.ID]*sequence
	places    map[journalfile.ID]uint64 // number of the newest entry that was read, for each file
	begun     bool                      // whether everything was read once, perhaps before a restart
	streams   *simplelru.LRU[string, *stream]
	status    sources.Status
	behind    bool // whether there are unread entries
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
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive, so there is no error
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
	return from.MaySelect(fixed, free)
}

// saved is the saved form of the positions.
type saved struct {
	Version   int                          `json:"v"`
	Begun     bool                         `json:"begun"`
	Sequences map[journalfile.ID]*sequence `json:"sequences"`
	Places    map[journalfile.ID]uint64    `json:"files,omitempty"`
	Losses    map[string]sources.Loss      `json:"losses,omitempty"`
}

const version = 1

// Positions returns the sequences and how far each file was read, or nil if there was no
// journal. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) == 0 {
		return nil
	}
	b, err := json.Marshal(saved{Version: version, Begun: s.begun, Sequences: s.sequences, Places: s.places, Losses: s.status.Losses})
	if err != nil {
		return nil // numbers, strings and times from a clock can always be encoded
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
		err = fmt.Errorf("version %d is unknown", in.Version)
	}
	for _, q := range in.Sequences {
		if err == nil && (q == nil || q.Goal < q.Done || q.Last < q.Goal) {
			err = errors.New("the saved position in a sequence of journal entries is invalid")
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

func (s *Source) updateStatus(f func(*sources.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

// countLost counts lines that can no longer be read. The caller holds s.mu.
func (s *Source) countLost(reason string, n uint64, where string) {
	count := int64(min(n, 1<<40)) //nolint:gosec // the value is bounded
	s.status.Errors[reason] += count
	s.status.Losses[reason] = sources.Loss{Count: s.status.Losses[reason].Count + count, At: s.cfg.Clock().UTC(), Path: where}
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.finishStreams()
	for {
		s.runRound(ctx)
		if !pause.Sleep(ctx, s.cfg.PollInterval, nil) {
			return nil
		}
	}
}

func (s *Source) finishStreams() {
	s.updateStatus(func(st *sources.Status) { st.Up = false })
	for _, f := range s.files {
		f.close()
	}
	for _, r := range s.roots {
		r.dir.Close()
	}
}

// runRound reads every entry that exists and then advances the watermark. journald stamps an
// entry when it receives it, so later entries are newer, except those that it was about to
// write. The lateness of the source allows for these.
func (s *Source) runRound(ctx context.Context) {
	start := s.cfg.Clock()
	s.young, s.waiting = false, ""
	found := s.findFiles(start)
	s.applyRules()
	err := s.refreshFiles(found.err)
	if !s.readEntries(ctx) {
		return
	}
	idle := ""
	if err == nil && found.folders == 0 {
		if idle = s.whyAbsent(); idle == "" {
			err = errors.New("the journal is gone; check whether the node's folder is mounted. Now " + s.describeFolders())
		}
	}
	s.finishRound(start, found, idle, err)
}

func (s *Source) describeFolders() string {
	return "there are no files of journald in " + strings.Join(s.cfg.Dirs, " and ")
}

// whyAbsent returns why there is nothing to read. It returns "" if there ever was a journal.
func (s *Source) whyAbsent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) > 0 {
		return ""
	}
	return s.describeFolders() + ": this node has no journal, or its folders are not mounted"
}

// refreshFiles looks for new entries in all files. It returns err together with the reasons why
// files are not read.
func (s *Source) refreshFiles(err error) error {
	for _, f := range s.files {
		if f.f == nil || f.ready {
			continue // the file still has unread entries
		}
		e := f.refreshHeader()
		if e == nil {
			continue
		}
		s.updateStatus(func(st *sources.Status) { st.Errors[errorRead]++ })
		if !isArchivedName(f.path) {
			err = errors.Join(err, e)
			continue
		}
		s.mu.Lock()
		s.countLost(lostDamaged, 1, f.path)
		s.mu.Unlock()
		s.closeFile(f)
	}
	return err
}

// finishRound publishes the result of a round that has read everything.
func (s *Source) finishRound(start time.Time, found finding, idle string, err error) {
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
			if n := q.endRound(); n > 0 {
				s.countLost(lostVacuumed, n, q.Dir)
			}
		}
	}
	s.dropUnneeded(proved)
	s.mu.Unlock()
	if proved {
		s.pipe.AdvanceWatermark(s.cfg.Name, start)
	}
}
