package journal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/journald"
)

// A file may have any number of identifiers: what exceeds the bound is one log.
func TestRecordedBound(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	w.Path = ""
	for i := range maxLogs + 20 {
		require.NoError(t, w.Append(journald.Item{Seq: uint64(i + 1), Realtime: 1, Fields: []string{"MESSAGE=line", fmt.Sprintf("SYSLOG_IDENTIFIER=%d", i)}}, true))
	}
	require.NoError(t, os.WriteFile(l.path("x.journal"), w.Image(), 0o600))
	f, err := os.Open(l.path("x.journal"))
	require.NoError(t, err)
	defer f.Close()
	got, err := ReadRecorded(f)
	require.NoError(t, err)
	require.EqualValues(t, maxLogs+20, got.Entries)
	total := 0
	for _, log := range got.Logs {
		rc := log.Lines(f)
		text, err := io.ReadAll(rc)
		require.NoError(t, err)
		require.NoError(t, rc.Close())
		total += strings.Count(string(text), "\n")
	}
	require.Equal(t, maxLogs+20, total)
	require.Len(t, got.Logs, maxLogs+1)
	rc := got.Logs[0].Lines(f)
	require.NoError(t, rc.Close(), "its goroutine ends")
}
