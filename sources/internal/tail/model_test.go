package tail

import (
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crowsnest/test/kubesim"
)

// The model knows in which file each line was written and which files are gone.
// So it knows what must be delivered, what cannot be, and, for files that are
// removed while they are read, what may go either way.

// modelFile is one log file over all of its names.
type modelFile struct {
	path  string // as it is now; "": it is gone
	gz    string // its compressed form, if that exists
	lines []string
	seen  bool // it was there while the reader looked
}

func (f *modelFile) gone() bool { return f.path == "" && f.gz == "" }

// model is a container's log as it should be delivered.
type model struct {
	l    *lab
	c    *kubesim.Container
	err  error
	down bool

	n        int
	all      []string // in the order in which they were written
	open     string   // a physical line without its end yet
	cur      *modelFile
	older    []*modelFile // rotated ones and those of dead instances, oldest first
	instance int
	rotation int
	away     bool // renamed and not reopened yet

	removed int         // files
	early   atomic.Bool // save right after the next block
	block   *snapshot   // that was taken so
	mu      sync.Mutex  // of block
	saved   snapshot
	lost    map[string]bool // cannot be delivered any more, in this life
	perhaps map[string]bool // its file went while it was read
}

func (m *model) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *model) check(err error) {
	if err != nil {
		m.fail("%w", err)
	}
}

// end marks whole lines: one that was matched before its end has none.
const end = " ."

func (m *model) write(n, pad int) {
	for range n {
		if m.open != "" {
			m.c.Raw(strings.Repeat("y", pad) + end + "\n")
			m.line(m.open + strings.Repeat("y", pad) + end)
			m.open = ""
			continue
		}
		m.n++
		text := fmt.Sprintf("seq=%d %s", m.n, strings.Repeat("x", pad)) + end
		m.c.Write([]string{"stdout", "stderr"}[m.n%2], text)
		m.line(text)
	}
}

// late writes to the old file after the new one has a line, and for so short that
// every reader that is there sees it.
func (m *model) late(pause int) {
	m.rename()
	m.whole()
	old, err := os.OpenFile(m.cur.path, os.O_WRONLY|os.O_APPEND, 0)
	m.check(err)
	if err != nil {
		return
	}
	defer old.Close()
	was := m.cur
	m.reopen()
	m.write(1, 3)
	wait(time.Duration(pause) * time.Millisecond)
	m.n++
	text := fmt.Sprintf("seq=%d late", m.n) + end
	_, err = fmt.Fprintf(old, "%s stdout F %s\n", m.c.Stamp(), text)
	m.check(err)
	m.all = append(m.all, text)
	was.lines = append(was.lines, text)
	if m.down {
		m.perhaps[text] = true // it may have left the file for good
		return
	}
	m.wait(2 * time.Second)
	m.save()
}

// die leaves a line without its end: the process was killed.
func (m *model) die() {
	m.reopen()
	m.half()
	m.line(m.open)
	m.open = ""
	m.restart()
}

// outage is what a node does while nobody reads.
func (m *model) outage(arg int) {
	m.write(arg%20+1, arg%50)
	if arg%3 > 0 {
		m.wait(time.Duration(arg) * 10 * time.Millisecond)
	}
	if arg%2 == 0 {
		m.save()
	} else {
		m.early.Store(true)
	}
	m.write(arg%9+1, arg)
	m.wait(time.Duration(arg%4) * 200 * time.Millisecond)
	m.halt(arg%5 > 0)
	for range arg%3 + 1 {
		m.write(arg%5, arg%70)
		m.rename()
		m.reopen()
		if arg%7 > 2 {
			m.compressAll()
		}
	}
	m.start()
}

func (m *model) compressAll() {
	for range 20 {
		m.compress()
	}
}

func (m *model) line(text string) {
	m.all = append(m.all, text)
	m.cur.lines = append(m.cur.lines, text)
}

// half writes the start of a line.
func (m *model) half() {
	if m.open == "" {
		m.n++
		m.open = fmt.Sprintf("seq=%d half", m.n)
		m.c.Raw(m.c.Stamp() + " stdout F " + m.open)
	}
}

