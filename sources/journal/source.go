package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"crowsnest/internal/lazyre"
	"crowsnest/internal/pause"
	"crowsnest/internal/times"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
	"crowsnest/sources/journal/internal/journalfile"
)

const maxSequences = 64 // largest number of sequences without files that are remembered

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
	refused map[string][]sources.UnreadLog // files that cannot be read; the key is the folder
	open    int
	young   bool   // whether journald is just creating a file
	waiting string // path of a file whose newest entry cannot be read yet
	ruled   *rules.Set
	lines   lines

	mu        sync.Mutex
	sequences map[journalfile.ID]*sequence
	places    map[journalfile.ID]uint64 // number of the newest entry that was read from a file; the key is the file ID
	begun     bool                      // whether all entries were read once, perhaps before a restart
	streams   *simplelru.LRU[string, *stream]
	status    sources.Status
	behind    bool // whether there are entries that were not read
}

// New returns a source. It does no I/O.
func New(cfg Config) *Source {
	cfg.Common = cfg.WithDefaults("journal")
	cfg.LookBack = cmp.Or(cfg.LookBack, 15*time.Minute)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, 300*time.Millisecond)
	if len(cfg.Dirs) == 0 {
		cfg.Dirs = []string{"/var/log/journal", "/run/log/journal"}
	}
	s := &Source{
		cfg: cfg, files: map[journalfile.ID]*file{}, refused: map[string][]sources.UnreadLog{},
		sequences: map[journalfile.ID]*sequence{}, places: map[journalfile.ID]uint64{},
		status: sources.Status{
			Name: cfg.Name, Errors: map[string]int64{errorRead: 0, lostVacuumed: 0, lostDamaged: 0}, Losses: map[string]sources.Loss{},
		},
	}
	s.streams, _ = simplelru.NewLRU[string, *stream](maxStreams, nil) // the size is positive, so there is no error
	for _, dir := range cfg.Dirs {
		s.roots = append(s.roots, &root{dir: &logdir.Root{Path: path.Clean(dir)}, cache: logdir.NewCache(), seen: map[string]int64{}})
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

type saved struct {
	Version   int                          `json:"v"`
	Begun     bool                         `json:"begun"`
	Sequences map[journalfile.ID]*sequence `json:"sequences"`
	Places    map[journalfile.ID]uint64    `json:"files,omitempty"`
	Losses    map[string]sources.Loss      `json:"losses,omitempty"`
}

const version = 1

// Positions returns the sequences and the positions in all files. It returns nil if there was
// no journal. It does not block.
func (s *Source) Positions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sequences) == 0 {
		return nil
	}
	b, _ := json.Marshal(saved{Version: version, Begun: s.begun, Sequences: s.sequences, Places: s.places, Losses: s.status.Losses})
	return b // numbers, strings and times from a clock can always be encoded
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
		if err == nil && (q == nil || q.Goal < q.DoneUpTo || q.LastRead < q.Goal) {
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
			l.Time = times.Min(l.Time, s.cfg.Clock())
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
	s.status.Losses[reason] = sources.Loss{Count: s.status.Losses[reason].Count + count, Time: s.cfg.Clock().UTC(), Path: where}
}

// Run reads until ctx ends.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.pipe = p
	defer s.close()
	for {
		s.runRound(ctx)
		if !pause.Sleep(ctx, s.cfg.PollInterval, nil) {
			return nil
		}
	}
}

func (s *Source) close() {
	s.updateStatus(func(st *sources.Status) { st.Up = false })
	for _, f := range s.files {
		f.close()
	}
	for _, r := range s.roots {
		r.dir.Close()
	}
}

// runRound reads every entry that exists and then advances the watermark. The time of an entry is the time at which
// journald received the entry. journald writes the entry a little later. The lateness of the source allows for this
// delay.
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
		s.mu.Lock()
		everRead := len(s.sequences) > 0
		s.mu.Unlock()
		empty := "there are no files of journald in " + strings.Join(s.cfg.Dirs, " and ")
		if everRead {
			err = errors.New("the journal is gone; check whether the node's folder is mounted. Now " + empty)
		} else {
			idle = empty + ": this node has no journal, or its folders are not mounted"
		}
	}
	s.finishRound(start, found, idle, err)
}

