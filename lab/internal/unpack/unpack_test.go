package unpack

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

type file struct{ name, text string }

func tarOf(t *testing.T, files ...file) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, f.text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

func zipOf(t *testing.T, files ...file) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		e, err := w.Create(f.name)
		require.NoError(t, err)
		_, err = io.WriteString(e, f.text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.String()
}

func packed(t *testing.T, text string, pack func(io.Writer) (io.WriteCloser, error)) string {
	t.Helper()
	var b bytes.Buffer
	w, err := pack(&b)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func gz(w io.Writer) (io.WriteCloser, error)  { return gzip.NewWriter(w), nil }
func xzs(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }
func zst(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }

// bzipped is "line\n" packed with bzip2.
const bzipped = "BZh91AY&SY\x5c\x5a\x44\xcd\x00\x00\x01\xc1\x00\x00\x10\x02\x25\x20\x00\x30\xcd\x00\xc1\xa4\x0c\x71\x77\x24\x53\x85\x09\x05\xc5\xa4\x4c\xd0"

func unpackText(t *testing.T, name, text string, limits Limits) (dir string, res Result, err error) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(archive, []byte(text), 0o600))
	dir = t.TempDir()
	res, err = Unpack(archive, dir, limits)
	require.NoError(t, err)
	for _, p := range res.Problems {
		if p.Lost {
			err = errors.Join(err, fmt.Errorf("%s: %s", p.Path, p.Reason))
		}
	}
	return dir, res, err
}

// content returns the files of a folder as "name: text".
func content(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, d.IsDir() || d.Type().IsRegular(), path)
		if !d.IsDir() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(dir, path)
			require.NoError(t, err)
			out = append(out, filepath.ToSlash(name)+": "+strings.TrimSpace(string(b)))
		}
		return nil
	}))
	return out
}

func TestFormats(t *testing.T) {
	logs := []file{{"logs/a/p/c.log", "one\n"}, {"logs/a/p/c.log.1.gz", packed(t, "two\n", gz)}}
	plain := tarOf(t, logs...)
	for name, text := range map[string]string{
		"b.tar": plain, "b.tar.gz": packed(t, plain, gz), "b.tgz": packed(t, plain, gz), "b.tar.xz": packed(t, plain, xzs),
		"b.tar.zst": packed(t, plain, zst), "b.zip": zipOf(t, logs...), "wrong-name.log": packed(t, plain, xzs),
	} {
		dir, res, err := unpackText(t, name, text, DefaultLimits())
		require.NoError(t, err, name)
		require.Equal(t, 2, res.Files, name)
		got := content(t, dir)
		require.Len(t, got, 2, name)
		require.Equal(t, "logs/a/p/c.log: one", got[0], name)
		require.Contains(t, got[1], "logs/a/p/c.log.1.gz: \x1f\x8b", "a packed log stays as it is")
	}
	for name, text := range map[string]string{"x.log.xz": packed(t, "line\n", xzs), "x.log.zst": packed(t, "line\n", zst), "x.log.bz2": bzipped} {
		dir, _, err := unpackText(t, name, text, DefaultLimits())
		require.NoError(t, err, name)
		require.Equal(t, []string{"x.log: line"}, content(t, dir))
	}
}

func TestArchivesInArchives(t *testing.T) {
	node := zipOf(t, file{"var/log/kubelet.log", "node\n"}, file{"old.log.xz", packed(t, "old\n", xzs)})
	dir, res, err := unpackText(t, "bundle.zip", zipOf(t, file{"nodes/n1.zip", node}, file{"pods.tar.gz", packed(t, tarOf(t, file{"p.log", "pod\n"}), gz)}, file{"README", "x"}), DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, 4, res.Files)
	require.Equal(t, []string{"README: x", "nodes/n1.zip/old.log: old", "nodes/n1.zip/var/log/kubelet.log: node", "pods.tar.gz/p.log: pod"}, content(t, dir))
}

