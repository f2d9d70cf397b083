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

// Reasons for which unread lines are lost.
const (
	lossDeleted    = "deleted"         // a file was deleted before it was read to its end
	lossGap        = "gap"             // the file with the saved position was removed before it was read to its end
	lossGzip       = "gzip"            // a compressed file is damaged
	lossRemoved    = "removed"         // all files of a stream were removed before they were read to their end
	lossUnreadable = "unreadable_file" // a file could not be read, and newer files could not wait for it
	lossTruncated  = "truncated"       // a file was truncated, and there is no copy of it
)

// exhaustedFor is the time for which descriptors count as exhausted after a file could not be
// opened for lack of them. The time is needed because a process at its limit can still open a
// file now and then.
const exhaustedFor = 10 * time.Second

// account counts open files, failures and lost lines. It is safe for concurrent use.
type account struct {
	clock    func() time.Time
	maxOpen  int64
	oneName  bool
	files    atomic.Int64 // number of open descriptors of log files
	outOfFDs atomic.Bool  // whether the process ran out of descriptors since this was last checked

	counting  sync.Mutex
	lost      map[string]int64
	errs      map[string]int64
	losses    map[string]sources.Loss
	lastErr   string
	exhausted struct { // newest period in which no descriptors were free
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

func (a *account) withLock(f func()) {
	a.counting.Lock()
	defer a.counting.Unlock()
	f()
}

func (a *account) recordError(reason string, err error) {
	if errors.Is(err, fs.ErrNotExist) && reason != "list" {
		return // a missing file is normal
	}
	a.withLock(func() {
		a.errs[reason]++
		a.lastErr = err.Error()
	})
}

// setLastError keeps the text of an error that is counted elsewhere. "" removes the text.
func (a *account) setLastError(text string) { a.withLock(func() { a.lastErr = text }) }

func (a *account) countError(reason string) { a.withLock(func() { a.errs[reason]++ }) }

func (a *account) countLostBytes(reason string, n int64) {
	a.withLock(func() { a.lost[reason] += max(n, 0) })
}

// countLoss counts an event by which lines were lost, or may have been lost because the
// content of the removed bytes is unknown.
func (a *account) countLoss(reason, path string) {
	a.counting.Lock()
	defer a.counting.Unlock()
	a.errs[reason]++
	a.losses[reason] = sources.Loss{Count: a.losses[reason].Count + 1, Time: a.clock().UTC(), Path: path}
}

func (a *account) restoreLosses(losses map[string]sources.Loss, now time.Time) {
	a.counting.Lock()
	defer a.counting.Unlock()
	for reason, l := range losses {
		if _, known := a.errs[reason]; known {
			if l.Time.After(now) {
				l.Time = now
			}
			a.losses[reason] = l
		}
	}
}

func (a *account) fillStatus(s *sources.Status) {
	a.counting.Lock()
	defer a.counting.Unlock()
	s.Error = a.lastErr
	s.LostBytes, s.Errors, s.Losses = maps.Clone(a.lost), maps.Clone(a.errs), maps.Clone(a.losses)
}

func (a *account) recordShortage(err error) {
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

// unreadForShortage returns an entry for the logs that are not read for lack of descriptors.
func (a *account) unreadForShortage(now time.Time) []sources.UnreadLog {
	a.counting.Lock()
	defer a.counting.Unlock()
	e := a.exhausted
	if e.since.IsZero() || now.Sub(e.last) >= exhaustedFor {
		return nil
	}
	return []sources.UnreadLog{{Path: "some logs", Reason: e.err.Error() + ": raise the number of open files of the process (ulimit -n)", Since: e.since, Holds: true}}
}

func (a *account) isCrowded() bool { return a.files.Load() >= a.maxOpen }

// openFile opens a file and counts the descriptor. If oneName is set, openFile refuses a file with hard links, because
// anyone who can write into the folder could link any other file of the same file system there.
func (a *account) openFile(d *logdir.Dir, rel string) (*os.File, fs.FileInfo, error) {
	f, fi, err := d.Open(rel)
	if err != nil {
		if logdir.IsOutOfDescriptors(err) {
			a.recordShortage(err)
		}
		return nil, nil, err
	}
	if n := logdir.LinkCount(fi); a.oneName && n > 1 {
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
