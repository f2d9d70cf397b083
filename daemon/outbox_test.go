package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
)

// Conclusions leave in order, when the standby has them or after a while.
func TestOutbox(t *testing.T) {
	var sent []string
	urgent := 0
	o := &outbox{urgent: func() { urgent++ }, send: func(eps []episodes.Episode) { sent = append(sent, eps[0].Alert) }}
	now := time.Now()
	fire := func(name string, age time.Duration) {
		o.add([]episodes.Episode{{Alert: name, State: episodes.StateFiring, FiredAt: now.Add(-age)}}, now)
	}
	fire("A", 0)
	require.Equal(t, 1, urgent)
	fire("B", time.Minute)
	require.Equal(t, 1, urgent, "a changed text is not urgent")
	upTo := o.newest()
	o.add([]episodes.Episode{{Alert: "C", State: episodes.StateResolved}}, now)
	require.Equal(t, 2, urgent)
	o.overdue(now.Add(-time.Second)) // the tick began before
	require.Empty(t, sent)
	o.release(upTo)
	require.Equal(t, []string{"A", "B"}, sent)
	o.overdue(now.Add(heldAtMost - time.Millisecond))
	require.Len(t, sent, 2)
	o.overdue(now.Add(heldAtMost))
	require.Equal(t, []string{"A", "B", "C"}, sent)
	var none *outbox
	none.release(none.newest())
	none.overdue(now)
}
