package tail

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Links, pipes, devices and other things in a log directory are not read, and block
// nothing.
func TestPlantedThings(t *testing.T) {
	root := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(outside, []byte("2026-01-01T00:00:00.000000001Z stdout F text secret\n"), 0o644))
	dir := filepath.Join(root, "ns_pod_uid", "c")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.Symlink(outside, at("0.log")))
	require.NoError(t, os.Symlink("../../../"+filepath.Base(filepath.Dir(outside))+"/secret", at("0.log.20260101-000000")))
	require.NoError(t, os.Symlink("/proc/self/environ", at("1.log")))
	require.NoError(t, os.Symlink(at("7.log"), at("2.log")))
	require.NoError(t, os.Symlink(at("3.log"), at("3.log"))) // to itself
	require.NoError(t, syscall.Mkfifo(at("4.log"), 0o644))
	require.NoError(t, syscall.Mkfifo(at("4.log.20260101-000000.gz"), 0o644))
	require.NoError(t, os.Mkdir(at("5.log"), 0o755))
	sock, err := net.Listen("unix", at("6.log"))
	require.NoError(t, err)
	defer sock.Close()
	if os.Getuid() == 0 { // a device needs root
		require.NoError(t, syscall.Mknod(at("8.log"), syscall.S_IFCHR|0o644, 1<<8|5)) // /dev/zero
	}
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(root, "ns_pod_uid", "link")))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(root, "ns_link_uid")))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(outside), "0.log"), []byte("2026-01-01T00:00:00.000000001Z stdout F text secret\n"), 0o644))
	require.NoError(t, os.WriteFile(at("9.log"), []byte("2026-01-01T00:00:00.000000001Z stdout F text fine\n"), 0o644))
	require.NoError(t, os.WriteFile(at("9.log.20260101-000001.gz"), []byte("no gzip"), 0o644))

	l := &lab{t: t, cfg: Config{Source: "test", LookBack: -1}, finder: podFinder(root)}
	l.start(nil)
	require.Eventually(t, func() bool { return len(l.pipe.taken()) > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, []string{"text fine"}, l.pipe.taken())
	require.Eventually(t, func() bool { return !l.tailer.Status().Watermark.IsZero() }, 20*time.Second, 10*time.Millisecond)
	require.NotZero(t, l.tailer.Status().Errors["refused"])
	l.stop()
}
