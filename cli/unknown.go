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

// shortLog is the time that a log must cover so that complaints in it can be judged by how long
// they last.
const shortLog = 10 * time.Minute

// recorded returns the complaints that s collected and that no alert of a rule reports; s may be
// nil. It accepts less evidence where the log shows little.
func recorded(s *sentinel.Sentinel, r replay.Report) []sentinel.Unknown {
	if s == nil {
		return []sentinel.Unknown{}
	}
	var reported []episodes.Episode
	for i := range r.Alerts {
		reported = append(reported, r.Alerts[i].Episode)
	}
	s.Explain(reported)
	least := sentinel.Persistent
	switch {
	case r.Covered.Length() < shortLog:
		least = sentinel.Single
	case len(r.Alerts) == 0:
		least = sentinel.Repeated
	}
	return s.Recorded(maxUnknown, least)
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
