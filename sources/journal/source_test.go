package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"crowsnest/matcher"
	"crowsnest/rules/selector"
	"crowsnest/sources"
	"crowsnest/test/journald"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ sources.Source = (*Source)(nil)

// pipe records the lines.
type pipe struct {
	sources.Pipeline
	mu    sync.Mutex
	lines []string
	marks []time.Time
	recs  []matcher.Record
	by    []matcher.Labels
}

func (p *pipe) Match(s *matcher.Stream, rec matcher.Record, commit func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines, p.by = append(p.lines, string(rec.Text)), append(p.by, s.Labels())
	for i := range rec.Fields {
		f := &rec.Fields[i]
		*f = matcher.Field{Name: []byte(string(f.Name)), Value: []byte(string(f.Value))}
	}
	rec.Fields = append([]matcher.Field{}, rec.Fields...)
	p.recs = append(p.recs, rec)
	commit()
}

func (p *pipe) AdvanceWatermark(_ string, t time.Time, _ ...matcher.LaggingStream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks = append(p.marks, t)
}

func (p *pipe) text() string { return strings.Join(p.lines, " ") }

const machine = "0123456789abcdef0123456789abcdef"

// lab has a folder of journals, which Writers write.
type lab struct {
	t   *testing.T
	dir string
	run string
	src *Source
	p   *pipe
	now time.Time
	seq uint64
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), run: t.TempDir(), p: &pipe{}, now: time.UnixMicro(1_795_000_000_000_000)}
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, machine), 0o755))
	l.start()
	return l
}

// start makes a new source.
func (l *lab) start() {
	l.src = New(Config{Dirs: []string{l.dir, l.run}, Common: sources.Common{Clock: func() time.Time { return l.now }}})
	l.src.pipe = l.p
	l.t.Cleanup(l.src.close)
}

// restart makes a new source with the positions of the old one.
func (l *lab) restart() {
	l.t.Helper()
	saved := l.src.Positions()
	l.src.close()
	l.start()
	require.NoError(l.t, l.src.Restore(saved))
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, machine, name) }

func (l *lab) writer(name string, id byte) *journald.Writer {
	return &journald.Writer{Path: l.path(name), File: [16]byte{id}, Seqnum: [16]byte{9}}
}

// log appends the next entry of the sequence.
func (l *lab) log(w *journald.Writer, message string, fields ...string) {
	l.t.Helper()
	l.seq++
	l.now = l.now.Add(time.Millisecond)
	require.NoError(l.t, w.Append(journald.Item{
		Seq: l.seq, Realtime: uint64(l.now.UnixMicro()), Monotonic: l.seq, Boot: [16]byte{7},
		Fields: append([]string{"MESSAGE=" + message, "_SYSTEMD_UNIT=kubelet.service", "SYSLOG_IDENTIFIER=kubelet", "_TRANSPORT=stdout", "_HOSTNAME=n1", "_UID=0", "PRIORITY=6"}, fields...),
	}, true))
}

func (l *lab) round() {
	l.now = l.now.Add(time.Second)
	l.src.runRound(l.t.Context())
}

func TestReadsOn(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "a")
	l.log(w, "b\nc", "EXTRA=x")
	l.round()
	require.Equal(t, []string{"a", "b\nc"}, l.p.lines)
	require.Equal(t, matcher.Labels{"job": "systemd-journal", "unit": "kubelet.service", "identifier": "kubelet", "transport": "stdout", "node": "n1"}, l.p.by[1])
	require.Equal(t, uint64(2), l.p.recs[1].Number)
	require.Contains(t, l.p.recs[1].Fields, matcher.Field{Name: []byte("EXTRA"), Value: []byte("x")})
	require.Equal(t, int64(1_795_000_000_002_000), l.p.recs[1].Time.UnixMicro())
	l.round()
	l.log(w, "d")
	l.round()
	require.Equal(t, "a b\nc d", l.p.text())
	require.Len(t, l.p.marks, 3)
	st := l.src.Status()
	require.True(t, st.Up)
	require.Empty(t, st.Error)
	require.Equal(t, int64(3), st.Lines)
	require.Len(t, st.Streams, 1)
}

