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
		m.saved = m.l.pipe.snapshot(m.l.tailer)
	}
}

// halt ends the reader: after a kill it is what it was when it was saved.
func (m *model) halt(kill bool) {
	if m.down {
		return
	}
	if kill {
		m.l.kill()
	} else {
		m.saved = *m.l.stop()
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
	case 9, 10:
		m.compress()
	case 11:
		m.remove()
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
	}
}

const steps18 = 17

// verify compares what was delivered with what should have been.
func (m *model) verify() {
	m.start()
	m.reopen()
	m.write(1, 0)
	wait(60 * time.Second)
	var whole []string
	for _, line := range m.l.pipe.taken() {
		if strings.HasSuffix(line, end) {
			whole = append(whole, line)
		} else if !slices.ContainsFunc(m.all, func(w string) bool { return strings.HasPrefix(w, line) }) {
			m.fail("made up: %.100q", line)
		}
	}
	missing, known := 0, 0
	seen := map[string]bool{}
	for _, f := range m.older {
		for _, line := range f.lines {
			seen[line] = f.seen
		}
	}
	i := 0
	for _, want := range m.all {
		if i < len(whole) && whole[i] == want {
			i++
			if m.lost[want] {
				m.fail("%.40q was delivered and cannot have been", want)
			}
			continue
		}
		missing++
		if seen[want] { // of a file that came and went unseen nobody can tell
			known++
		}
		if !m.lost[want] && !m.perhaps[want] {
			m.fail("%.40q is missing; the next one delivered is %.60q", want, whole[min(i, len(whole)-1):][:min(1, len(whole))])
		}
	}
	if i < len(whole) {
		m.fail("delivered twice or out of order: %.60q", whole[i])
	}
	status := m.l.tailer.Status()
	counted := int64(0)
	for _, n := range status.Losses {
		counted += n.Count
	}
	if known > 0 && counted == 0 {
		m.fail("%d lines are lost and none is counted", known)
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
		return step{rapid.IntRange(0, steps18).Draw(t, "op"), rapid.IntRange(0, 99).Draw(t, "arg")}
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