// refreshFiles looks for new entries in all files. It returns err joined with the reasons why files cannot be read.
func (s *Source) refreshFiles(err error) error {
	for _, f := range s.files {
		if f.f == nil || f.ready {
			continue // the file still has unread entries
		}
		f.r.Final = isArchivedName(f.path)
		e := f.r.Refresh()
		if e == nil {
			continue
		}
		s.updateStatus(func(st *sources.Status) { st.Errors[errorRead]++ })
		if !f.r.Final {
			err = errors.Join(err, fmt.Errorf("read %s: %w", f.path, e))
			continue
		}
		s.mu.Lock()
		s.countLost(lostDamaged, 1, f.path)
		s.mu.Unlock()
		s.closeFile(f)
	}
	return err
}

func (s *Source) finishRound(start time.Time, found finding, idle string, err error) {
	proved := err == nil && !s.young && s.waiting == ""
	s.mu.Lock()
	st := &s.status
	st.SetUnread(found.unread)
	st.Idle, st.Up, st.Error = idle, err == nil, ""
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

// Limits of the files that are followed. By default, journald keeps 100 files.
const (
	maxFiles   = 4096
	maxOpen    = 1024
	maxFolders = 64
)

// folderName matches a machine ID, optionally followed by a dot and a namespace.
var folderName = lazyre.New(`^[0-9a-f]{32}(\.[A-Za-z0-9:_.-]{1,200})?$`)

type root struct {
	dir   *logdir.Root
	cache *logdir.Cache
	seen  map[string]int64 // generation of the newest listing of each folder that was handled
}

type finding struct {
	folders int
	unread  []sources.UnreadLog // files that cannot be read
	err     error               // error of a directory, or of a file to which journald writes
}

// findFiles looks for new, renamed and removed files. A missing directory counts as empty.
func (s *Source) findFiles(now time.Time) finding {
	var out finding
	for _, r := range s.roots {
		if err := s.findBelow(r, now, &out); err != nil && !errors.Is(err, fs.ErrNotExist) {
			out.err = errors.Join(out.err, explainError(err, nil))
		}
	}
	return out
}

func (s *Source) findBelow(r *root, now time.Time, out *finding) error {
	if r.dir.Moved() {
		if err := r.dir.Reopen(); err != nil {
			s.forgetFolders(r, nil)
			return err
		}
		s.forgetFolders(r, nil)
		r.cache = logdir.NewCache()
	}
	d := r.dir.Borrow()
	defer d.Release()
	top, err := r.cache.Get(d, ".", now)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	var errs []error
	for _, e := range top.Entries {
		if !e.Dir || !folderName.MatchString(e.Name) || len(names) == maxFolders {
			continue
		}
		names[e.Name] = true
		folder, err := r.cache.Get(d, e.Name, now)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // the file was removed in the meantime
		case err != nil:
			errs = append(errs, err)
			continue
		}
		out.folders++
		key := path.Join(r.dir.Path, e.Name)
		if r.seen[e.Name] != folder.Gen || len(s.refused[key]) > 0 {
			s.refused[key] = s.findInFolder(d, r, e.Name, folder.Entries, now)
			r.seen[e.Name] = folder.Gen
		}
		for _, u := range s.refused[key] {
			out.unread = append(out.unread, u)
			if u.Holds && out.err == nil { // the status page shows the other errors too
				out.err = errors.New(u.Reason)
			}
		}
	}
	s.forgetFolders(r, names)
	return errors.Join(errs...)
}

// forgetFolders marks the files of removed folders as no longer listed.
func (s *Source) forgetFolders(r *root, names map[string]bool) {
	for name := range r.seen {
		if !names[name] {
			s.forgetFolder(path.Join(r.dir.Path, name))
			delete(r.seen, name)
		}
	}
}

func (s *Source) forgetFolder(folder string) {
	for _, f := range s.files {
		if path.Dir(f.path) == folder {
			f.listed = false
		}
	}
	delete(s.refused, folder)
}

