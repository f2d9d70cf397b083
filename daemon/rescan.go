package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// An agent that gets a rule after the aggregator has read lines meanwhile without
// looking for it. It reads these lines again, before it reports the rule: until
// then the aggregator concludes nothing from their silence.

const (
	// rescanMost bounds what is read again of one file.
	rescanMost = 64 << 20
	// rescanEarlier is how far before the time of the aggregator lines are taken.
	rescanEarlier = 15 * time.Second
	rescanBlock   = 256 << 10
)

// rescan looks at older lines for the rules that the aggregator has had for longer
// than this agent. before are the digests of the rules that were in force.
func (d *Daemon) rescan(before map[string]string) {
	if d.pipe.up == nil {
		return
	}
	rs := d.pipe.rules.Load()
	now, fresh := rs.finds(), *rs.set
	fresh.Rules = nil
	var since time.Time
	behind := d.pipe.up.Behind()
	for _, r := range rs.set.Rules {
		from, waits := behind[r.Alert]
		if !waits || now[r.Alert] == "" || now[r.Alert] == before[r.Alert] {
			continue
		}
		fresh.Rules = append(fresh.Rules, r)
		if since.IsZero() || from.Before(since) {
			since = from
		}
	}
	if len(fresh.Rules) == 0 {
		return
	}
	program, err := matcher.Compile(&fresh)
	if err != nil {
		d.log.Error().Err(err).Msg("older lines cannot be looked at for new rules")
		return
	}
	r := rescanner{program: program, since: since.Add(-rescanEarlier), take: func(found []matcher.Hit) {
		d.pipe.Ingest(func(*rules.Set) []matcher.Hit { return found }, nil)
	}}
	for _, s := range d.sourceStatus() {
		for _, st := range s.Streams {
			if err := r.stream(st); err != nil {
				d.log.Warn().Err(err).Str("path", st.Path).Msg("older lines were not all looked at for new rules")
			}
		}
	}
	d.log.Info().Int("rules", len(fresh.Rules)).Time("since", r.since).Int64("bytes", r.bytes).Int("hits", r.hits).Msg("looked at older lines for rules that the aggregator had before")
}

// rescanner reads parts of files again.
type rescanner struct {
	program *matcher.Program
	since   time.Time
	take    func([]matcher.Hit)
	bytes   int64
	hits    int
}

// stream reads a stream up to where it is read, with the file that was rotated
// last. What is read twice has the fingerprints that it had.
func (r *rescanner) stream(st sources.StreamStatus) error {
	if st.Path == "" {
		return nil
	}
	info, err := os.Lstat(st.Path)
	if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(r.since) {
		return nil // nothing was written, or the pod is gone
	}
	var errs []error
	rotated, _ := filepath.Glob(st.Path + ".*") // the pattern is valid
	for _, path := range rotated {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(path, ".gz") && !info.ModTime().Before(r.since) {
			errs = append(errs, r.file(path, info.Size(), st.Labels))
		}
	}
	return errors.Join(append(errs, r.file(st.Path, st.Offset, st.Labels))...)
}

// errTooOld says that not all lines were read.
var errTooOld = errors.New("there are more than 64 MiB of them")

// file reads a file up to an offset.
func (r *rescanner) file(path string, to int64, labels matcher.Labels) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	from := max(0, to-rescanMost)
	s := matcher.NewStream(labels, matcher.StreamOptions{})
	s.Place(from)
	in := io.NewSectionReader(f, from, to-from)
	block, kept := make([]byte, rescanBlock), 0
	for {
		n, err := in.Read(block[kept:])
		r.bytes += int64(n)
		whole := wholeLines(block[:kept+n])
		if found := r.recent(r.program.Scan(s, block[:whole], time.Now())); len(found) > 0 {
			r.take(found)
			r.hits += len(found)
		}
		if kept = copy(block, block[whole:kept+n]); kept == len(block) {
			kept = 0 // a line without end
		}
		switch {
		case errors.Is(err, io.EOF):
			if from > 0 {
				return errTooOld
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// wholeLines is the length of the lines that are complete.
func wholeLines(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }

// recent drops the hits of lines that the aggregator does not ask for.
func (r *rescanner) recent(found []matcher.Hit) []matcher.Hit {
	out := found[:0]
	for _, h := range found {
		if !h.Time.Before(r.since) {
			out = append(out, h)
		}
	}
	return out
}
