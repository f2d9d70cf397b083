package inputs

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, err := zw.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, zw.Close())
	return b.String()
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/app.log", "one\n")
	write(t, dir+"/a/b/old.log.gz", packed(t, "two\n"))
	write(t, dir+"/a/b/named-wrong.log", packed(t, "three\n"))
	write(t, dir+"/a/image.bin", "\x7fELF\x00\x00")
	write(t, dir+"/a/hole.log", "\x00\x00\x00\x00four\n")
	require.NoError(t, os.Symlink(dir+"/a/app.log", dir+"/a/link.log"))
	require.NoError(t, os.Symlink(dir+"/nowhere", dir+"/a/dangling.log"))
	f := func(args []string, want ...string) {
		t.Helper()
		in, _, err := Collect(args, Options{Stdin: strings.NewReader("from stdin\n"), Labels: matcher.Labels{"x": "y"}})
		require.NoError(t, err)
		var got []string
		for _, i := range in {
			rc, err := i.Open()
			require.NoError(t, err)
			text, err := io.ReadAll(rc)
			require.NoError(t, err)
			require.NoError(t, rc.Close())
			require.Equal(t, "y", i.StreamLabels()["x"])
			got = append(got, strings.Trim(string(text), "\x00\n"))
		}
		require.Equal(t, want, got)
	}
	f([]string{dir + "/a/app.log"}, "one")
	f([]string{dir + "/a/b/old.log.gz"}, "two")
	f([]string{"-"}, "from stdin")
	f([]string{dir}, "one", "three", "two", "four")
	f([]string{dir + "/a/app.log", dir + "/a/link.log", dir + "/a/app.log"}, "one")

	_, account, err := Collect([]string{dir}, Options{})
	require.NoError(t, err)
	require.Len(t, account.Skipped(), 2)

	_, _, err = Collect([]string{dir + "/none", dir + "/a/app.log", dir + "/none2"}, Options{})
	require.ErrorContains(t, err, "open "+dir+"/none: no such file or directory")
	require.ErrorContains(t, err, "none2")
}

func TestPathLabels(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir+"/pod/0.log", "x\n")
	in, _, err := Collect([]string{path}, Options{
		Labels: matcher.Labels{"namespace": "stated"},
		PathLabels: func(p string) (matcher.Labels, bool) {
			return matcher.Labels{"namespace": "path", "pod": filepath.Base(filepath.Dir(p))}, true
		},
	})
	require.NoError(t, err)
	require.Equal(t, matcher.Labels{"namespace": "stated", "pod": "pod"}, in[0].StreamLabels())
}

func TestBrokenGzip(t *testing.T) {
	path := write(t, t.TempDir()+"/x.gz", "\x1f\x8bnot really")
	in, _, err := Collect([]string{path}, Options{})
	require.NoError(t, err)
	_, err = in[0].Open()
	require.ErrorContains(t, err, "gzip")
}

// Comparisons must read the same lines each time: a growing file up to its
// first size, and a copy of what can be read only once.
func TestCollectToReadTwice(t *testing.T) {
	dir := t.TempDir()
	growing := write(t, dir+"/growing.log", "one\n")
	in, _, err := Collect([]string{growing, Stdin}, Options{Stdin: strings.NewReader(packed(t, "two\n")), Unpack: t.TempDir()})
	require.NoError(t, err)
	require.Len(t, in, 2)
	for range 2 {
		write(t, growing, "one\nand more\n")
		for i, want := range []string{"one\n", "two\n"} {
			rc, err := in[i].Open()
			require.NoError(t, err)
			text, err := io.ReadAll(rc)
			require.NoError(t, err)
			require.NoError(t, rc.Close())
			require.Equal(t, want, string(text))
		}
	}
}