// findInFolder handles a folder whose listing changed. It returns the files that cannot be read.
func (s *Source) findInFolder(d *logdir.Dir, r *root, folder string, entries []logdir.Entry, now time.Time) (unread []sources.UnreadLog) {
	dir := path.Join(r.dir.Path, folder)
	since := map[string]time.Time{}
	for _, u := range s.refused[dir] {
		since[u.Path] = u.Since
	}
	s.forgetFolder(dir)
	for _, e := range entries {
		if e.Dir || !strings.HasSuffix(strings.TrimSuffix(e.Name, "~"), ".journal") {
			continue
		}
		rel := path.Join(folder, e.Name)
		if err := s.handleFile(d, r, rel); err != nil && !errors.Is(err, fs.ErrNotExist) {
			info, _ := r.dir.Lstat(rel)
			at := now
			if t, known := since[path.Join(dir, e.Name)]; known {
				at = t
			}
			// An archived file with a damaged header stays unreadable, so decisions need not wait for it.
			holds := !isArchivedName(e.Name) || !errors.Is(err, journalfile.ErrFormat)
			unread = append(unread, sources.UnreadLog{Path: path.Join(dir, e.Name), Reason: explainError(err, info).Error(), Since: at, Holds: holds})
		}
	}
	return unread
}

// handleFile handles the file at rel. The file may be known under another name. Otherwise handleFile opens it.
func (s *Source) handleFile(d *logdir.Dir, r *root, rel string) error {
	name := r.dir.Abs(rel)
	info, err := r.dir.Lstat(rel)
	if err != nil {
		return err
	}
	for _, f := range s.files {
		if !f.listed && f.isFile(info) {
			f.path, f.listed, f.info = name, true, info
			return nil
		}
	}
	if len(s.files) >= maxFiles || s.open >= maxOpen {
		return fmt.Errorf("%s is skipped: more than %d files wait to be read", name, min(maxFiles, maxOpen))
	}
	opened, info, err := d.Open(rel)
	if err != nil {
		return err
	}
	h, err := journalfile.Open(opened, maxValue)
	if err != nil {
		defer opened.Close()
		if errors.Is(err, journalfile.ErrFormat) && isBeingCreated(opened) {
			r.seen[path.Dir(rel)] = -1 // list the folder again in the next round
			s.young = true
			return nil
		}
		return fmt.Errorf("read %s: %w", name, err)
	}
	id := h.Header().File
	if f := s.files[id]; f != nil && f.listed {
		return opened.Close() // a copy of a known file
	} else if f != nil { // journald changed the file, or replaced it by a copy with other attributes
		f.path, f.listed = name, true
		if f.f == nil {
			f.info = info
		}
		return opened.Close()
	}
	s.startFile(&file{path: name, id: id, info: info, listed: true, f: opened, r: h})
	return nil
}

const (
	checkEvery = 256 // number of entries after which readEntries checks its context
	maxWarm    = 4   // largest number of files that keep their buffers between reads
)

// startFile starts to read a file at the first entry that may be unread.
func (s *Source) startFile(f *file) {
	h := f.r.Header()
	s.mu.Lock()
	q := s.sequences[h.Seqnum]
	if q == nil {
		q = &sequence{Fresh: true}
		if !s.begun {
			q.StartTime = unixMicros(s.cfg.Clock().Add(-s.cfg.LookBack))
		}
		s.sequences[h.Seqnum] = q
	}
	f.seq = q
	q.Dir = path.Dir(f.path)
	place, placed := s.places[f.id]
	pairTwins(s.sequences)
	s.mu.Unlock()
	switch {
	case placed:
		f.last = place
		f.r.Seek(func(e *journalfile.Entry) bool { return e.Seq > place })
	case !q.Fresh:
		f.last = q.DoneUpTo
		f.r.Seek(func(e *journalfile.Entry) bool { return e.Seq > q.DoneUpTo })
	case q.StartTime > 0:
		f.r.Seek(func(e *journalfile.Entry) bool { return e.Realtime >= q.StartTime })
	}
	f.r.Release()
	s.files[f.id] = f
	s.open++
}

func unixMicros(t time.Time) uint64 { return uint64(max(0, t.UnixMicro())) } //nolint:gosec // the value is not negative

func (s *Source) closeFile(f *file) {
	if f.f != nil {
		s.open--
	}
	f.close()
}

// readEntries passes on all unread entries, in the order of journalctl. It returns false if ctx ended first.
func (s *Source) readEntries(ctx context.Context) bool {
	var unread []*file
	for _, f := range s.files {
		if s.readNext(f); f.ready {
			unread = append(unread, f)
		}
		if len(unread) > maxWarm && f.ready {
			f.r.Release()
		}
	}
	s.mu.Lock()
	s.behind = s.behind || len(unread) > 0
	s.mu.Unlock()
	for n := 0; len(unread) > 0; n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return false
		}
		first := 0
		for i := range unread {
			if i > 0 && unread[i].isBefore(unread[first]) {
				first = i
			}
		}
		f := unread[first]
		s.passEntry(f)
		if s.readNext(f); !f.ready {
			unread = slices.Delete(unread, first, first+1)
		}
	}
	return ctx.Err() == nil
}

