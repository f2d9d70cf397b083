//go:build e2e

package cli

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"
)

// maxScanMemory is the most that a scan of any archive may use.
const maxScanMemory = 256 << 20

// zeros are n bytes of nothing.
func zeros(n int64) io.Reader { return io.LimitReader(endless{}, n) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// repeated writes a packed stream of zeros often enough for 10 GB: decompressors read streams
// behind each other as one.
func repeated(t *testing.T, open func(io.Writer) (io.WriteCloser, error)) func(io.Writer) {
	t.Helper()
	const part = 64 << 20
	return func(w io.Writer) {
		var one bytes.Buffer
		zw, err := open(&one)
		require.NoError(t, err)
		_, err = io.Copy(zw, zeros(part))
		require.NoError(t, err)
		require.NoError(t, zw.Close())
		for range 10_000_000_000/part + 1 {
			_, err = w.Write(one.Bytes())
			require.NoError(t, err)
		}
	}
}

// bunzipped packs with the program bzip2.
func bunzipped(w io.Writer) (io.WriteCloser, error) {
	cmd := exec.Command("bzip2", "-c")
	cmd.Stdout = w
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return &program{in, cmd}, cmd.Start()
}

type program struct {
	io.WriteCloser
	cmd *exec.Cmd
}

func (p *program) Close() error {
	_ = p.WriteCloser.Close()
	return p.cmd.Wait()
}

// hostile are archives that a stranger may have made, and what is said about each.
func hostile(t *testing.T) map[string]struct {
	make func(w io.Writer)
	says string
} {
	t.Helper()
	tarOf := func(entries func(tw *tar.Writer)) func(io.Writer) {
		return func(w io.Writer) {
			tw := tar.NewWriter(w)
			entries(tw)
			require.NoError(t, tw.Close())
		}
	}
	add := func(tw *tar.Writer, h tar.Header, text string) {
		h.Mode, h.Size = 0o600, int64(len(text))
		require.NoError(t, tw.WriteHeader(&h))
		_, err := io.WriteString(tw, text)
		require.NoError(t, err)
	}
	zipOf := func(entries func(zw *zip.Writer)) func(io.Writer) {
		return func(w io.Writer) {
			zw := zip.NewWriter(w)
			entries(zw)
			require.NoError(t, zw.Close())
		}
	}
	put := func(zw *zip.Writer, name string, from io.Reader) {
		w, err := zw.Create(name)
		require.NoError(t, err)
		_, err = io.Copy(w, from)
		require.NoError(t, err)
	}
	return map[string]struct {
		make func(w io.Writer)
		says string
	}{
		"zeros.log.gz":  {repeated(t, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }), "the input has no text"},
		"zeros.log.zst": {repeated(t, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }), "times its size"},
		"zeros.log.xz":  {repeated(t, func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }), "times its size"},
		"zeros.log.bz2": {repeated(t, bunzipped), "times its size"},
		"zeros.zip":     {zipOf(func(zw *zip.Writer) { put(zw, "a.log", zeros(3<<30)) }), "times its size"},
		"many-zeros.zip": {zipOf(func(zw *zip.Writer) {
			for i := range 40 {
				put(zw, fmt.Sprintf("%d.log", i), zeros(200<<20))
			}
		}), "times its size"},
		"nested.zip": {func(w io.Writer) {
			var inner bytes.Buffer
			zipOf(func(zw *zip.Writer) { put(zw, "a.log", zeros(600<<20)) })(&inner)
			zipOf(func(zw *zip.Writer) {
				for i := range 30 {
					put(zw, fmt.Sprintf("%d.zip", i), bytes.NewReader(inner.Bytes()))
				}
			})(w)
		}, "times its size"},
		"deep.zip": {func(w io.Writer) {
			text := []byte("2026-01-02T03:04:05Z a line\n")
			for range 30 {
				var out bytes.Buffer
				zipOf(func(zw *zip.Writer) { put(zw, "a.zip", bytes.NewReader(text)) })(&out)
				text = out.Bytes()
			}
			_, err := w.Write(text)
			require.NoError(t, err)
		}, "it is nested in more than"},
		"million.tar.gz": {func(w io.Writer) {
			zw := gzip.NewWriter(w)
			tarOf(func(tw *tar.Writer) {
				for i := range 1_000_000 {
					add(tw, tar.Header{Name: fmt.Sprintf("d%d/f%d.log", i%1000, i)}, "")
				}
			})(zw)
			require.NoError(t, zw.Close())
		}, "more than 200000 files"},
		"million.zip": {zipOf(func(zw *zip.Writer) {
			for i := range 1_000_000 {
				_, err := zw.Create(fmt.Sprintf("d%d/f%d.log", i%1000, i))
				require.NoError(t, err)
			}
		}), "more than 200000 files"},
		"same-name.tar": {tarOf(func(tw *tar.Writer) {
			for range 250_000 {
				add(tw, tar.Header{Name: "a.log"}, "")
			}
		}), "more than 200000 files"},
		"long-names.tar": {tarOf(func(tw *tar.Writer) {
			for i := range 50_000 {
				add(tw, tar.Header{Name: strings.Repeat("n", 900) + fmt.Sprint(i)}, "")
			}
		}), "MiB of names"},
		"outside.tar": {tarOf(func(tw *tar.Writer) {
			add(tw, tar.Header{Name: "../../../../../../tmp/crowsnest-evil"}, "x")
			add(tw, tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, "")
			add(tw, tar.Header{Name: "link/crowsnest-evil"}, "x")
			add(tw, tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}, "")
			add(tw, tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, "")
			add(tw, tar.Header{Name: "pipe", Typeflag: tar.TypeFifo}, "")
			add(tw, tar.Header{Name: "\x1b[2J\u202egol.txt\n"}, "x")
		}), "leads out of the archive"},
	}
}

