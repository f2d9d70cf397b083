package tail

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/test/kubesim"
)

// step executes one step of a plan. Simple steps have small numbers, so that a plan that
// fails shrinks to a simple one.
func (m *model) step(op, arg int) {
	switch op {
	case 0, 1:
		m.write(arg%30+1, arg*7%300)
	case 2:
		m.half()
	case 3:
		m.wait(time.Duration(arg%100*20) * time.Millisecond)
	case 4:
		m.wait(time.Duration(arg%100*100) * time.Millisecond)
	case 5:
		m.rename()
	case 6:
		m.reopen()
	case 7: // all of a rotation
		m.rename()
		m.reopen()
	case 8:
		m.back()
	case 9:
		m.compress()
	case 10:
		m.compressAll()
	case 11:
		if arg < 20 {
			m.remove()
		}
	case 12:
		m.restart()
	case 13:
		m.save()
	case 14:
		m.halt(false)
	case 15:
		m.halt(true)
	case 16, 17:
		m.start()
	case 18, 19:
		m.outage(arg)
	case 20:
		m.late(arg * 10)
	case 21:
		m.die()
	case 22:
		m.early.Store(true)
	}
}

const lastOp = 22

// verify compares what was delivered with what should have been.
func (m *model) verify() {
	m.start()
	m.reopen()
	m.write(1, 0)
	wait(60 * time.Second)
	missing, known := m.compare()
	status := m.l.tailer.Status()
	counted := int64(0)
	for _, n := range status.Losses {
		counted += n.Count
	}
	if known > 0 && counted == 0 {
		m.fail("%d lines are lost and none is counted", known)
	}
	if m.removed == 0 && counted > 0 {
		m.fail("no file is gone, and a loss is counted: %v", status.Losses)
	}
	if missing == 0 && len(m.lost) > 0 {
		m.fail("the model is wrong: %d lines should be lost", len(m.lost))
	}
	if status.Lag > time.Second {
		m.fail("nothing is written and the lag is %s", status.Lag)
	}
	if b := status.Evaluated + status.Dropped; status.Lines != b {
		m.fail("%d lines were read and %d are accounted for", status.Lines, b)
	}
	m.check(m.c.Err)
}

// compare returns how many lines are missing, and how many of them were in files that the
// tailer has seen.
func (m *model) compare() (missing, known int) {
	times := map[string]int{}
	at := map[string]int{}
	for i, line := range m.l.pipe.taken() {
		times[line]++
		at[line] = i
	}
	for _, f := range append(m.older, m.cur) {
		last, gone := -1, 0
		for _, want := range f.lines {
			n := times[want]
			if strings.HasSuffix(want, end) {
				delete(times, want)
			}
			switch {
			case n > 1 && strings.HasSuffix(want, end):
				m.fail("%.40q was delivered %d times", want, n)
			case n > 0 && m.lost[want]:
				m.fail("%.40q was delivered, but its file was removed before", want)
			case n > 0 && at[want] < last:
				m.fail("%.40q is out of order", want)
			case n > 0:
				last = at[want]
			case !m.lost[want] && !m.perhaps[want]:
				m.fail("%.40q is missing", want)
			}
			if n == 0 {
				gone++
			}
		}
		missing += gone
		if f.seen && gone < len(f.lines) { // a file that was removed before it was seen cannot be known
			known += gone
		}
	}
	for line := range times { // a line may be matched before its end comes
		if strings.HasSuffix(line, end) || !slices.ContainsFunc(m.all, func(w string) bool { return strings.HasPrefix(w, line) }) {
			m.fail("made up: %.100q", line)
		}
	}
	return missing, known
}

// lives draws a plan and executes it.
func lives(t *testing.T, rt *rapid.T) {
	type step struct{ op, arg int }
	plan := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{rapid.IntRange(0, lastOp).Draw(t, "op"), rapid.IntRange(0, 99).Draw(t, "arg")}
	}), 1, 80).Draw(rt, "plan")
	open := rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "open")
	watched := rapid.Bool().Draw(rt, "watched")
	root, err := os.MkdirTemp(t.TempDir(), "life")
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(root)
	var m *model
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, cfg: Config{Source: "test", NoWatch: !watched, deaf: watched, MaxOpen: open}, finder: podFinder(root)}
		m = &model{l: l, c: kubesim.New(kubesim.Options{Root: root}), lost: map[string]bool{}, perhaps: map[string]bool{}}
		m.cur = &modelFile{path: m.c.Path()}
		l.each = m.each
		m.write(1, 0)
		l.start(nil)
		wait(time.Second)
		m.save()
		for _, s := range plan {
			m.step(s.op, s.arg)
		}
		m.verify()
		if !m.down {
			l.stop()
		}
		m.c.Close()
	})
	if m.err != nil {
		names, _ := filepath.Glob(filepath.Join(m.c.Dir(), "*"))
		rt.Fatalf("%v\nfiles: %v", m.err, names)
	}
}

