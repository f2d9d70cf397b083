package episodes

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/rules"
)

// A page asks for all open episodes again and again: their texts are rendered
// when they change, and what a reader holds does not change any more.
func TestTextsAreRenderedWhenTheyChange(t *testing.T) {
	r := rule(func(*rules.Rule) {})
	b := newBench(t, r)
	listed := func() map[string]string {
		all := b.e.Episodes(at(time.Minute))
		require.Len(t, all, 1)
		return all[0].Annotations
	}
	b.take(0, lineHit(r, 0, 0, "one"))
	first := listed()
	require.Equal(t, reflect.ValueOf(first).Pointer(), reflect.ValueOf(listed()).Pointer())

	b.take(time.Second, lineHit(r, 0, time.Second, "two"))
	require.Equal(t, "2", listed()["count"])
	require.Equal(t, "two", listed()["line"])
	require.Equal(t, "1", first["count"])

	edited := rule(func(r *rules.Rule) { r.Remediation.RunbookURL = "https://runbooks.example.org/new" })
	b.e.Swap(&rules.Set{Rules: []*rules.Rule{edited}}, at(time.Minute))
	require.Equal(t, edited.Remediation.RunbookURL, listed()["runbook_url"])
}