// forgetPeak resets the peak of this process' memory: Linux counts it as that of a child
// that has not executed its program yet.
func forgetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	require.NoError(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
}

// A scan of a hostile archive reports the problem, uses little memory, writes only into its
// temporary folder and removes the folder.
func TestE2EHostileArchives(t *testing.T) {
	bin, dir := build(t), t.TempDir()
	scan := func(name, says string) {
		t.Helper()
		tmp := t.TempDir()
		cmd := exec.Command(bin, "scan", filepath.Join(dir, name))
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
		forgetPeak(t)
		out, err := cmd.CombinedOutput()
		memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		t.Logf("%-16s %4d MiB, %v: %.300q", name, memory>>20, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), out)
		require.Error(t, err, name)
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), name)
		require.Contains(t, string(out), says, name)
		require.LessOrEqual(t, memory, int64(maxScanMemory), name)
		require.Less(t, len(out), 64<<10, name)
		require.NotContains(t, string(out), "\x1b", name)
		require.NotContains(t, string(out), "\u202e", name)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, name)
	}
	for name, a := range hostile(t) {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		a.make(f)
		require.NoError(t, f.Close())
		scan(name, a.says)
		require.NoError(t, os.Remove(f.Name()))
	}
	// A file with holes: 10 GB of nothing that tar stores as nothing.
	hole := filepath.Join(dir, "hole.log")
	require.NoError(t, os.WriteFile(hole, nil, 0o600))
	require.NoError(t, os.Truncate(hole, 10_000_000_000))
	out, err := exec.Command("tar", "-C", dir, "-Scf", filepath.Join(dir, "sparse.tar"), "hole.log").CombinedOutput()
	require.NoError(t, err, string(out))
	scan("sparse.tar", "times its size")
	for _, evil := range []string{"/tmp/crowsnest-evil", "/etc/crowsnest-evil"} {
		require.NoFileExists(t, evil)
	}
}
