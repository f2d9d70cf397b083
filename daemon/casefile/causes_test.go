package casefile

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// failed returns a failure of a place of its own, so that only its cause relates it.
func failed(alert string, began int, cause string) Failure {
	f := Failure{
		Fingerprint: "of " + alert, Alert: alert, State: "firing", Since: time.Date(2026, 1, 2, 3, began, 0, 0, time.UTC),
		Labels: map[string]string{"alertname": alert, "namespace": alert},
	}
	if cause != "" {
		f.Cause = &Cause{Alert: cause, Fingerprint: "of " + cause, Since: f.Since.Add(-time.Minute)}
	}
	return f
}

// caseOf returns a case of failures.
func caseOf(all ...Failure) *Case {
	return &Case{Format: Format, Failures: all, Findings: []Finding{}, Unknown: []Unknown{}, Timeline: []Entry{}, NotSeen: []Gap{}, Evidence: Evidence{Kind: kindRecorded, Names: []string{}, Sources: []Source{}}}
}

// A case about one failure has its causes and its symptoms, over any number of others.
func TestChainOfCauses(t *testing.T) {
	ended := failed("Store", 0, "")
	ended.EndsAt = &ended.Since
	c := caseOf(
		ended, failed("Store", 1, ""), failed("Lease", 2, "Store"), failed("Pods", 3, "Lease"), failed("Webhook", 4, "Store"), failed("Elsewhere", 5, ""), failed("Far", 6, "Unknown"),
	)
	c.Failures[2].Subject = true
	require.Zero(t, c.linkFailures())
	var names []string
	for _, f := range c.Failures {
		names = append(names, f.Alert)
	}
	require.Equal(t, []string{"Store", "Lease", "Pods"}, names)
	require.Nil(t, c.Failures[0].Cause)
	require.Nil(t, c.Failures[0].EndsAt, "the one that was open then")
	require.Equal(t, 1, c.Failures[1].Cause.ID)
	require.Equal(t, 2, c.Failures[2].Cause.ID)
	require.Equal(t, []Chain{{Failures: []int{1, 2, 3}}}, c.Chains)
	page, md, data := written(t, c)
	require.Contains(t, page, `Symptom of <a href="#f1">1. Store</a>, as its rule states`)
	require.Contains(t, md, "symptom of failure 1, Store, as its rule states")
	require.Contains(t, data, `"fingerprint": "of Store"`)
}

// A cause that the file does not have is named.
func TestCauseThatIsNotInTheFile(t *testing.T) {
	c := caseOf(failed("Far", 6, "Unknown"))
	c.Failures[0].Subject = true
	require.Zero(t, c.linkFailures())
	require.Equal(t, "symptom of Unknown, since 2026-01-02 03:05:00Z, as its rule states; that failure is not in this file", c.Failures[0].CauseText())
	page, _, _ := written(t, c)
	require.Contains(t, page, "which is not in this file")
}
