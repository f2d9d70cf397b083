package journal

import (
	"context"
	"maps"
	"path"
	"slices"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources/journal/internal/journalfile"
)

const (
	// checkEvery is the number of entries after which readEntries checks its context.
	checkEvery = 256
	// maxWarm is the number of files that keep their buffers between reads.
	maxWarm = 4
)

// startFile starts reading a file where reading stopped, or at the first entry that may be
// unread.
func (s *Source) startFile(f *file) {
	h := f.r.Header()
	s.mu.Lock()
	q := s.sequences[h.Seqnum]
	if q == nil {
		q = &sequence{Fresh: true}
		if !s.begun {
			q.From = unixMicros(s.cfg.Clock().Add(-s.cfg.LookBack))
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
		f.last = q.Done
		f.r.Seek(func(e *journalfile.Entry) bool { return e.Seq > q.Done })
	case q.From > 0:
		f.r.Seek(func(e *journalfile.Entry) bool { return e.Realtime >= q.From })
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

// readEntries passes on all unread entries, in the order of journalctl. It returns false if ctx
// ended first.
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

// readNext reads the next entry of a file, unless one is already read.
func (s *Source) readNext(f *file) {
	if f.f == nil || f.ready {
		return
	}
	for {
		d := f.readEntry()
		if d == nil {
			break
		}
		s.mu.Lock()
		n := d.Lost
		if tail := f.r.Header().TailSeq; n > 1 && tail >= f.last {
			n = min(n, tail-f.last+1) // the header may state any number
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

// passEntry passes the next entry of a file to the pipeline.
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

// skipEntry moves the position behind the next entry of a file.
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
		// A file without a position is read from behind Done.
		if f := s.files[id]; f == nil || f != nil && f.f == nil && !f.seq.Fresh && place <= f.seq.Done {
			delete(s.places, id)
		}
	}
	s.sweepSequences()
}

// sweepSequences forgets sequences without files, except the newest ones.
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
