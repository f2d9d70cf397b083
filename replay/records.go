package replay

import (
	"crowsnest/matcher"
	"crowsnest/rules"
)

// Target is a set of rules that is tried on recorded lines.
type Target struct {
	Set     *rules.Set
	Program *matcher.Program
}

// Records hands recorded lines to give, one by one in order of time, and returns
// the first error: its own or that of give. Records of one stream come with the
// same stream.
type Records func(give func(s *matcher.Stream, rec matcher.Record) error) error

// ScanRecords concludes over recorded lines with the production engine, for
// several sets of rules at once: the lines are read once. Where reading fails,
// the reports are those of the lines that were read, beside the error.
func ScanRecords(targets []Target, read Records, opt ScanOptions) ([]Report, error) {
	type stream struct {
		lines, bytes int64
		of           []*matcher.Stream // by target
	}
	scanners := make([]*scanner, len(targets))
	for i, t := range targets {
		scanners[i] = newScanner(t, opt)
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
			for _, h := range t.Program.Match(st.of[i], rec) {
				scanners[i].take("", h)
			}
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