// Rotation renames the file while entries are unread, and vacuum removes a file that is
// open: nothing is lost or read twice, over restarts of this process as well.
func TestRotation(t *testing.T) {
	for _, restart := range []bool{false, true} {
		l := newLab(t)
		w := l.writer("system.journal", 1)
		l.log(w, "1")
		l.round()
		l.log(w, "2")
		if restart {
			l.restart()
		}
		require.NoError(t, os.Rename(w.Path, l.path("system@9-1-1.journal")))
		w = l.writer("system.journal", 2)
		l.log(w, "3")
		user := l.writer("user-1000.journal", 3)
		l.log(user, "4")
		l.log(w, "5")
		l.round()
		if restart {
			l.restart()
		}
		l.round()
		require.NoError(t, os.Rename(w.Path, l.path("system@9-3-3.journal~")))
		w = l.writer("system.journal", 4)
		l.log(w, "6")
		l.round()
		require.NoError(t, os.Remove(l.path("system@9-1-1.journal")))
		l.log(user, "7")
		if restart {
			l.restart()
		}
		l.round()
		l.round()
		require.Equal(t, "1 2 3 4 5 6 7", l.p.text())
		require.Empty(t, l.src.Status().Losses)
		require.Zero(t, l.src.Status().Errors[lostVacuumed])
	}
}

// What was vacuumed before it was read is counted.
func TestVacuumed(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.round()
	l.round()
	l.restart()
	l.seq += 40 // of a file that came and went
	w2 := l.writer("system.journal", 2)
	require.NoError(t, os.Remove(w.Path))
	l.log(w2, "42")
	l.round()
	l.round()
	l.round()
	require.Equal(t, "1 42", l.p.text())
	require.Equal(t, int64(40), l.src.Status().Losses[lostVacuumed].Count)
	l.restart()
	l.round()
	require.Equal(t, int64(40), l.src.Status().Losses[lostVacuumed].Count)
}

// An entry of a user's file may appear after a newer one of the system's file was seen.
func TestLateFileOfUser(t *testing.T) {
	l := newLab(t)
	w, user := l.writer("system.journal", 1), l.writer("user-1000.journal", 2)
	l.log(w, "1")
	l.log(user, "2")
	l.round()
	l.round()
	l.seq++ // 3 is being written to the user's file
	l.log(w, "4")
	l.round()
	l.seq = 2
	l.log(user, "3")
	l.seq = 4
	l.round()
	l.round()
	l.round()
	require.Equal(t, "1 2 4 3", l.p.text())
	require.Empty(t, l.src.Status().Losses)
}

func TestLookBack(t *testing.T) {
	l := newLab(t)
	w := l.writer("system@9-1-1.journal", 1)
	l.log(w, "old")
	l.now = l.now.Add(time.Hour)
	w = l.writer("system.journal", 2)
	l.log(w, "2")
	l.log(w, "3")
	l.round()
	require.Equal(t, "2 3", l.p.text())
	l.restart()
	l.round()
	require.Equal(t, "2 3", l.p.text())
	// A new sequence is read from its start, whatever its clock says.
	l.now = l.now.Add(-30 * 24 * time.Hour)
	other := l.writer("system@8-1-1.journal", 5)
	other.Seqnum = [16]byte{8}
	l.log(other, "4")
	l.round()
	require.Equal(t, "2 3 4", l.p.text())
}

// journald copies the journal of /run to /var when /var is there.
func TestFlush(t *testing.T) {
	l := newLab(t)
	require.NoError(t, os.Mkdir(filepath.Join(l.run, machine), 0o755))
	w := &journald.Writer{Path: filepath.Join(l.run, machine, "system.journal"), File: [16]byte{1}, Seqnum: [16]byte{1}}
	l.log(w, "1")
	l.log(w, "2")
	l.round()
	at := l.now
	to := l.writer("system.journal", 2)
	l.now = time.UnixMicro(1_795_000_000_000_000)
	l.seq = 0
	l.log(to, "1")
	l.log(to, "2")
	l.now = at
	l.log(to, "3")
	require.NoError(t, os.RemoveAll(filepath.Dir(w.Path)))
	l.round()
	l.restart()
	l.log(to, "4")
	l.round()
	require.Equal(t, "1 2 3 4", l.p.text())
}