// whole ends a line that has no end yet: a runtime writes whole lines before it
// changes files.
func (m *model) whole() {
	if m.open != "" {
		m.write(1, 0)
	}
}

// rename is the first half of a rotation.
func (m *model) rename() {
	if m.away {
		return
	}
	m.whole()
	if len(m.cur.lines) == 0 {
		m.write(1, 0) // the kubelet rotates what is too big, and never an empty file
	}
	m.rotation++
	name := fmt.Sprintf("%s.20260102-%06d", m.c.Path(), m.rotation)
	m.check(os.Rename(m.c.Path(), name))
	m.cur.path = name
	m.away = true
}

// back undoes it.
func (m *model) back() {
	if m.away {
		m.check(os.Rename(m.cur.path, m.c.Path()))
		m.cur.path = m.c.Path()
		m.away = false
	}
}

// reopen is the second half.
func (m *model) reopen() {
	if m.away {
		m.whole()
		m.c.Reopen()
		m.older = append(m.older, m.cur)
		m.cur = &modelFile{path: m.c.Path()}
		m.away = false
	}
}

// plain is the oldest file that can be compressed: rotated, and not the newest.
func (m *model) plain() *modelFile {
	for _, f := range m.older {
		if f.path != "" && strings.Contains(f.path, fmt.Sprintf("/%d.log.", m.instance)) {
			return f
		}
	}
	return nil
}

// compress goes one step: a part of .tmp, the rest and its new name, the removal
// of the original.
func (m *model) compress() {
	f := m.plain()
	if f == nil {
		return
	}
	tmp := f.path + ".tmp"
	if _, err := os.Stat(f.path + ".gz"); err == nil {
		m.check(os.Remove(f.path))
		f.gz, f.path = f.path+".gz", ""
		return
	}
	b, err := os.ReadFile(f.path)
	m.check(err)
	var out strings.Builder
	z := gzip.NewWriter(&out)
	_, err = z.Write(b)
	m.check(errors.Join(err, z.Close()))
	if _, err := os.Stat(tmp); err != nil {
		m.check(os.WriteFile(tmp, []byte(out.String()[:out.Len()/2]), 0o640))
		return
	}
	m.check(os.WriteFile(tmp, []byte(out.String()), 0o640))
	m.check(os.Rename(tmp, f.path+".gz"))
}

// remove removes the oldest file, as when there are too many.
func (m *model) remove() {
	for _, f := range m.older {
		if !f.gone() {
			m.drop(f)
			return
		}
	}
}

func (m *model) drop(f *modelFile) {
	for _, path := range []string{f.path, f.path + ".tmp", f.path + ".gz", f.gz} {
		if strings.Contains(path, ".log") {
			if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
				m.check(err)
			}
		}
	}
	f.path, f.gz = "", ""
	m.removed++
	m.judge(f, m.down)
}

// judge decides on the lines of a file that is gone: what was delivered stays.
func (m *model) judge(f *modelFile, surely bool) {
	have := m.saved.lines
	if !m.down {
		have = m.l.pipe.taken()
	}
	has := map[string]bool{}
	for _, line := range have {
		has[line] = true
	}
	for _, line := range f.lines {
		switch {
		case has[line]:
		case surely:
			m.lost[line] = true
			delete(m.perhaps, line)
		default:
			m.perhaps[line] = true
		}
	}
}

// restart ends the instance; of dead ones the newest stays.
func (m *model) restart() {
	if m.away {
		m.reopen()
	}
	m.whole()
	m.c.Restart()
	prefix := fmt.Sprintf("/%d.log", m.instance-1)
	for _, f := range m.older {
		if strings.Contains(f.path+f.gz, prefix) {
			m.drop(f)
		}
	}
	m.older = append(m.older, m.cur)
	m.instance++
	m.cur = &modelFile{path: m.c.Path()}
}

func (m *model) wait(d time.Duration) {
	wait(d)
	if m.down || d < 300*time.Millisecond {
		return
	}
	for _, f := range append(m.older, m.cur) {
		f.seen = f.seen || !f.gone()
	}
}

