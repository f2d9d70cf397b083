package inputs

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		"bundle/picture.png":                              "\x89PNG\r\n",
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
		require.Equal(t, []Skipped{{"is a picture, not a log", []string{dir + "/in/bundle.zip/bundle/picture.png"}}}, account.Skipped())
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
	_, err = io.WriteString(f, "\x89PNG\r\n")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	path := write(t, t.TempDir()+"/b.zip", b.String())
	_, _, err = Collect([]string{path}, Options{Unpack: t.TempDir()})
	require.EqualError(t, err, path+": no logs found; it has 1 file")
	path = write(t, t.TempDir()+"/b.zip", b.String()[:20])
	_, _, err = Collect([]string{path}, Options{Unpack: t.TempDir()})
	require.ErrorContains(t, err, "unpack "+path+": its table of contents is missing or damaged")
}
