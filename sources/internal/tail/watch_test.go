package tail

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHintsAreHandedOver: what take returns is not written to any more, also
// when there was nothing. The race detector judges.
func TestHintsAreHandedOver(t *testing.T) {
	h := newHints(func() {})
	empty, all := h.take()
	require.Empty(t, empty)
	require.False(t, all)
	var wg sync.WaitGroup
	wg.Go(func() {
		h.add("a")
		h.add("")
	})
	require.False(t, empty["a"])
	wg.Wait()
	dirs, all := h.take()
	require.Equal(t, map[string]bool{"a": true}, dirs)
	require.True(t, all)
	_, all = h.take()
	require.False(t, all)
}

// TestSilenceIsALook: what the kernel does not tell of is taken for looked at,
// and whatever changes on the way to a directory ends that.
func TestSilenceIsALook(t *testing.T) {
	now := time.Now()
	f := func(change func(root string) error, silent bool) {
		t.Helper()
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(root, "pod", "c"), 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(root, "other", "c"), 0o755))
		r := newRoot(root)
		require.NoError(t, r.reopen())
		defer r.close()
		d := newDirs(r)
		w, err := newWatcher(d.tell, func(error) {})
		if err != nil {
			return // not on this system
		}
		defer w.close()
		d.listen(w.watches)
		all := []string{".", "pod", "pod/c"}
		for _, rel := range all {
			w.add(r.abs(rel), rel == ".", false)
			_, err := d.look(rel, now)
			require.NoError(t, err)
		}
		if !w.watches(root) {
			return // on such a file system it has to be looked at
		}
		hear := func() {
			w.drain()
			d.hear(now)
		}
		hear()
		for _, rel := range all {
			require.True(t, d.silent(d.by[rel], now), rel)
			require.False(t, d.silent(d.by[rel], now.Add(heardFor)), "not for long")
			require.False(t, d.silent(d.by[rel], now.Add(-1)), "nor before")
		}
		require.NoError(t, change(root))
		hear()
		require.Equal(t, silent, d.silent(d.by["pod/c"], now))
		w.add(r.abs("pod/c"), false, true)
		l, _, err := d.get("pod/c", now)
		_, gone := os.Stat(r.abs("pod/c"))
		require.Equal(t, gone == nil, err == nil)
		if err == nil {
			es, err := r.list("pod/c")
			require.NoError(t, err)
			require.Equal(t, es, l.entries)
		}
	}
	f(func(string) error { return nil }, true)
	f(func(root string) error { return os.WriteFile(filepath.Join(root, "pod", "c", "0.log"), nil, 0o600) }, false)
	f(func(root string) error { return os.WriteFile(filepath.Join(root, "other", "c", "0.log"), nil, 0o600) }, true)
	f(func(root string) error { return os.RemoveAll(filepath.Join(root, "pod")) }, false)
	f(func(root string) error { return os.Rename(filepath.Join(root, "pod"), filepath.Join(root, "gone")) }, false)
	f(func(root string) error {
		if err := os.Rename(filepath.Join(root, "pod"), filepath.Join(root, "gone")); err != nil {
			return err
		}
		return os.Rename(filepath.Join(root, "other"), filepath.Join(root, "pod"))
	}, false)
	f(func(root string) error { return os.Rename(root, root+"-gone") }, false)
}

// TestTwoPathsOfOneDirectory: the kernel tells of one of them, so its silence
// says nothing.
func TestTwoPathsOfOneDirectory(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	told := map[string]bool{}
	w, err := newWatcher(func(dir string, _ bool) { told[dir] = true }, func(error) {})
	if err != nil {
		return // not on this system
	}
	defer w.close()
	w.add(dir, true, false)
	w.add(link, true, false)
	require.False(t, w.watches(dir))
	require.False(t, w.watches(link))
	require.Equal(t, map[string]bool{dir: true}, told, "it is looked at again")
}
