package journalfile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of testdata are from systemd 252 and 257; journald_e2e_test.go says how they
// were written.
func TestRealFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.journal.gz")
	require.NoError(t, err)
	require.Len(t, files, 7)
	for _, path := range files {
		image := unzip(t, path)
		printed := unzip(t, strings.TrimSuffix(path, ".journal.gz")+".json.gz")
		n := compare(t, bytes.NewReader(image), bytes.NewReader(printed))
		require.Greater(t, n, 20, path)
	}
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	out, err := io.ReadAll(z)
	require.NoError(t, err)
	return out
}

// compare reads a file and compares each entry with what journalctl printed. It returns
// the number of entries.
func compare(t *testing.T, r io.ReaderAt, printed io.Reader) (n int) {
	t.Helper()
	f, err := Open(r, 8<<20)
	require.NoError(t, err)
	var e Entry
	dec := json.NewDecoder(bufio.NewReaderSize(printed, 1<<20))
	for ; ; n++ {
		var want map[string]any
		err := dec.Decode(&want)
		ours := f.Next(&e)
		if errors.Is(err, io.EOF) {
			require.ErrorIs(t, ours, io.EOF, "there are more than %d entries", n)
			return n
		}
		require.NoError(t, err)
		require.NoError(t, ours, "entry %d", n)
		require.Equal(t, wanted(want), read(t, f, &e), "entry %d", n)
	}
}

// wanted returns the fields that journalctl printed, each value as text.
func wanted(in map[string]any) map[string][]string {
	out := map[string][]string{}
	for name, value := range in {
		if name == "__CURSOR" {
			value, _, _ = strings.Cut(value.(string)[strings.Index(value.(string), ";i=")+3:], ";")
		}
		switch value := value.(type) {
		case []any:
			if _, number := first(value).(float64); number {
				out[name] = []string{text(value)}
				continue
			}
			for _, v := range value {
				out[name] = append(out[name], text(v))
			}
			slices.Sort(out[name])
		default:
			out[name] = []string{text(value)}
		}
	}
	return out
}

func first(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// text returns a value, which is a list of bytes if it is binary.
func text(v any) string {
	bytes, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	var b []byte
	for _, n := range bytes {
		b = append(b, byte(n.(float64)))
	}
	return string(b)
}

func read(t *testing.T, f *File, e *Entry) map[string][]string {
	t.Helper()
	out := map[string][]string{
		"__CURSOR":              {strconv.FormatUint(e.Seq, 16)},
		"__REALTIME_TIMESTAMP":  {strconv.FormatUint(e.Realtime, 10)},
		"__MONOTONIC_TIMESTAMP": {strconv.FormatUint(e.Monotonic, 10)},
		"_BOOT_ID":              {e.Boot.String()},
	}
	for field := range f.Fields(e) {
		require.NoError(t, field.Err)
		require.False(t, field.Cut)
		if name := string(field.Name); name != "_BOOT_ID" {
			out[name] = append(out[name], string(field.Value))
			slices.Sort(out[name])
		}
	}
	return out
}