func TestNothingLeavesTheFolder(t *testing.T) {
	evil := []file{{"../evil", "x"}, {"a/../../evil", "x"}, {`..\evil`, "x"}, {"/abs/ok.log", "ok"}, {"a/./b.log", "ok"}, {"b.log", "ok"}}
	for name, text := range map[string]string{"b.tar": tarOf(t, evil...), "b.zip": zipOf(t, evil...)} {
		dir, res, err := unpackText(t, name, text, DefaultLimits())
		require.ErrorContains(t, err, "../evil: the name leads out of the archive")
		require.ErrorContains(t, err, `a/../../evil`)
		require.Equal(t, 3, res.Files)
		require.Equal(t, []string{"a/b.log: ok", "abs/ok.log: ok", "b.log: ok"}, content(t, dir), name)
		_, err = os.Stat(filepath.Join(filepath.Dir(dir), "evil"))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

func TestLinksAreNotMade(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "out", Typeflag: tar.TypeSymlink, Linkname: "/etc"}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "dev", Typeflag: tar.TypeChar}))
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "out/passwd", Typeflag: tar.TypeReg, Size: 2}))
	_, err := io.WriteString(w, "ok")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	dir, res, err := unpackText(t, "b.tar", b.String(), DefaultLimits())
	require.NoError(t, err)
	require.Len(t, res.Problems, 3)
	require.Equal(t, Problem{Path: "out", Reason: "a link or a special file"}, res.Problems[0])
	require.True(t, res.Complete())
	require.Equal(t, []string{"out/passwd: ok"}, content(t, dir))
}

// Files have the times that the archive states, also those that are packed in it.
func TestTimesOfFiles(t *testing.T) {
	at := time.Date(2021, 3, 11, 4, 12, 0, 0, time.UTC)
	var tarred, zipped bytes.Buffer
	tw, zw := tar.NewWriter(&tarred), zip.NewWriter(&zipped)
	for name, text := range map[string]string{"a.log": "line", "b.log.bz2": bzipped} {
		require.NoError(t, tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, ModTime: at, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(tw, text)
		require.NoError(t, err)
		w, err := zw.CreateHeader(&zip.FileHeader{Name: name, Modified: at})
		require.NoError(t, err)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(tw.Close(), zw.Close()))
	for _, archive := range []string{tarred.String(), zipped.String()} {
		dir, _, err := unpackText(t, "b", archive, DefaultLimits())
		require.NoError(t, err)
		for _, name := range []string{"a.log", "b.log"} {
			info, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, at, info.ModTime().UTC())
		}
	}
}

func TestEqualNames(t *testing.T) {
	dir, _, err := unpackText(t, "b.tar", tarOf(t, file{"a.log", "1"}, file{"a.log", "2"}, file{"a.log", "3"}), DefaultLimits())
	require.NoError(t, err)
	require.Equal(t, []string{"a.log: 1", "a~2.log: 2", "a~3.log: 3"}, content(t, dir))
	_, _, err = unpackText(t, "b.tar", tarOf(t, file{"a", "1"}, file{"a/b.log", "2"}, file{"c.log", "3"}), DefaultLimits())
	require.ErrorContains(t, err, "a/b.log: ")
}

func TestBombs(t *testing.T) {
	limits := Limits{Bytes: 64 << 20, Ratio: 100, RatioFrom: 1 << 20, Entries: 100, Depth: 3, Names: 1 << 20}
	nothing := string(make([]byte, 32<<20))
	check := func(name, text, want string) {
		t.Helper()
		dir, _, err := unpackText(t, name, text, limits)
		require.ErrorContains(t, err, want)
		var size int64
		for _, f := range content(t, dir) {
			size += int64(len(f))
		}
		require.LessOrEqual(t, size, limits.Bytes+1<<20)
	}
	check("b.tgz", packed(t, tarOf(t, file{"zero.log", nothing}), gz), "more than 100 times its size")
	check("b.zip", zipOf(t, file{"zero.log", nothing}), "more than 100 times its size")
	check("b.log.zst", packed(t, nothing, zst), "more than 100 times its size")
	check("b.zip", zipOf(t, file{"inner.zip", zipOf(t, file{"zero.log", nothing})}), "more than 100 times its size")
	check("b.tar", tarOf(t, file{"1", nothing}, file{"2", nothing}, file{"3", nothing}), "more than 0 GiB")
	many := make([]file, 101)
	for i := range many {
		many[i].name = strings.Repeat("x", i+1)
	}
	check("b.tar", tarOf(t, many...), "more than 100 files")
	check("b.zip", zipOf(t, many...), "more than 100 files")
	deep := zipOf(t, file{"x.log", "x"})
	for range 3 {
		deep = zipOf(t, file{"in.zip", deep})
	}
	check("b.zip", deep, "it is nested in more than 2 archives")
}