func TestOrder(t *testing.T) {
	l := newLab(t)
	w, user := l.writer("system.journal", 1), l.writer("user-1000.journal", 2)
	other := l.writer("user-1001.journal", 3)
	other.Seqnum = [16]byte{8}
	for i := range 30 {
		l.log([]*journald.Writer{w, user, other}[i%3], fmt.Sprint(i))
	}
	l.round()
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprint(i))
	}
	require.Equal(t, want, l.p.lines)
}

func TestDamagedFiles(t *testing.T) {
	l := newLab(t)
	w := l.writer("system@9-1-1.journal~", 1)
	l.log(w, "1")
	l.log(w, "2")
	l.log(w, "3")
	require.NoError(t, w.Save(1))
	image, err := os.ReadFile(w.Path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.Path, image[:len(image)-200], 0o640))
	require.NoError(t, os.WriteFile(l.path("system@0.journal"), []byte("LPKSHHRH, and no more"), 0o640))
	require.NoError(t, os.WriteFile(l.path("notes.txt"), []byte("no journal"), 0o640))
	require.NoError(t, os.Symlink("/etc/passwd", l.path("user-7@1.journal")))
	active := l.writer("system.journal", 2)
	l.log(active, "4")
	l.round()
	st := l.src.Status()
	require.Equal(t, "1 2 4", l.p.text())
	require.Equal(t, int64(1), st.Losses[lostDamaged].Count)
	require.Zero(t, st.Errors[lostVacuumed])
	require.Len(t, st.Unread, 2)
	require.Contains(t, st.Unread[0].Reason, "not a readable journal file: it has only 21 bytes")
	require.False(t, st.Unread[0].Holds)
	l.round()
	require.Equal(t, int64(1), l.src.Status().Losses[lostDamaged].Count)
}

// A file that cannot be opened stops all conclusions from silence.
func TestUnreadable(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	image, err := os.ReadFile(w.Path)
	require.NoError(t, err)
	image[12] = 0x80 // features of the future
	require.NoError(t, os.WriteFile(w.Path, image, 0o640))
	l.round()
	st := l.src.Status()
	require.False(t, st.Up)
	require.Contains(t, st.Error, "update crowsnest")
	require.Contains(t, st.Error, w.Path)
	require.True(t, st.Unread[0].Holds)
	require.Empty(t, l.p.marks)
	require.NoError(t, w.Save(1))
	l.round()
	require.True(t, l.src.Status().Up)
	require.Equal(t, "1", l.p.text())
	require.Len(t, l.p.marks, 1)
}

func TestNoJournal(t *testing.T) {
	l := newLab(t)
	require.NoError(t, os.RemoveAll(l.path("")))
	l.round()
	st := l.src.Status()
	require.True(t, st.Up)
	require.Contains(t, st.Idle, "there are no files of journald in "+l.dir)
	require.Len(t, l.p.marks, 1)
	require.Nil(t, l.src.Positions())

	require.NoError(t, os.Mkdir(l.path(""), 0o755))
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.round()
	require.Equal(t, "1", l.p.text())
	require.Empty(t, l.src.Status().Idle)

	l.restart()
	require.NoError(t, os.RemoveAll(l.path("")))
	l.round()
	st = l.src.Status()
	require.False(t, st.Up, "there was a journal")
	require.Contains(t, st.Error, "whether the node's folder is mounted")
}

// A file that was read and removed leaves its inode to a new one.
func TestReusedInode(t *testing.T) {
	l := newLab(t)
	w := l.writer("system@9-1-1.journal", 1)
	l.log(w, "1")
	l.round()
	require.Nil(t, l.src.files[[16]byte{1}].f, "it is closed")
	other := l.writer("system.journal", 2)
	l.log(other, "2")
	require.NoError(t, os.WriteFile(w.Path, other.Image(), 0o640)) // the same inode
	require.NoError(t, os.Remove(other.Path))
	require.NoError(t, os.Rename(w.Path, other.Path))
	l.round()
	require.Equal(t, "1 2", l.p.text())
}

