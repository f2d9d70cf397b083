package inputs

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

const lease = "E1122 10:00:00.000000       1 leaderelection.go:308] Failed to renew lease kube-system/x\n"

func tarOf(t *testing.T, format tar.Format) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "logs/x.log", Mode: 0o644, Size: int64(len(lease)), Format: format}))
	_, err := w.Write([]byte(lease))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func zipOf(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.Create("x.log")
	require.NoError(t, err)
	_, err = f.Write([]byte(lease))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func gzipOf(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func utf16Of(text string, big bool) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(text)) {
		if big {
			b.Write([]byte{byte(u >> 8), byte(u)})
		} else {
			b.Write([]byte{byte(u), byte(u >> 8)})
		}
	}
	return b.String()
}

func randomBytes(n int) string {
	b := make([]byte, n)
	rand.New(rand.NewSource(1)).Read(b)
	return string(b)
}

// Input that is not lines of text is an error, whatever its name.
func TestKinds(t *testing.T) {
	v7 := []byte(tarOf(t, tar.FormatUSTAR))
	copy(v7[257:265], make([]byte, 8)) // without its magic
	sum := 8 * int(' ')
	for i, b := range v7[:512] {
		if i < 148 || i >= 156 {
			sum += int(b)
		}
	}
	copy(v7[148:156], []byte(strings.Repeat("0", 6-len(octal(sum)))+octal(sum)+"\x00 "))
	bad := map[string]string{
		"an archive or packed":     zipOf(t),
		"an archive or packed ":    tarOf(t, tar.FormatPAX),
		"an archive or packed  ":   string(v7),
		"archive or packed":        gzipOf(t, tarOf(t, tar.FormatGNU)),
		"archive or packed ":       gzipOf(t, gzipOf(t, lease)),
		"archive or packed  ":      gzipOf(t, zipOf(t)),
		"not text, not log lines":  "070707" + strings.Repeat("0", 70) + "x.log\x00" + lease,
		"archive or packed,":       "\xfd7zXZ\x00\x00\x04" + randomBytes(100),
		"or packed, not log lines": "\x28\xb5\x2f\xfd\x24" + randomBytes(100),
		"packed, not log lines":    "BZh91AY&SY" + randomBytes(100),
		"is not text":              "7z\xbc\xaf\x27\x1c\x00\x04" + randomBytes(100),
		"is not text ":             "SQLite format 3\x00" + randomBytes(100),
		"is not text,":             "Salted__" + randomBytes(200),
		"not text":                 randomBytes(1000),
		"not text ":                lease[:20] + "\x00\x01\x02" + randomBytes(100),
	}
	for want, text := range bad {
		want = strings.TrimSpace(want)
		for _, name := range []string{"/x.log", "/x.bin"} {
			dir := t.TempDir()
			path := write(t, dir+name, text)
			write(t, dir+"/good.log", lease)

			in, account, err := Collect([]string{dir}, Options{})
			require.ErrorContains(t, err, want, "%q", text[:min(len(text), 20)])
			require.ErrorContains(t, err, path)
			require.Empty(t, account.Skipped())
			require.Len(t, in, 1, "what can be read is read")

			in, _, err = Collect([]string{path}, Options{})
			require.NoError(t, err)
			_, err = in[0].Open()
			require.ErrorContains(t, err, want, "%q", text[:min(len(text), 20)])
		}
	}
	for _, text := range []string{"pack: {name: p, version: 0.1.0}\nrules:\n", "# mine\n\npack:\n  name: p\nrules:\n"} {
		in, account, err := Collect([]string{write(t, t.TempDir()+"/p.yaml", text)}, Options{})
		require.NoError(t, err)
		require.Empty(t, account.Skipped())
		_, err = in[0].Open()
		require.ErrorContains(t, err, "is a pack of rules, not log lines; pass it with --rules")
	}
	for _, text := range []string{
		lease, "pack: started\n", gzipOf(t, lease), "", "\n", "x", "BZhang started\n", "MZ: one\n", "RIFF raff\n", "070701 days\n", "LZIP of lines\n",
		strings.Repeat("\x00", 600) + lease, "\x1b[31mERROR\x1b[0m\n", "Gr\xfc\xdfe aus M\xfcnchen, sch\xf6n\n", strings.Repeat("日本語のログ\n", 80),
		"\xef\xbb\xbf" + lease, "\xff\xfe" + utf16Of(lease, false), "\xfe\xff" + utf16Of(lease, true), utf16Of(lease, false), lease + strings.Repeat("\x00", 4096) + lease, "PK is not magic\n", "BM is no picture\n", "ID3 is no song\n",
	} {
		in, _, err := Collect([]string{write(t, t.TempDir()+"/x", text)}, Options{})
		require.NoError(t, err)
		rc, err := in[0].Open()
		require.NoError(t, err, "%q", text)
		require.NoError(t, rc.Close())
	}
}

// A JSON document is not a log: bundles contain many, but alone it is an error.
func TestDocuments(t *testing.T) {
	f := func(text string, document bool) {
		t.Helper()
		path := write(t, t.TempDir()+"/x.json", text)
		in, _, err := Collect([]string{path}, Options{})
		if !document {
			require.NoError(t, err)
			rc, err := in[0].Open()
			require.NoError(t, err)
			require.NoError(t, rc.Close())
			return
		}
		require.ErrorContains(t, err, "is a JSON document in which no field has lines of a log, not log lines; export the lines as they were logged")
		in, account, err := Collect([]string{filepath.Dir(path), write(t, t.TempDir()+"/good.log", lease)}, Options{})
		require.NoError(t, err)
		require.Len(t, in, 1)
		require.Len(t, account.Skipped(), 1)
	}
	f(`[{"line": "x"}]`, false)
	f(`[{"name": "x"}]`, true)
	f("[\n  {\n", true)
	f("{\r\n  \"items\": [\n", true)
	f(`{"status":"success","data":{"resultType":"streams","result":[]}}`, true)
	f(`{"events": [{"message": "x", "timestamp": 1763632800000}]}`, false)
	f(`{"level":"error","msg":"x"}`+"\n", false)
	f("{\n", false)
	f("[1] starting\n", false)
	f("[2026-01-01T00:00:00Z] x\n", false)
}

func octal(n int) string {
	var out string
	for ; n > 0; n /= 8 {
		out = string(rune('0'+n%8)) + out
	}
	return out
}

func TestFolderThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.log", lease)
	write(t, dir+"/picture.png", "\x89PNG\r\n\x1a\n"+randomBytes(100))
	require.NoError(t, os.Mkdir(dir+"/empty", 0o755))
	in, account, err := Collect([]string{dir}, Options{})
	require.NoError(t, err)
	require.Len(t, in, 1)
	require.Len(t, account.Skipped(), 1)

	_, _, err = Collect([]string{dir + "/empty"}, Options{})
	require.ErrorContains(t, err, dir+"/empty: no logs found")

	for i := range 30 {
		write(t, dir+"/zips/"+octal(i+8)+".zip", zipOf(t))
	}
	_, _, err = Collect([]string{dir}, Options{})
	require.ErrorContains(t, err, "10 more inputs cannot be read")

	if os.Geteuid() != 0 { // root may read everything
		require.NoError(t, os.Mkdir(dir+"/closed", 0))
		_, _, err = Collect([]string{dir}, Options{})
		require.ErrorContains(t, err, "read "+dir+"/closed: permission denied")
	}
}
