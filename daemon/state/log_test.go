package state

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// records returns n records whose lengths differ.
func records(from, n int) (out [][]byte) {
	for i := range n {
		out = append(out, fmt.Appendf(nil, "record %d %s", from+i, bytes.Repeat([]byte{'x'}, 7*i)))
	}
	return out
}

// requireLog requires the content of the log in dir as another process loads it.
func requireLog(t *testing.T, dir string, want [][]byte) *Log {
	t.Helper()
	l := NewLog(dir, "log")
	got, note, err := l.Load()
	require.NoError(t, err)
	require.Empty(t, note)
	require.Equal(t, fmt.Sprintf("%q", want), fmt.Sprintf("%q", got))
	return l
}

func TestLogGrows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on", "append")
	all := [][]byte(nil)
	l := requireLog(t, dir, all)
	for i := range 4 {
		more := records(10*i, i)
		require.NoError(t, l.Append(more))
		all = append(all, more...)
		l = requireLog(t, dir, all)
	}
	want := len(logHeader)
	for _, r := range all {
		want += SizeOf(len(r))
	}
	require.EqualValues(t, want, l.Size())
	require.NoError(t, l.Replace(all[:2]))
	require.NoError(t, l.Append(all[4:]))
	requireLog(t, dir, append(all[:2:2], all[4:]...))
	require.NoFileExists(t, filepath.Join(dir, "log.tmp"))
}

// A kill at any point of an Append leaves the records before it, and nothing else of it
// than whole records in their order. The next Append adds to them.
func TestLogSurvivesAKillAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	for _, before := range []int{0, 3} {
		require.NoError(t, os.RemoveAll(path))
		l := requireLog(t, dir, nil)
		old, more, next := records(0, before), records(10, 3), records(20, 2)
		if before > 0 {
			require.NoError(t, l.Append(old))
		}
		from := l.Size()
		require.NoError(t, l.Append(more))
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for n := from; n <= int64(len(whole)); n++ {
			require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
			l := NewLog(dir, "log")
			got, note, err := l.Load()
			require.NoError(t, err)
			require.Empty(t, note, "a kill is no damage")
			require.GreaterOrEqual(t, len(got), before, "at byte %d", n)
			all := append(old[:before:before], more...)
			require.Equal(t, all[:len(got)], append([][]byte{}, got...), "at byte %d", n)
			require.NoError(t, l.Append(next))
			requireLog(t, dir, append(all[:len(got):len(got)], next...))
		}
	}
}

// Damage costs the damaged records only. The damaged file is kept until the next damage.
func TestLogLosesDamagedRecordsOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	l := requireLog(t, dir, nil)
	all := records(0, 5)
	require.NoError(t, l.Append(all))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := len(logHeader); at < len(whole); at++ {
		broken := bytes.Clone(whole)
		broken[at] ^= 0x15
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		l := NewLog(dir, "log")
		got, note, err := l.Load()
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(got), 3, "a damaged line break costs two records")
		for _, r := range got {
			require.Contains(t, fmt.Sprintf("%q", all), fmt.Sprintf("%q", r))
		}
		if at == len(whole)-1 {
			require.Empty(t, note, "it looks like an interrupted write")
			continue
		}
		require.Contains(t, note, "were damaged and are skipped")
		kept, err := os.ReadFile(path + ".bad")
		require.NoError(t, err)
		require.Equal(t, broken, kept)
		require.ErrorIs(t, l.Append(records(9, 1)), ErrLogChanged)
		require.NoError(t, l.Replace(got))
		require.NoError(t, l.Append(records(9, 1)))
		requireLog(t, dir, append(got, records(9, 1)...))
	}
}

// A file that this program did not write is set aside, and a new one begins.
func TestLogOfAnotherForm(t *testing.T) {
	f := func(make func(path string)) {
		t.Helper()
		dir := t.TempDir()
		path := filepath.Join(dir, "log")
		make(path)
		l := NewLog(dir, "log")
		got, note, err := l.Load()
		require.NoError(t, err)
		require.Empty(t, got)
		require.Contains(t, note, "was renamed to "+path+".bad-1")
		require.NoError(t, l.Append(records(0, 1)))
		requireLog(t, dir, records(0, 1))
	}
	f(func(path string) { require.NoError(t, os.WriteFile(path, []byte("crowsnest-log 2\nx\n"), 0o600)) })
	f(func(path string) { require.NoError(t, os.WriteFile(path, []byte("\n"), 0o600)) })
	f(func(path string) { require.NoError(t, os.Mkdir(path, 0o700)) })
	f(func(path string) { require.NoError(t, unix.Mkfifo(path, 0o600)) })
}

// A log that was removed, shortened or not loaded is not added to: the caller replaces it.
func TestLogThatChanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	require.ErrorIs(t, NewLog(dir, "log").Append(records(0, 1)), ErrLogChanged, "it was not loaded")
	for _, change := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.Truncate(path, 5) },
		func() error { return os.RemoveAll(dir) },
	} {
		l := requireLog(t, dir, nil)
		require.NoError(t, l.Append(records(0, 2)))
		require.NoError(t, change())
		require.ErrorIs(t, l.Append(records(2, 1)), ErrLogChanged)
		require.NoError(t, l.Replace(records(0, 3)))
		requireLog(t, dir, records(0, 3))
		require.NoError(t, os.Remove(path))
	}
}

// Load accepts any content and returns only records with their checksum.
func FuzzLogLoad(f *testing.F) {
	f.Add([]byte(logHeader))
	f.Add(appendRecords([]byte(logHeader), records(0, 3)))
	f.Add(appendRecords([]byte(logHeader+"\n\n"), records(0, 1))[:40])
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), content, 0o600))
		l := NewLog(dir, "log")
		got, _, err := l.Load()
		require.NoError(t, err)
		for _, r := range got {
			require.Contains(t, string(content), checksum(r)+" "+string(r)+"\n")
		}
		if l.Append(records(0, 1)) != nil {
			require.NoError(t, l.Replace(append(got, records(0, 1)...)))
		}
		requireLog(t, dir, append(got, records(0, 1)...))
	})
}
