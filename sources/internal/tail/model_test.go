package tail

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crowsnest/test/kubesim"
)

// The model knows the file of each line and which files were removed. So it knows which
// lines must be delivered, which cannot be, and which may or may not be because their
// file was removed while it was read.

// modelFile is one log file over all of its names.
type modelFile struct {
	path  string // "": it was removed
	gz    string // its compressed form, if that exists
	lines []string
	seen  bool // the tailer ran while it existed
}

func (f *modelFile) gone() bool { return f.path == "" && f.gz == "" }

// model is the log of a container as it should be delivered.
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
	block   *snapshot   // the one taken then
	mu      sync.Mutex  // of block
	saved   snapshot
	lost    map[string]bool // cannot be delivered any more
	perhaps map[string]bool // its file was removed while it was read
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

// late writes to the old file after the new one has a line, so soon that a running tailer
// must read it.
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
		m.perhaps[text] = true // the tailer may have left the file already
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

// outage stops the tailer while the node goes on.
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
		m.write(1, 0) // the kubelet never rotates an empty file
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

// compress takes one step: a part of .tmp, the rest and its new name, the removal of the
// original.
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

// judge classifies the undelivered lines of a file that was removed.
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

// each saves the state right after a block: a position that moved outside the checkpoint
// lock would be behind.
func (m *model) each() {
	if m.early.Swap(false) {
		s := m.l.pipe.snapshot(m.l.tailer)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.block = &s
	}
}

// taken uses the state that was saved after a block.
func (m *model) taken() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.block != nil {
		m.saved, m.block = *m.block, nil
	}
}

// halt ends the tailer: a kill goes back to the saved state.
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