// TestRotationModel executes random plans of writes, half lines, steps of rotation and of
// compression, removals, restarts of the container, stops, and kills that go back to an
// earlier snapshot. Each line is delivered exactly once and in order. If no reader could
// have read it, a loss is counted.
func TestRotationModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { lives(t, rt) })
}

// FuzzRotation executes the plan that the bytes encode.
func FuzzRotation(f *testing.F) {
	for seed := range byte(4) { // as long as a plan needs
		b := make([]byte, 4096)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, plan []byte) {
		rapid.MakeFuzz(func(rt *rapid.T) { lives(t, rt) })(t, plan)
	})
}

// A file that was closed to save its descriptor grows, is rotated and removed between two
// polls: that is a loss.
func TestClosedFileGrowsAndIsRemoved(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.cfg.MaxOpen = 1
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		other := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "other"})
		several(c, &seq, 5)
		several(other, &seq, 5)
		l.start(nil)
		wait(10*time.Second + 50*time.Millisecond)         // between two polls: none sees half of what follows
		for _, x := range []*kubesim.Container{c, other} { // one of them is closed
			several(x, &seq, 5)
			x.Rotate()
			names, err := filepath.Glob(x.Path() + ".*")
			require.NoError(t, err)
			require.NoError(t, os.Remove(names[0]))
			several(x, &seq, 1)
		}
		wait(10 * time.Second)
		got := len(l.pipe.taken())
		require.Contains(t, []int{12, 17}, got)
		require.Equal(t, map[string]int64{lossGap: int64(22-got) / 5}, l.losses())
		l.stop()
		require.NoError(t, c.Err)
		c.Close()
		other.Close()
	})
}

// A file that is empty when it is found, is not opened and gets another name does not
// displace the files before it.
func TestEmptyFileIsRenamedBeforeItIsOpened(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		for range 3 {
			several(c, &seq, 3)
			c.Rotate()
		}
		several(c, &seq, 3)
		c.Restart()
		l.pipe = newPipe(t)
		tl := New(Config{NoWatch: true, LookBack: -1, MaxOpen: 1}, l.finder)
		tl.p = l.pipe
		tl.pipeline.open(tl.p)
		w := &worker{}
		for turn := range 40 {
			tl.findAll(nil, true)
			for _, ch := range tl.followers {
				ch.runTurn(w)
			}
			if turn == 0 { // the first file is read now, the others wait
				several(c, &seq, 3)
				c.Rotate()
				several(c, &seq, 3)
			}
			wait(500 * time.Millisecond)
		}
		requireLines(t, seq.want, l.pipe.taken())
		require.Empty(t, tl.Status().LostBytes[lossDeleted])
		for _, ch := range tl.followers {
			ch.closeAll()
		}
		tl.trees[0].root.Close()
		require.NoError(t, c.Err)
		c.Close()
	})
}

// While a file is read, the empty and closed one after it gets lines and is rotated: it
// is not mistaken for the file that has its name now.
func TestEmptyFileIsReplacedDuringATurn(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq numbered
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		rotate := func() {
			c.RenameAway()
			c.Reopen()
		}
		several(c, &seq, 3)
		rotate()
		names, err := filepath.Glob(c.Path() + ".*")
		require.NoError(t, err)
		require.NoError(t, os.Chtimes(names[0], time.Time{}, time.Now().Add(-time.Minute))) // it is no longer fresh
		l.cfg.MaxOpen, l.cfg.LookBack = 1, -1
		replaced := false
		l.cfg.fault = func(op, _ string) error {
			if op == "read" && !replaced {
				replaced = true
				several(c, &seq, 3)
				rotate()
				several(c, &seq, 3)
				wait(2 * pollEvery) // the directory is listed again before the next file is opened
			}
			return nil
		}
		l.start(nil)
		wait(10 * time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		l.stop()
		require.NoError(t, c.Err)
		c.Close()
	})
}