func (m *model) save() {
	if !m.down {
		m.mu.Lock()
		m.block = nil
		m.mu.Unlock()
		m.saved = m.l.pipe.snapshot(m.l.tailer)
	}
}

// each has the state saved right after a block, where a position that moves
// outside of the cut is behind.
func (m *model) each() {
	if m.early.Swap(false) {
		s := m.l.pipe.snapshot(m.l.tailer)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.block = &s
	}
}

// taken uses what was saved after a block.
func (m *model) taken() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.block != nil {
		m.saved, m.block = *m.block, nil
	}
}

// halt ends the reader: after a kill it is what it was when it was saved.
func (m *model) halt(kill bool) {
	if m.down {
		return
	}
	if kill {
		m.l.kill()
		m.taken()
	} else {
		m.saved = *m.l.stop()
		m.block = nil
	}
	m.down = true
	for _, f := range m.older {
		if f.gone() {
			m.judge(f, true)
		}
	}
}

func (m *model) start() {
	if m.down {
		m.l.start(&m.saved)
		m.down = false
	}
}

// step does one thing of the plan. Every choice has a small number, so that a
// plan that fails shrinks to a simple one.
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
	times := map[string]int{}
	at := map[string]int{}
	for i, line := range m.l.pipe.taken() {
		times[line]++
		at[line] = i
	}
	missing, known := 0, 0
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
				m.fail("%.40q was delivered and cannot have been", want)
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
		if f.seen && gone < len(f.lines) { // of a file that came and went unread nobody can tell
			known += gone
		}
	}
	for line := range times { // a line may be shown before its end comes
		if strings.HasSuffix(line, end) || !slices.ContainsFunc(m.all, func(w string) bool { return strings.HasPrefix(w, line) }) {
			m.fail("made up: %.100q", line)
		}
	}
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

// lives draws a plan and lives it.
func lives(t *testing.T, rt *rapid.T) {
	type step struct{ op, arg int }
	plan := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{rapid.IntRange(0, lastOp).Draw(t, "op"), rapid.IntRange(0, 99).Draw(t, "arg")}
	}), 1, 80).Draw(rt, "plan")
	open := rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "open")
	root, err := os.MkdirTemp(t.TempDir(), "life")
	if err != nil {
		rt.Fatal(err)
	}
	defer os.RemoveAll(root)
	var m *model
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, cfg: Config{Source: "test", NoWatch: true, MaxOpen: open}, finder: podFinder(root)}
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

// TestRotationModel: over any order of writes, half lines, steps of rotation,
// steps of compression, removals, restarts of the container, stops, and kills
// that go back to an earlier snapshot, each line is delivered exactly once and in
// order unless nobody could have read it, and then a loss is counted.
func TestRotationModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { lives(t, rt) })
}

// FuzzRotation lives whatever plan the bytes draw.
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

// A file that was closed to save its descriptor grows, is rotated and removed
// before it is looked at again: that is a loss.
func TestClosedFileGrowsAndGoes(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		l.cfg.MaxOpen = 1
		var seq sequence
		c := kubesim.New(kubesim.Options{Root: l.finder.Root})
		other := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "other"})
		several(c, &seq, 5)
		several(other, &seq, 5)
		l.start(nil)
		wait(10 * time.Second)
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

// A file that is empty when it is found, is not opened and gets another name
// does not push aside the files before it.
func TestEmptyFileIsRenamedBeforeItIsOpened(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		var seq sequence
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
		tl.queue.open()
		w := newWorker()
		for turn := range 40 {
			tl.findAll(nil, true)
			for _, ch := range tl.chains {
				ch.run(w)
			}
			if turn == 0 { // the first file is read now, the others wait
				several(c, &seq, 3)
				c.Rotate()
				several(c, &seq, 3)
			}
			wait(500 * time.Millisecond)
		}
		requireLines(t, seq.want, l.pipe.taken())
		require.Empty(t, tl.Status().Lost[lossDeleted])
		for _, ch := range tl.chains {
			ch.closeAll()
		}
		tl.trees[0].root.close()
		require.NoError(t, c.Err)
		c.Close()
	})
}
