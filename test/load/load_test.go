package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Every line is counted, regardless of the time it takes.
func TestLoad(t *testing.T) {
	o := options{
		dir: t.TempDir(), rules: "20", log: "cri:2MB", warm: 200 * time.Millisecond,
		lines: 2000, span: 1500 * time.Millisecond, every: 500 * time.Millisecond, probe: 50 * time.Millisecond,
	}
	require.NoError(t, o.complete())
	one, err := backlog(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, one.lines)
	require.Positive(t, one.cpu)
	require.Positive(t, one.hwm)
	require.NotEmpty(t, one.String())

	o.files = 20
	o.reload, err = rulesFor(o.dir, "30")
	require.NoError(t, err)
	many, err := atRate(t.Context(), o)
	require.NoError(t, err)
	require.Positive(t, many.lines)
	require.Positive(t, many.bytes)
	require.NotEmpty(t, many.reloads)
	require.Zero(t, many.missing)
	require.NotEmpty(t, many.latency)
	require.NotEmpty(t, many.String())
}