// A file that cannot be opened for a while is not read twice afterwards.
func TestUnreadableForAWhile(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.log(w, "2")
	l.round()
	l.restart()
	image := w.Image()
	broken := append([]byte{}, image...)
	broken[12] = 0x80
	require.NoError(t, os.WriteFile(w.Path, broken, 0o640))
	l.round()
	l.round()
	require.False(t, l.src.Status().Up)
	l.restart()
	require.NoError(t, os.WriteFile(w.Path, image, 0o640))
	l.log(w, "3")
	l.round()
	require.Equal(t, "1 2 3", l.p.text())
}

// The journal is gone although its files are open.
func TestRemovedWhileOpen(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.round()
	marks := len(l.p.marks)
	require.NoError(t, os.RemoveAll(l.path("")))
	l.round()
	require.False(t, l.src.Status().Up)
	require.Len(t, l.p.marks, marks)
}

func TestHugeEntry(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	var fields []string
	for i := range 100 {
		fields = append(fields, fmt.Sprintf("F%d=%s", i, strings.Repeat("x", 60_000)))
	}
	l.seq++
	require.NoError(t, w.Append(journald.Item{
		Seq: 1, Realtime: uint64(l.now.UnixMicro()), Fields: append(fields, "SYSLOG_IDENTIFIER="+strings.Repeat("y", 5000), "MESSAGE=the line"),
	}, true))
	l.round()
	require.Equal(t, "the line", l.p.text())
	require.Len(t, l.p.by[0]["identifier"], maxLabel)
	size := 0
	for _, f := range l.p.recs[0].Fields {
		size += len(f.Value)
	}
	require.Less(t, size, maxEntry+200_000)
}

// journald creates a file before it writes its header.
func TestYoungFile(t *testing.T) {
	l := newLab(t)
	require.NoError(t, os.WriteFile(l.path("system.journal"), nil, 0o640))
	l.round()
	require.Empty(t, l.p.marks)
	require.Empty(t, l.src.Status().Error)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.round()
	require.Equal(t, "1", l.p.text())
}

// While the newest entry cannot be read, nothing is concluded from silence. The next one
// shows that it is damaged.
func TestUnfinishedEntry(t *testing.T) {
	l := newLab(t)
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	before := len(w.Image())
	l.log(w, "2")
	image := w.Image()
	at := strings.Index(string(image[before:]), "\x03\x00\x00\x00\x00\x00\x00\x00")
	f, err := os.OpenFile(w.Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte{0}, int64(before+at))
	require.NoError(t, err)
	l.round()
	require.Equal(t, "1", l.p.text())
	require.Empty(t, l.p.marks)
	st := l.src.Status()
	require.True(t, st.Up)
	require.Contains(t, st.Error, "the newest entry of "+w.Path+" is not complete")
	l.log(w, "3") // this also completes the file
	_, err = f.WriteAt([]byte{0}, int64(before+at))
	require.NoError(t, err)
	l.round()
	l.round()
	l.round()
	require.Equal(t, "1 3", l.p.text())
	require.Len(t, l.p.marks, 3)
	require.Equal(t, int64(1), l.src.Status().Losses[lostDamaged].Count)
	require.Zero(t, l.src.Status().Errors[lostVacuumed])
}

func TestOrigins(t *testing.T) {
	for _, c := range []struct {
		foreign bool
		fields  []string
	}{
		{false, []string{"_SYSTEMD_UNIT=kubelet.service", "_UID=0", "_TRANSPORT=stdout"}},
		{false, []string{"_SYSTEMD_UNIT=etcd.service", "_UID=998", "_TRANSPORT=stdout"}},
		{false, []string{"_TRANSPORT=kernel"}},
		{false, []string{"_TRANSPORT=syslog", "_UID=0"}},
		{true, []string{"_TRANSPORT=syslog", "_UID=1000"}},
		{true, []string{"_SYSTEMD_UNIT=session-3.scope", "_UID=1000", "_TRANSPORT=syslog"}},
		{true, []string{"_SYSTEMD_UNIT=user@1000.service", "_SYSTEMD_USER_UNIT=kubelet.service", "_UID=1000", "_TRANSPORT=stdout"}},
		{true, []string{"_SYSTEMD_UNIT=docker.service", "CONTAINER_ID=1", "_UID=0", "_TRANSPORT=journal"}},
		{true, []string{"_SYSTEMD_UNIT=cri-containerd-1.scope", "_SYSTEMD_CGROUP=/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope", "_UID=0", "_TRANSPORT=syslog"}},
	} {
		var l lines
		for _, f := range c.fields {
			name, value, _ := strings.Cut(f, "=")
			l.noteField([]byte(name), []byte(value))
		}
		require.Equal(t, c.foreign, l.isForeign(), "%v", c.fields)
	}
}