// A sparse file claims to be of any size.
func TestSparseBomb(t *testing.T) {
	sparse, err := os.ReadFile("testdata/sparse-10g.tar.gz")
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = unpackText(t, "b.tar.gz", string(sparse), DefaultLimits())
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "times its size")
	require.Less(t, after.Sys-before.Sys, uint64(64<<20))
}

func TestDamaged(t *testing.T) {
	var text string
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		text += string(rune('a' + r.IntN(26)))
	}
	whole := packed(t, tarOf(t, file{"a.log", "first\n"}, file{"b.log", text}, file{"c.log", "last\n"}), gz)
	dir, res, err := unpackText(t, "b.tgz", whole[:len(whole)/2], DefaultLimits())
	require.ErrorContains(t, err, "unexpected EOF")
	require.Equal(t, 2, res.Files)
	require.Contains(t, content(t, dir), "a.log: first")

	_, _, err = unpackText(t, "b.zip", zipOf(t, file{"a.log", text})[:1000], DefaultLimits())
	require.ErrorContains(t, err, "its table of contents is missing or damaged")

	dir, _, err = unpackText(t, "b.zip", zipOf(t, file{"in.tgz", whole[:len(whole)/2]}, file{"z.log", "ok\n"}), DefaultLimits())
	require.ErrorContains(t, err, "in.tgz: ")
	require.Contains(t, content(t, dir), "z.log: ok", "a broken archive does not hide the rest")
}

func TestEncrypted(t *testing.T) {
	text := []byte(zipOf(t, file{"a.log", "x"}, file{"b.log", "ok"}))
	text[6] |= 1                                         // flags in the entry
	text[bytes.Index(text, []byte("PK\x01\x02"))+8] |= 1 // and in the table of contents
	dir, _, err := unpackText(t, "b.zip", string(text), DefaultLimits())
	require.ErrorContains(t, err, "a.log: it is encrypted; unpack it by hand")
	require.Equal(t, []string{"b.log: ok"}, content(t, dir))
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "line\n": false, packed(t, "line\n", gz): false, packed(t, "line\n", xzs): true, bzipped: true, "BZhang started here\n": false,
		zipOf(t): true, tarOf(t, file{"a", "b"}): true, packed(t, tarOf(t, file{"a", "b"}), gz): true, "\x1f\x8bnot really": false,
	} {
		require.Equal(t, want, IsArchive(strings.NewReader(text)), "%.20q", text)
	}
}

func FuzzUnpack(f *testing.F) {
	t := &testing.T{}
	f.Add([]byte(zipOf(t, file{"a.zip", zipOf(t, file{"b", "c"})})))
	f.Add([]byte(packed(t, tarOf(t, file{"a", "b"}, file{"../c", "d"}), gz)))
	f.Add([]byte(packed(t, tarOf(t, file{"a", "b"}), xzs)))
	f.Add([]byte(packed(t, "x", zst)))
	f.Add([]byte(bzipped))
	f.Fuzz(func(t *testing.T, in []byte) {
		limits := Limits{Bytes: 1 << 20, Ratio: 100, RatioFrom: 1 << 18, Entries: 50, Depth: 3, Names: 1 << 20}
		dir, res, _ := unpackText(t, "x", string(in), limits)
		files := content(t, dir)
		require.LessOrEqual(t, len(files), limits.Entries+1)
		require.LessOrEqual(t, len(files), res.Files+1)
	})
}
