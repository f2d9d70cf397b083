package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/daemon/config"
	"crowsnest/daemon/state"
	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

const (
	historyFile = "history"
	// replaceEvery is the time between attempts to write the whole history.
	replaceEvery = time.Minute
	// answersFor is how long after the end of an episode its notifications are still counted. Receivers accept the last
	// notification a few seconds after the end.
	answersFor = 2 * time.Minute
	// maxAnswered is the maximum number of ended episodes whose notifications are still counted.
	maxAnswered = 1000
	// Episodes may use the part 1/historyShare of the file. The rest has room for records of episodes that the history
	// has dropped.
	historyShare = 2
)

// endedHistory is the history of ended episodes, in memory and in a log beside the snapshot.
//
// The history contains each end exactly once, even if the process is killed at any time. The entry for an end is added
// under the checkpoint lock. The snapshot that contains the end also contains the entries that are not in the log yet,
// so the log may be written before or after the snapshot. If the log has an end that the snapshot lacks, the engine
// detects the end again and gives the entry the same identity.
type endedHistory struct {
	*history.History
	file    *state.Log
	max     int64 // maximum size of the file in bytes
	log     zerolog.Logger
	loaded  bool      // whether the file was read; guarded by saver.busy
	retryAt time.Time // earliest time of the next attempt to write the whole file; guarded by saver.busy
	// answering holds the recently ended episodes whose notifications are still counted, oldest first. Only runTicks
	// uses it.
	answering []history.Entry
}

func newPast(cfg config.Storage, log zerolog.Logger) *endedHistory {
	file := int64(cfg.HistoryMiB) << 20
	return &endedHistory{
		History: history.New(history.Config{MaxEntries: cfg.HistoryEntries, MaxBytes: int(file / historyShare), Retention: cfg.HistoryFor, Overhead: state.SizeOf(0)}),
		file:    state.NewLog(cfg.Path, historyFile), max: file, log: log,
	}
}

func (d *Daemon) newPast(receiver concluder) *endedHistory {
	if receiver.aggregatorState().remote {
		return nil
	}
	return newPast(d.opt.Cfg.Storage, d.component("state"))
}

func (p *endedHistory) load() error {
	records, note, err := p.file.Load()
	if err != nil {
		return err
	}
	if note != "" {
		p.log.Warn().Msg("history: " + note)
	}
	if n := p.Load(records); n > 0 {
		p.log.Warn().Int("records", n).Msg("history: some records have an unknown format and are skipped")
	}
	p.loaded = true
	return nil
}

// pendingBatch returns the entries that are not on disk. The caller must hold saver.busy.
func (p *endedHistory) pendingBatch() (history.Batch, error) {
	if p == nil {
		return history.Batch{}, nil
	}
	if !p.loaded { // the folder was in use by another instance when this one started
		if err := p.load(); err != nil {
			return history.Batch{}, fmt.Errorf("save history: %w", err)
		}
	}
	return p.PendingRecords(), nil
}

// markWritten records that a batch is on disk, so that snapshots need not contain it.
func (p *endedHistory) markWritten(b history.Batch) {
	if p != nil {
		p.MarkWritten(b)
	}
}

// write writes the batch or, if necessary, the whole history, and returns what it wrote. The caller must hold
// saver.busy.
func (p *endedHistory) write(b history.Batch, now time.Time) (history.Batch, error) {
	if len(b.Records) == 0 {
		return b, nil
	}
	size := p.file.Size()
	for _, r := range b.Records {
		size += int64(state.SizeOf(len(r)))
	}
	err := state.ErrLogChanged
	if size <= p.max {
		err = p.file.Append(b.Records)
	}
	if errors.Is(err, state.ErrLogChanged) {
		b, err = p.replace(now)
	}
	if err != nil {
		return b, fmt.Errorf("save history: %w", err)
	}
	return b, nil
}

// replace writes the whole history. After a failed attempt it waits for replaceEvery, because more frequent attempts
// would keep a full disk busy.
func (p *endedHistory) replace(now time.Time) (history.Batch, error) {
	if wait := p.retryAt.Sub(now); wait > 0 && wait <= replaceEvery {
		return history.Batch{}, errors.New("the last attempt to write the whole history failed; the next attempt follows within a minute")
	}
	p.retryAt = now.Add(replaceEvery)
	b := p.LiveRecords(now)
	err := p.file.Replace(b.Records)
	if err == nil {
		p.retryAt = time.Time{}
	}
	return b, err
}

// addToHistory adds the episodes that have ended. The caller must hold the checkpoint lock.
func (d *Daemon) addToHistory(eps []episodes.Episode) {
	if d.endedHistory == nil {
		return
	}
	trusted := d.pipe.Rules().Namespaces
	for i := range eps {
		if eps[i].State != episodes.StateResolved {
			continue
		}
		e := newEntry(&eps[i])
		e.Notified, e.Suppressed = d.countNotifications(eps[i].Fingerprint, e.FiredAt), d.suppressions.reason(eps[i].Fingerprint)
		namespace := e.Tenant[strings.LastIndexByte(e.Tenant, '/')+1:]
		e.Infrastructure = namespace == "" || trusted.Has(namespace)
		d.endedHistory.Add(e)
		if !e.Silent {
			d.endedHistory.answering = append(d.endedHistory.answering, e)
		}
	}
	d.endedHistory.answering = d.endedHistory.answering[max(0, len(d.endedHistory.answering)-maxAnswered):]
}

// countAnswers updates the number of accepted notifications of recently ended episodes.
func (d *Daemon) countAnswers(now time.Time) {
	if d.endedHistory == nil || len(d.endedHistory.answering) == 0 {
		return
	}
	d.pipe.withCheckpointLock(func() bool {
		changed := false
		for i := range d.endedHistory.answering {
			e := &d.endedHistory.answering[i]
			if n := d.countNotifications(episodes.Fingerprint(e.Fingerprint), e.FiredAt); n > e.Notified {
				e.Notified, changed = n, true
				d.endedHistory.Add(*e)
			}
		}
		return changed
	})
	d.endedHistory.answering = slices.DeleteFunc(d.endedHistory.answering, func(e history.Entry) bool {
		age := now.Sub(e.ConcludedAt)
		return age > answersFor || age < -answersFor
	})
}

func newEntry(x *episodes.Episode) history.Entry {
	e := history.Entry{
		Fingerprint: uint64(x.Fingerprint), Alert: x.Alert, Reason: string(x.Reason), Silent: x.Silent, Overflow: x.Overflow,
		Labels: x.Labels, Summary: x.Annotations["summary"], StartsAt: x.StartsAt.UTC(), FiredAt: x.FiredAt.UTC(), LastSeen: x.LastSeen.UTC(),
		EndsAt: x.EndsAt.UTC(), ConcludedAt: x.ConcludedAt.UTC(), Lines: x.Count, Tenant: x.Tenant,
	}
	if x.FiredAt.IsZero() {
		e.FiredAt = e.StartsAt
	}
	if x.Rule != nil {
		e.Pack = x.Rule.Pack
	} else if e.Tenant == "" { // an alert about crowsnest itself, which may concern a single tenant
		e.Tenant = x.Labels["namespace"]
	}
	if c := x.Cause; c != nil {
		e.Cause = &history.Cause{Fingerprint: uint64(c.Fingerprint), Alert: c.Alert, Severity: c.Severity, Labels: c.Labels, StartsAt: c.StartsAt.UTC()}
	}
	return e
}
