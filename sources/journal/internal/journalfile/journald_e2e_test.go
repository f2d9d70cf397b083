//go:build e2e

package journalfile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/journald"
)

// formats are those that journald can write.
var formats = map[string][]string{
	"regular":        {"SYSTEMD_JOURNAL_COMPACT=0"},
	"compact":        {"SYSTEMD_JOURNAL_COMPACT=1"},
	"xz":             {"SYSTEMD_JOURNAL_COMPACT=0", "SYSTEMD_JOURNAL_COMPRESS=XZ"},
	"lz4":            {"SYSTEMD_JOURNAL_COMPACT=1", "SYSTEMD_JOURNAL_COMPRESS=LZ4"},
	"zstd":           {"SYSTEMD_JOURNAL_COMPACT=0", "SYSTEMD_JOURNAL_COMPRESS=ZSTD"},
	"not compressed": {"SYSTEMD_JOURNAL_COMPACT=1", "SYSTEMD_JOURNAL_COMPRESS=0"},
	"old hash":       {"SYSTEMD_JOURNAL_COMPACT=0", "SYSTEMD_JOURNAL_KEYED_HASH=0"},
}

// features are the flags in the header that show the format.
var features = map[string]uint32{"compact": 1 << 4, "xz": 1, "lz4": 1 << 1, "zstd": 1 << 3}

func flagsOf(t *testing.T, dir string) uint32 {
	t.Helper()
	image, err := os.ReadFile(filepath.Join(dir, "system.journal"))
	require.NoError(t, err)
	return le.Uint32(image[12:])
}

// entries is how many are compared in each format.
func entries(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("CROWSNEST_JOURNAL_ENTRIES"))
	if err != nil {
		return 3000
	}
	return n
}

func TestEqualsJournalctl(t *testing.T) {
	for name, env := range formats {
		t.Run(name, func(t *testing.T) {
			s := journald.Start(t, journald.Options{Env: env, Config: []string{"SystemMaxFileSize=64M", "SystemMaxUse=8G", "SystemKeepFree=1M", "SystemMaxFiles=10000"}})
			rng := rand.New(rand.NewPCG(7, uint64(len(name))))
			n := entries(t)
			for i := range n {
				require.NoError(t, s.Send(random(rng, i)...))
				if i == n/2 {
					s.Sync()
					s.Rotate()
				}
			}
			s.Sync()
			compareFolder(t, s.Dir, n)
			if flags, wanted := flagsOf(t, s.Dir), features[name]; flags&wanted != wanted {
				t.Logf("this journald does not write the format: its files have the flags %#x", flags)
			}
			if dir := os.Getenv("CROWSNEST_JOURNAL_KEEP"); dir != "" {
				keep(t, s.Dir, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")))
			}
		})
	}
}

// random makes entries of many forms: long, binary, of several lines, with repeated fields.
func random(rng *rand.Rand, i int) []journald.Field {
	message := fmt.Sprintf("entry %d: %s", i, strings.Repeat("word ", rng.IntN(12)))
	kind := rng.IntN(40)
	if i == 20 {
		kind = 0
	}
	switch kind {
	case 0:
		message += strings.Repeat("a long line that can be compressed well. ", 20+rng.IntN(200))
	case 1:
		message += "\nsecond line\n\nfourth line\n"
	case 2:
		noise := make([]byte, rng.IntN(3000))
		for k := range noise {
			noise[k] = byte(rng.Uint32())
		}
		message += string(noise)
	case 3:
		message = ""
	}
	out := []journald.Field{
		{Name: "MESSAGE", Value: message},
		{Name: "PRIORITY", Value: strconv.Itoa(rng.IntN(8))},
		{Name: "SYSLOG_IDENTIFIER", Value: fmt.Sprintf("program-%d", rng.IntN(20))},
	}
	for k := range rng.IntN(4) {
		out = append(out, journald.Field{Name: "TAG", Value: strconv.Itoa(k)})
	}
	if rng.IntN(500) == 0 {
		out = append(out, journald.Field{Name: "BIG", Value: strings.Repeat(strconv.Itoa(i), 60_000)})
	}
	return out
}

// compareFolder reads files with journalctl and with this package.
func compareFolder(t *testing.T, dir string, atLeast int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	require.NoError(t, err)
	total := 0
	for _, path := range files {
		cmd := journalctl(path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		r, err := os.Open(path)
		require.NoError(t, err)
		total += compare(t, r, out)
		require.NoError(t, r.Close())
		require.NoError(t, cmd.Wait())
	}
	require.GreaterOrEqual(t, total, atLeast)
}

func journalctl(path string) *exec.Cmd {
	return exec.Command("journalctl", "--file="+path, "-o", "json", "--all", "--quiet")
}

// keep writes the archived file, and what journalctl reads in it, as the files of
// testdata were written: CROWSNEST_JOURNAL_ENTRIES=60 CROWSNEST_JOURNAL_KEEP=testdata.
func keep(t *testing.T, dir, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "system@*.journal"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	image, err := os.ReadFile(files[0])
	require.NoError(t, err)
	printed, err := journalctl(files[0]).Output()
	require.NoError(t, err)
	for suffix, content := range map[string][]byte{".journal.gz": image, ".json.gz": printed} {
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		require.NoError(t, err)
		_, err = z.Write(content)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.NoError(t, os.WriteFile(name+suffix, b.Bytes(), 0o644))
	}
}
