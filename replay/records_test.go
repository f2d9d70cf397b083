package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

// Records have the same results as the same lines in files, for several sets at once.
func TestScanRecords(t *testing.T) {
	set, prog := compile(t, scanPack)
	lines := []string{"leaderelection lost", "conflict on 1", "conflict on 2", "conflict on 3", "successfully acquired"}
	var cris []string
	for i, l := range lines {
		cris = append(cris, cri(10*i, l))
	}
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	in := logOf("x", cris...)
	in.Labels = matcher.Labels{"container": "syncer"}
	want, err := Scan(set, prog, []Input{in}, ScanOptions{Now: now})
	require.NoError(t, err)

	none, noneProg := compile(t, "pack: {name: none, version: 0.1.0}\nrules:\n- {alert: Never, from: '{a=\"b\"}', match: nothing, severity: info}\n")
	stream := matcher.NewStream(in.Labels, matcher.StreamOptions{Format: matcher.FormatText})
	read := func(yield func(*matcher.Stream, matcher.Record) error) error {
		for i, l := range lines {
			at := time.Date(2026, 1, 1, 10, 0, 10*i, 0, time.UTC)
			if err := yield(stream, matcher.Record{Time: at, Text: []byte(l)}); err != nil {
				return err
			}
		}
		return nil
	}
	got, err := ScanRecords([]Target{{set, prog}, {none, noneProg}}, read, ScanOptions{Now: now})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.EqualValues(t, 5, got[0].Lines)
	require.Empty(t, got[1].Alerts)
	require.EqualValues(t, 5, got[1].Lines)
	require.Equal(t, len(want.Alerts), len(got[0].Alerts))
	for i := range want.Alerts {
		require.Equal(t, want.Alerts[i].Episode.Labels, got[0].Alerts[i].Episode.Labels)
		require.Equal(t, want.Alerts[i].FiredAt, got[0].Alerts[i].FiredAt)
	}
	require.Equal(t, want.Rules, got[0].Rules)
	require.Equal(t, 1, got[0].Rules[0].Episodes, "one that was cleared before it fired")
	require.Zero(t, got[0].Rules[0].Notifications)
	require.Equal(t, 2, got[0].Rules[1].Notifications, "a beginning and an end")

	// Silence until the known end decides.
	got, err = ScanRecords([]Target{{set, prog}}, read, ScanOptions{Now: now, UntilEOF: true, End: now})
	require.NoError(t, err)
	require.False(t, got[0].Alerts[0].Episode.EndsAt.IsZero())
	require.Equal(t, now, got[0].End)

	// What was read before a failure counts.
	broken := errors.New("gone")
	got, err = ScanRecords([]Target{{set, prog}}, func(yield func(*matcher.Stream, matcher.Record) error) error {
		return errors.Join(read(yield), broken)
	}, ScanOptions{Now: now})
	require.ErrorIs(t, err, broken)
	require.Len(t, got[0].Alerts, 1)
}
