package logdir

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Open refuses links even while directories are replaced by links concurrently.
func TestOpenSwapRace(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.MkdirAll(base+"/root/real", 0o755))
	require.NoError(t, os.MkdirAll(base+"/out", 0o755))
	require.NoError(t, os.WriteFile(base+"/root/real/f", []byte("inside"), 0o644))
	require.NoError(t, os.WriteFile(base+"/out/f", []byte("outside"), 0o644))
	r := &Root{Path: base + "/root"}
	require.NoError(t, r.Reopen())
	defer r.Close()
	dir := r.Borrow()
	defer dir.Release()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Symlink(base+"/out", base+"/root/dir")
			_ = os.Remove(base + "/root/dir")
			_ = os.Rename(base+"/root/real", base+"/root/dir")
			_ = os.Rename(base+"/root/dir", base+"/root/real")
		}
	}()
	b := make([]byte, 16)
	for range 10000 {
		if f, _, err := dir.Open("dir/f"); err == nil {
			n, _ := f.Read(b)
			require.Equal(t, "inside", string(b[:n]))
			_ = f.Close()
		}
	}
	close(stop)
	<-done
}
