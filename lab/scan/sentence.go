package scan

import (
	"fmt"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/replay"
)

// Sentence returns what is known besides the alerts. It returns "" if no line matched a rule
// and no line reports an unknown failure.
func (r *Result) Sentence() string {
	var parts []string
	assumed := 0
	for i := range r.Alerts {
		if r.Alerts[i].Assumes != "" {
			assumed++
		}
	}
	if assumed > 0 {
		parts = append(parts, formatCount(assumed, "alert assumes", "alerts assume")+" that the failure goes on")
	}
	recovered, short, untrusted := 0, 0, 0
	all := 0
	for i := range r.Findings {
		n := 1 + len(r.Findings[i].Others)
		all += n
		switch r.Findings[i].Doubt {
		case replay.Recovered:
			recovered += n
		case replay.TooShort:
			short += n
		case replay.Untrusted:
			untrusted += n
		}
	}
	if n := all - recovered - untrusted; n > 0 {
		part := formatCount(n, "failure is", "failures are") + " described but not certain"
		if short == n {
			part += ", because " + r.Covered.String()
		}
		parts = append(parts, part)
	}
	if recovered > 0 {
		parts = append(parts, text.Plural(int64(recovered), "failure")+" recovered before an alert")
	}
	if untrusted > 0 {
		parts = append(parts, formatCount(untrusted, "failure is", "failures are")+" in namespaces that their rules do not trust")
	} else if len(r.Ignored) > 0 {
		parts = append(parts, "rules match lines of namespaces that they do not trust")
	}
	if len(parts)+len(r.Alerts) == 0 && r.Hits > 0 {
		parts = append(parts, "rules match lines, and these alone show no failure: --hits lists them")
	}
	rare := 0
	for i := range r.Unknown {
		if r.Unknown[i].Why == whyFew {
			rare++
		}
	}
	if n := len(r.Unknown) - rare; n > 0 {
		parts = append(parts, formatCount(n, "problem has", "problems have")+" no rule")
	}
	if rare > 0 {
		parts = append(parts, formatCount(rare, "problem is", "problems are")+" too rare for a rule")
	}
	if n := r.Further; n > 0 {
		parts = append(parts, formatCount(n, "error without a rule is", "errors without a rule are")+" too rare to be listed: `crowsnest discover` lists all")
	}
	return strings.Join(parts, "; ")
}

func formatCount(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// knownSentence returns one sentence about what a person knows after a scan.
func knownSentence(r *Result, notUnderstood bool) string {
	var parts []string
	if n := r.Fired(); n > 0 {
		parts = append(parts, text.Plural(int64(n), "alert"))
	}
	if s := r.Sentence(); s != "" {
		parts = append(parts, strings.ReplaceAll(s, "--hits", "`crowsnest scan --hits`"))
	}
	switch {
	case r.Lines == 0:
		return "There is no line to read: this is no all-clear."
	case notUnderstood:
		parts = append(parts, "no line has a timestamp in a known format, so the log may not be understood: this is no all-clear")
	case len(parts) == 0:
		return fmt.Sprintf("No rule matches in %s, and no line reports a problem: this is no all-clear.", text.Plural(r.Lines, "line"))
	}
	return strings.Join(parts, "; ") + "."
}
