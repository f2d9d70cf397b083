package replay

import (
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Target is a set of rules to run over recorded lines.
type Target struct {
	Set     *rules.Set
	Program *matcher.Program
}

// Records calls yield with recorded lines, one by one in order of time, and returns
// the first error: its own or that of yield. It passes the records of one stream with
// the same Stream.
type Records func(yield func(s *matcher.Stream, rec matcher.Record) error) error

// ScanRecords runs several sets of rules over recorded lines with the production
// engine, reading the lines once. If reading fails, it returns the error and the
// reports of the lines read before.
func ScanRecords(targets []Target, read Records, opt ScanOptions) ([]Report, error) {
	type stream struct {
		lines, bytes int64
		of           []*matcher.Stream // stream of each target
	}
	scanners := make([]*scanner, len(targets))
	for i, t := range targets {
		scanners[i] = newScanner(t, opt, opt.Reads)
	}
	streams := map[*matcher.Stream]*stream{}
	err := read(func(s *matcher.Stream, rec matcher.Record) error {
		st := streams[s]
		if st == nil {
			// A stream belongs to one program.
			st = &stream{}
			for range targets {
				st.of = append(st.of, matcher.NewStream(s.Labels(), matcher.StreamOptions{Format: matcher.FormatText, Lenient: opt.Lenient}))
			}
			streams[s] = st
		}
		st.lines++
		st.bytes += int64(len(rec.Text)) + 1
		for i, t := range targets {
			if scanners[i].first.IsZero() {
				scanners[i].first = rec.Time
			}
			scanners[i].take("", t.Program.Match(st.of[i], rec))
		}
		return nil
	})
	reports := make([]Report, len(targets))
	for i, sc := range scanners {
		sc.report.Inputs = len(streams)
		for _, st := range streams {
			sc.report.Lines += st.lines
			sc.report.Bytes += st.bytes
		}
		sc.finish()
		reports[i] = sc.report
	}
	return reports, err
}