// The logs in an archive have the names and labels that they have in a folder.
func TestCollectArchives(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range map[string]string{
		"bundle/logs/capi-system/capi-1/manager.log":      "one\n",
		"bundle/logs/capi-system/capi-1/manager.log.1.gz": packed(t, "two\n"),
		"bundle/picture.png":                              "\x89PNG\r\n\x1a\n",
	} {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = io.WriteString(f, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	write(t, dir+"/in/bundle.zip", b.String())
	for _, arg := range []string{dir + "/in/bundle.zip", dir + "/in"} {
		in, account, err := Collect([]string{arg}, Options{Unpack: t.TempDir(), PathLabels: func(string) (matcher.Labels, bool) { return nil, false }})
		require.NoError(t, err)
		require.Len(t, in, 2)
		name := dir + "/in/bundle.zip/bundle/logs/capi-system/capi-1/manager.log"
		require.Equal(t, name, in[0].Name)
		require.Equal(t, matcher.Labels{"namespace": "capi-system", "pod": "capi-1", "container": "manager", "filename": name}, in[0].StreamLabels())
		require.Equal(t, []SkippedFiles{{"is a program, a picture or a document, not a log", []string{dir + "/in/bundle.zip/bundle/picture.png"}}}, account.Skipped())
	}
	in, _, err := Collect([]string{Stdin}, Options{Unpack: t.TempDir(), Stdin: &b})
	require.NoError(t, err)
	require.Len(t, in, 2)
	require.Equal(t, "stdin/bundle/logs/capi-system/capi-1/manager.log", in[0].Name)
}

func TestArchiveWithoutLogs(t *testing.T) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("picture.png")
	require.NoError(t, err)
	_, err = io.WriteString(f, "\x89PNG\r\n\x1a\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := write(t, t.TempDir()+"/b.zip", b.String())
	_, _, err = Collect([]string{path}, Options{Unpack: t.TempDir()})
	require.EqualError(t, err, path+": no logs found; it has 1 file")
	path = write(t, t.TempDir()+"/b.zip", b.String()[:20])
	_, _, err = Collect([]string{path}, Options{Unpack: t.TempDir()})
	require.ErrorContains(t, err, "unpack "+path+": its table of contents is missing or damaged")
}

// Times without a year are not later than the file, and near lines that state theirs.
func TestYears(t *testing.T) {
	now := time.Now()
	day := func(text string) time.Time {
		d, err := time.Parse(time.DateOnly, text)
		require.NoError(t, err)
		return d
	}
	const klog = "E1218 10:01:08.220145   70112 leaderelection.go:307] Failed to release lock\n"
	const newYear = klog + "E0102 10:01:08.220145   70112 leaderelection.go:307] Failed to release lock\n"
	const logrus = `time="2020-12-18T09:20:31.402Z" level=info msg="Deleting TTL expired workflow"` + "\n"
	recent, _ := matcher.TimeOf([]byte(klog), now)
	newest, _ := matcher.TimeOf([]byte(newYear[len(klog):]), now)
	for name, tt := range map[string]struct {
		text     string
		modified time.Time
		want     []int // years of the lines
	}{
		"copied today":             {klog, now, []int{recent.Year()}},
		"a clock that is ahead":    {klog, now.AddDate(2, 0, 0), []int{recent.Year()}},
		"packed without times":     {klog, time.Unix(0, 0), []int{recent.Year()}},
		"by the file":              {klog, day("2022-12-19"), []int{2022}},
		"file of another zone":     {klog, day("2022-12-18"), []int{2022}},
		"New Year, by the file":    {newYear, day("2022-01-03"), []int{2021, 2022}},
		"New Year, copied today":   {newYear, now, []int{recent.Year(), newest.Year()}},
		"a neighbour":              {logrus + newYear, now, []int{2020, 2020, 2021}},
		"a neighbour behind":       {klog + logrus, now, []int{2020, 2020}},
		"the file is older":        {logrus + newYear, day("2020-12-19"), []int{2020, 2020, 2020}},
		"a neighbour in a wrapper": {"controller | " + logrus + "controller | " + klog, now, []int{2020, 2020}},
		"columns without a year":   {"api | Dec 18 10:01:08 started\napi | " + logrus, now, []int{2020, 2020}},
		"a clock that was not set": {strings.Replace(logrus, "2020", "1970", 1) + klog, now, []int{1970, recent.Year()}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, dir+"/app.log", tt.text)
			require.NoError(t, os.Chtimes(path, tt.modified, tt.modified))
			write(t, dir+"/other.log", klog)
			in, _, err := Collect([]string{dir}, Options{})
			require.NoError(t, err)
			require.Len(t, in, 2)
			f := func(i int, want []int) {
				t.Helper()
				rc, err := in[i].Open()
				require.NoError(t, err)
				text, err := io.ReadAll(rc)
				require.NoError(t, errors.Join(err, rc.Close()))
				var got []int
				for line := range bytes.Lines(text) {
					at, ok := matcher.TimeOf(line, in[i].Latest(now))
					require.True(t, ok, "%s", line)
					got = append(got, at.Year())
				}
				require.Equal(t, want, got)
			}
			f(0, tt.want)
			f(1, []int{recent.Year()})
		})
	}
	in, _, err := Collect([]string{Stdin}, Options{Stdin: strings.NewReader(logrus + klog), Unpack: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, 2021, in[0].Until.Year())
}
