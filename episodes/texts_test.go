package episodes

import (
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/redact"
	"crowsnest/rules"
)

// Pages request all open episodes often: texts are rendered only when they change, and maps
// that a caller holds do not change.
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

// Texts are made while lines are read, listed and saved: reports are redacted and
// consistent whatever runs concurrently.
func TestTextsAreMadeConcurrentlyWithTake(t *testing.T) {
	r := rule(func(r *rules.Rule) { r.By, r.Clear = []string{"k"}, &rules.ClearOrUnless{} })
	b := newBench(t, r)
	b.e = b.engine(Config{Redactor: redact.New(nil)})
	var wg sync.WaitGroup
	const rounds = 200
	check := func(all []Episode) {
		for _, x := range all {
			require.Equal(t, strconv.FormatInt(x.Count, 10), x.Annotations["count"])
			require.Contains(t, x.Line, "password=<redacted>")
		}
	}
	wg.Go(func() {
		for i := range rounds {
			part := matcher.Part(0)
			if i%10 == 9 {
				part = matcher.PartClear
			}
			d := time.Duration(i) * time.Second
			b.take(d, lineHit(r, part, d, "password=hunter2 of a line", strconv.Itoa(i%3)))
		}
	})
	for _, do := range []func(time.Time){
		func(now time.Time) { check(b.e.Evaluate(now)) },
		func(now time.Time) { check(b.e.Episodes(now)) },
		func(now time.Time) { b.e.ClockSet(time.Millisecond, now) },
		func(time.Time) {
			data, err := b.e.Snapshot()
			require.NoError(t, err)
			require.NotContains(t, string(data), "hunter2")
		},
	} {
		wg.Go(func() {
			for i := range rounds {
				do(at(time.Duration(i) * time.Second))
			}
		})
	}
	wg.Wait()
}
