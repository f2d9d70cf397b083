package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// If an agent gets a rule later than the aggregator, the agent has read lines without matching them against the rule.
// The agent reads these lines again before it reports the rule as active. Until then the aggregator concludes nothing
// from the absence of the agent's lines.

const (
	maxReread = 64 << 20
	// rereadMargin is added before the time at which the aggregator got a rule. The agent reads lines again from the
	// resulting time on.
	rereadMargin = 15 * time.Second
	rereadBlock  = 256 << 10
)

// readAgain matches older lines against rules that the aggregator got before this agent. before returns the digests of
// the rules that were active before the last reload.
func (d *Daemon) readAgain(before func() map[string]string) {
	ahead := d.pipe.concluder.mismatchedRules()
	if len(ahead) == 0 {
		return
	}
	rs := d.pipe.rules.Load()
	old, now, fresh := before(), rs.Digests(), *rs.Set
	fresh.Rules = nil
	var since time.Time
	for _, r := range rs.Set.Rules {
		from, is := ahead[r.Alert]
		if !is || now[r.Alert] == "" || now[r.Alert] == old[r.Alert] {
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
		d.log.Error().Err(err).Msg("older lines cannot be matched against new rules")
		return
	}
	r := rereader{program: program, since: since.Add(-rereadMargin), ingest: func(found []matcher.Hit) {
		d.pipe.Ingest(func(*rules.Set) []matcher.Hit {
			for i := range found {
				found[i].Time, _ = d.pipe.stamps.OwnTime(found[i].Time, d.now())
			}
			return found
		}, nil)
	}}
	for _, s := range d.sourceStatus() {
		for _, st := range s.Streams {
			if err := r.rereadStream(st); err != nil {
				d.log.Warn().Err(err).Str("path", st.Path).Msg("some older lines were not matched against new rules")
			}
		}
	}
	d.log.Info().Int("rules", len(fresh.Rules)).Time("since", r.since).Int64("bytes", r.bytes).Int("hits", r.hits).Msg("matched older lines against rules that the aggregator loaded before this agent")
}

type rereader struct {
	program *matcher.Program
	since   time.Time
	ingest  func([]matcher.Hit)
	bytes   int64
	hits    int
}

// rereadStream reads a stream again up to its position, including its rotated files. Reading a line twice has no
// effect, because both hits have the same fingerprint.
func (r *rereader) rereadStream(st sources.StreamStatus) error {
	if st.Path == "" {
		return nil
	}
	info, err := os.Lstat(st.Path)
	if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(r.since) {
		return nil //nolint:nilerr // nothing was written, or the pod was deleted
	}
	var errs []error
	rotated, _ := filepath.Glob(st.Path + ".*") // the only error is an invalid pattern, which cannot occur
	for _, path := range rotated {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(path, ".gz") && !info.ModTime().Before(r.since) {
			errs = append(errs, r.rereadFile(path, info.Size(), st.Labels))
		}
	}
	return errors.Join(append(errs, r.rereadFile(st.Path, st.Offset, st.Labels))...)
}

var errTooOld = errors.New("there are more than 64 MiB of older lines")

func (r *rereader) rereadFile(path string, end int64, labels matcher.Labels) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	from := max(0, end-maxReread)
	s := matcher.NewStream(labels, matcher.StreamOptions{Join: matcher.JoinStream})
	s.SetOffset(from)
	in := io.NewSectionReader(f, from, end-from)
	block, kept := make([]byte, rereadBlock), 0
	for {
		n, err := in.Read(block[kept:])
		r.bytes += int64(n)
		whole := bytes.LastIndexByte(block[:kept+n], '\n') + 1
		r.ingestRecent(r.program.Scan(s, block[:whole], time.Now()))
		if kept = copy(block, block[whole:kept+n]); kept == len(block) {
			kept = 0 // the last line is incomplete
		}
		switch {
		case errors.Is(err, io.EOF):
			r.ingestRecent(r.program.Flush(s, time.Now()))
			if from > 0 {
				return errTooOld
			}
			return nil
		case err != nil:
			return err
		}
	}
}

func (r *rereader) ingestRecent(found []matcher.Hit) {
	found = slices.DeleteFunc(found, func(h matcher.Hit) bool { return h.Time.Before(r.since) })
	if len(found) > 0 {
		r.ingest(found)
		r.hits += len(found)
	}
}
