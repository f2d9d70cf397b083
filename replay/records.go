package replay

import (
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Target is a set of rules that is run over recorded lines.
type Target struct {
	Set     *rules.Set
	Program *matcher.Program
}

// Records calls yield with recorded lines, one by one, in the order of their times. It returns the first error of
// reading or of yield. All records of a stream are passed with the same Stream.
type Records func(yield func(s *matcher.Stream, rec matcher.Record) error) error

// ScanRecords runs the production engine with several sets of rules over recorded lines, which it reads once. After a
// read error it also returns the reports about the lines before the error.
func ScanRecords(targets []Target, read Records, opt ScanOptions) ([]Report, error) {
	type stream struct {
		lines, bytes int64
		of           []*matcher.Stream // one stream for each target
	}
	scanners := make([]*scanner, len(targets))
	for i, t := range targets {
		scanners[i] = newScanner(t, opt, opt.Reads)
	}
	streams := map[*matcher.Stream]*stream{}
	err := read(func(s *matcher.Stream, rec matcher.Record) error {
		st := streams[s]
		if st == nil {
			// Each target needs its own stream.
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
			scanners[i].takeHits("", t.Program.Match(st.of[i], rec))
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
		sc.finishClock()
		reports[i] = sc.report
	}
	return reports, err
}