func TestServes(t *testing.T) {
	s := New(Config{Node: "n1", Labels: map[string]string{"cluster": "c"}})
	for text, want := range map[string]bool{
		`{unit=~"kubelet.*"}`: true, `{job=~".+"}`: true, `{transport="kernel"}`: true, `{node="n1", cluster="c"}`: true, `{unit!="x", job="systemd-journal", namespace=""}`: true,
		`{namespace="x"}`: false, `{container=~".+"}`: false, `{node="n2"}`: false, `{job=~".+", cluster!="c"}`: false,
	} {
		from, err := selector.Parse(text)
		require.NoError(t, err)
		require.Equal(t, want, s.Serves(from), text)
	}
}

func TestUnits(t *testing.T) {
	l := newLab(t)
	l.src.cfg.Units = []string{"kube*"}
	w := l.writer("system.journal", 1)
	l.log(w, "1")
	l.seq++
	require.NoError(t, w.Append(journald.Item{Seq: l.seq, Realtime: uint64(l.now.UnixMicro()), Fields: []string{"MESSAGE=x", "_SYSTEMD_UNIT=cron.service"}}, true))
	l.log(w, "3")
	l.round()
	l.round()
	l.round()
	require.Equal(t, "1 3", l.p.text())
	require.Empty(t, l.src.Status().Losses)
}

func TestRestoreRefuses(t *testing.T) {
	for _, b := range []string{`{`, `{"v":2}`, `{"v":1,"sequences":{"x":{}}}`, `{"v":1,"sequences":{"` + machine + `":null}}`, `{"v":1,"sequences":{"` + machine + `":{"done":2,"goal":1,"last":3}}}`} {
		require.ErrorContains(t, New(Config{}).Restore(json.RawMessage(b)), "read the positions of journal")
	}
	require.NoError(t, New(Config{}).Restore(nil))
}

func TestValidate(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	err := Config{Dirs: []string{"x"}, Units: []string{"["}, Labels: map[string]string{"unit": "a", "node": "b", "a-b": "c"}}.Validate()
	require.EqualError(t, err, `journal: dirs has "x"; use an absolute path
journal: units has "[", which is not a glob; close its [ or remove a trailing \
journal: label "node" is set with the key node, not with a label
journal: label "a-b" is not a label name; use letters, digits and _
journal: label "unit" is already set by the journal; remove it here`)
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p := &pipe{}
		s := New(Config{Dirs: []string{dir}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, s.Run(ctx, p))
		require.Greater(t, len(p.marks), 100)
		require.False(t, s.Status().Up)
	})
}

// BenchmarkRead reads the journals below CROWSNEST_JOURNAL_DIR from their start, as a
// source does.
func BenchmarkRead(b *testing.B) {
	dir := os.Getenv("CROWSNEST_JOURNAL_DIR")
	if dir == "" {
		b.Skip("set CROWSNEST_JOURNAL_DIR to a folder such as /var/log/journal")
	}
	size := int64(0)
	files, err := filepath.Glob(dir + "/*/*.journal*")
	require.NoError(b, err)
	for _, path := range files {
		info, err := os.Stat(path)
		require.NoError(b, err)
		size += info.Size()
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		s := New(Config{Dirs: []string{dir}, LookBack: 100 * 365 * 24 * time.Hour})
		p := &counting{}
		s.pipe = p
		s.runRound(b.Context())
		b.ReportMetric(float64(p.n), "entries/op")
		s.close()
	}
}

// counting is a pipeline that only counts.
type counting struct {
	sources.Pipeline
	n int64
}

func (p *counting) Match(_ *matcher.Stream, _ matcher.Record, commit func()) {
	p.n++
	commit()
}

func (p *counting) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}