func (s *Source) readNext(f *file) {
	if f.f == nil || f.ready {
		return
	}
	for {
		err := f.r.Next(&f.entry)
		f.ready = err == nil
		d, damaged := errors.AsType[*journalfile.Damage](err)
		if !damaged {
			break
		}
		s.mu.Lock()
		n := d.LostEntries
		if tail := f.r.Header().TailSeq; n > 1 && tail >= f.last {
			n = min(n, tail-f.last+1) // a damaged header may state any number
		}
		s.countLost(lostDamaged, n, f.path)
		f.seq.count(f.last+1, n)
		s.mu.Unlock()
	}
	if h := f.r.Header(); !f.ready && f.r.Final && !f.settled {
		// journald assigns a number to an entry before it writes the entry. The last entry of a
		// file may therefore never have been written.
		f.settled = true
		if h.TailSeq > f.last && f.last > 0 {
			s.mu.Lock()
			f.seq.count(h.TailSeq, 1)
			s.mu.Unlock()
		}
	}
	if !f.ready {
		if f.r.IsWaiting() {
			s.waiting = f.path
		}
		switch {
		case f.r.Final:
			s.closeFile(f)
		case s.open > maxWarm:
			f.r.Release()
		}
	}
}

func (s *Source) passEntry(f *file) {
	e := &f.entry
	f.ready = false
	if f.seq.isCopy(e) {
		s.skipEntry(f)
		return
	}
	l := &s.lines
	l.readFields(f.r, e)
	if l.message == nil && l.damaged {
		s.mu.Lock()
		s.countLost(lostDamaged, 1, f.path)
		s.mu.Unlock()
	}
	st := s.stream(l)
	if !st.wanted || l.message == nil {
		s.skipEntry(f)
		return
	}
	rec := matcher.Record{Time: time.UnixMicro(int64(e.Realtime)).UTC(), Text: l.message, Fields: l.fields, Number: e.Seq} //nolint:gosec // the value is below 1<<55
	s.pipe.Match(st.m, rec, func() {
		c := st.m.Counters()
		s.skipEntry(f)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.status.Lines++
		s.status.Evaluated++
		s.status.Bytes += c.Bytes - st.counters.Bytes
		s.status.Truncated += c.Truncated - st.counters.Truncated
		st.counters, st.read = c, s.cfg.Clock()
	})
}

func (s *Source) skipEntry(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.last = f.entry.Seq
	s.places[f.id] = f.last
	f.seq.countEntry(&f.entry)
}

// dropUnneeded forgets files and sequences that are no longer needed. proved means that every
// file was read to its end. The caller holds s.mu.
func (s *Source) dropUnneeded(proved bool) {
	for id, f := range s.files {
		if !f.listed && (f.f == nil || !f.ready && !f.r.Header().Online) {
			s.closeFile(f)
			delete(s.files, id)
		}
	}
	if !proved {
		return // a file that cannot be opened now must keep its position
	}
	for id, place := range s.places {
		// A file without a saved position is read from the first entry after DoneUpTo, so this file needs no position.
		if f := s.files[id]; f == nil || f != nil && f.f == nil && !f.seq.Fresh && place <= f.seq.DoneUpTo {
			delete(s.places, id)
		}
	}
	s.sweepSequences()
}

func (s *Source) sweepSequences() {
	used := map[*sequence]bool{}
	for _, f := range s.files {
		used[f.seq] = true
	}
	if len(s.sequences)-len(used) <= maxSequences {
		return
	}
	unused := maps.Clone(s.sequences)
	maps.DeleteFunc(unused, func(_ journalfile.ID, q *sequence) bool { return used[q] })
	for len(unused) > maxSequences {
		var oldest journalfile.ID
		for id, q := range unused {
			if o := unused[oldest]; o == nil || q.Realtime < o.Realtime {
				oldest = id
			}
		}
		delete(unused, oldest)
		delete(s.sequences, oldest)
	}
	pairTwins(s.sequences)
}
