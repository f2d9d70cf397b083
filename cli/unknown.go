package cli

import (
	"time"

	"crowsnest/episodes"
	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sentinel"
)

// maxUnknown bounds the failures without a rule that a command lists.
const maxUnknown = 5

// recorded returns what was collected and what no alert of a rule reports; s may be nil. With
// lax it contains complaints that only repeat.
func recorded(s *sentinel.Sentinel, alerts []replay.Alert, lax bool) []sentinel.Unknown {
	if s == nil {
		return []sentinel.Unknown{}
	}
	var reported []episodes.Episode
	for i := range alerts {
		reported = append(reported, alerts[i].Episode)
	}
	s.Explain(reported)
	return s.Recorded(maxUnknown, lax)
}

// unknownIn makes a scan collect complaints that no rule matches.
func unknownIn(opt *replay.ScanOptions, red *redact.Redactor) *sentinel.Sentinel {
	s := sentinel.New(sentinel.Config{Redactor: red, Identity: append([]string{replay.FileLabel}, rules.DefaultIdentity...), Unlabelled: true})
	opt.OnComplaints = func(stream *matcher.Stream, lines []matcher.Complaint) {
		last := lines[0].Time
		for i := range lines {
			if lines[i].Time.After(last) {
				last = lines[i].Time
			}
		}
		s.Take(stream, lines, last.Add(time.Second))
	}
	return s
}
