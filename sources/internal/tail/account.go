package tail

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/sources"
	"crowsnest/sources/internal/logdir"
)

// The reasons why lines were not read and are lost.
const (
	lossDeleted    = "deleted"         // a file was deleted before it was read to its end
	lossGap        = "gap"             // the file of the position was removed before it was read to its end
	lossGzip       = "gzip"            // a compressed file is damaged
	lossRemoved    = "removed"         // all of a stream was removed before it was read to its end
	lossUnreadable = "unreadable_file" // a file could not be read, and newer ones were not kept waiting
	lossTruncated  = "truncated"       // a file was truncated, and no copy of it is there
)

// exhaustedFor is how long after the last failure descriptors count as short: a
// process at its limit can open files now and then.
const exhaustedFor = 10 * time.Second

// account counts open files, failures and what was lost. Safe for concurrent use.
type account struct {
	clock    func() time.Time
	maxOpen  int64
	oneName  bool
	files    atomic.Int64 // descriptors of log files
	outOfFDs atomic.Bool  // the process ran out of descriptors

	counting  sync.Mutex
	lost      map[string]int64
	errs      map[string]int64
	losses    map[string]sources.Loss
	lastErr   string
	exhausted struct { // no descriptor was left
		since, last time.Time
		err         error
	}
}

func newAccount(cfg Config) *account {
	return &account{
		clock: cfg.Clock, maxOpen: int64(cfg.MaxOpen), oneName: cfg.OneName,
		lost: map[string]int64{"deleted": 0, "long_line": 0, "nul": 0},
		errs: map[string]int64{
			lossDeleted: 0, lossGap: 0, lossGzip: 0, lossRemoved: 0, lossTruncated: 0, lossUnreadable: 0,
			"descriptors": 0, "hung": 0, "list": 0, "open": 0, "read": 0, "refused": 0, "watch": 0,
		},
		losses: map[string]sources.Loss{},
	}
}

func (a *account) tally(f func()) {
	a.counting.Lock()
	defer a.counting.Unlock()
	f()
}

// fail counts an error and keeps its text.
func (a *account) fail(reason string, err error) {
	if errors.Is(err, fs.ErrNotExist) && reason != "list" {
		return // files come and go
	}
	a.tally(func() {
		a.errs[reason]++
		a.lastErr = err.Error()
	})
}

// note keeps the text of an error that is counted elsewhere, or "".
func (a *account) note(text string) { a.tally(func() { a.lastErr = text }) }

func (a *account) count(reason string) { a.tally(func() { a.errs[reason]++ }) }

// lose counts bytes that are skipped.
func (a *account) lose(reason string, n int64) { a.tally(func() { a.lost[reason] += max(n, 0) }) }

// miss counts that lines were lost, or may have been: the content of removed bytes
// is unknown.
func (a *account) miss(reason, path string) {
	a.counting.Lock()
	defer a.counting.Unlock()
	a.errs[reason]++
	a.losses[reason] = sources.Loss{Count: a.losses[reason].Count + 1, At: a.clock().UTC(), Path: path}
}

// restore sets the losses that an earlier process counted.
func (a *account) restore(losses map[string]sources.Loss, now time.Time) {
	a.counting.Lock()
	defer a.counting.Unlock()
	for reason, l := range losses {
		if _, known := a.errs[reason]; known {
			if l.At.After(now) {
				l.At = now
			}
			a.losses[reason] = l
		}
	}
}

// report sets the counts of a status.
func (a *account) report(s *sources.Status) {
	a.counting.Lock()
	defer a.counting.Unlock()
	s.Error = a.lastErr
	s.Lost, s.Errors, s.Losses = maps.Clone(a.lost), maps.Clone(a.errs), maps.Clone(a.losses)
}

// short records that no descriptor was left.
func (a *account) short(err error) {
	a.outOfFDs.Store(true)
	a.counting.Lock()
	defer a.counting.Unlock()
	now, e := a.clock(), &a.exhausted
	if e.since.IsZero() || now.Sub(e.last) >= exhaustedFor || now.Before(e.last) {
		e.since = now
	}
	e.last, e.err = now, err
	a.errs["descriptors"]++
}

// shortage returns what is not read for lack of descriptors.
func (a *account) shortage(now time.Time) []sources.Unread {
	a.counting.Lock()
	defer a.counting.Unlock()
	e := a.exhausted
	if e.since.IsZero() || now.Sub(e.last) >= exhaustedFor {
		return nil
	}
	return []sources.Unread{{Path: "some logs", Why: e.err.Error() + ": raise the number of open files of the process (ulimit -n)", Since: e.since, Holds: true}}
}

// crowded reports whether no more files should be held open.
func (a *account) crowded() bool { return a.files.Load() >= a.maxOpen }

// excess returns how many files should be closed.
func (a *account) excess() int {
	n := a.files.Load()
	if a.outOfFDs.Swap(false) {
		return int(max(n-a.maxOpen, n/2))
	}
	return int(n - a.maxOpen)
}

// openFile opens a file and counts the descriptor. If oneName is set, it refuses a file
// with hard links: anyone who can write into the folder could have any file of its file
// system read.
func (a *account) openFile(d *logdir.Dir, rel string) (*os.File, fs.FileInfo, error) {
	f, fi, err := d.Open(rel)
	if err != nil {
		if logdir.Exhausted(err) {
			a.short(err)
		}
		return nil, nil, err
	}
	if n := logdir.Links(fi); a.oneName && n > 1 {
		_ = f.Close()
		return nil, nil, fmt.Errorf("open %s: %w: it has %d names (hard links), and the kubelet makes none", f.Name(), logdir.ErrRefused, n)
	}
	a.files.Add(1)
	return f, fi, nil
}

func (a *account) closeFile(f *os.File) {
	_ = f.Close()
	a.files.Add(-1)
}
