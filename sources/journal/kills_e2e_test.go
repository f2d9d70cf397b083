//go:build e2e

package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/sources"
	"crowsnest/test/child"
	"crowsnest/test/journald"
	"crowsnest/test/wait"
)

const childDir = "CROWSNEST_JOURNAL_CHILD"

func init() {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, readerMain(dir))
		os.Exit(1)
	}
}

// reader is a process that reads a journal and saves its positions with the lines that
// it read, as one snapshot: the lines up to a size of their file.
type reader struct {
	sources.Pipeline
	mu   sync.Mutex
	out  *os.File
	buf  bytes.Buffer
	size int64
}

type snapshot struct {
	Size      int64
	Positions json.RawMessage
	Status    sources.Status
}

func (r *reader) Match(_ *matcher.Stream, rec matcher.Record, commit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.buf, "%d %d %s\n", rec.Number, rec.Time.UnixMicro(), rec.Text)
	commit()
}

func (r *reader) AdvanceWatermark(string, time.Time, ...matcher.LaggingStream) {}

// save writes a snapshot.
func (r *reader) save(s *Source, path string) error {
	r.mu.Lock()
	positions, lines := s.Positions(), bytes.Clone(r.buf.Bytes())
	r.buf.Reset()
	r.mu.Unlock()
	n, err := r.out.WriteAt(lines, r.size)
	if err != nil {
		return err
	}
	r.size += int64(n)
	b, err := json.Marshal(snapshot{Size: r.size, Positions: positions, Status: s.Status()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// readerMain reads until it is killed.
func readerMain(dir string) error {
	out, err := os.OpenFile(filepath.Join(dir, "lines"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	state := filepath.Join(dir, "state")
	s, r := New(Config{Dirs: []string{os.Getenv("CROWSNEST_JOURNAL_DIR")}, PollInterval: 20 * time.Millisecond}), &reader{out: out}
	if b, err := os.ReadFile(state); err == nil {
		var old snapshot
		if err := json.Unmarshal(b, &old); err != nil {
			return err
		}
		if err := s.Restore(old.Positions); err != nil {
			return err
		}
		r.size = old.Size
	}
	go func() { _ = s.Run(context.Background(), r) }()
	for range time.Tick(15 * time.Millisecond) {
		if err := r.save(s, state); err != nil {
			return err
		}
	}
	return nil
}

// killing is one run of the plan.
type killing struct {
	t         *testing.T
	rng       *rand.Rand
	s         *journald.Server
	dir, root string
	proc      *child.Process
	truth     map[string]bool // every entry that was seen in the journal: number, time and line
	sent      int
}

func (k *killing) start() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+k.dir, "CROWSNEST_JOURNAL_DIR="+k.root)
	cmd.Stderr = os.Stderr
	var err error
	k.proc, err = child.Start(cmd)
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = k.proc.End(os.Kill, time.Second) })
}

func (k *killing) kill() {
	require.True(k.t, k.proc.Running(), "the reader ended by itself")
	_ = k.proc.Signal(os.Kill)
	_ = k.proc.Wait()
}

// send writes lines, some of them long.
func (k *killing) send(n int) {
	for range n {
		k.sent++
		line := fmt.Sprintf("line %d %s", k.sent, strings.Repeat("x", k.rng.IntN(100)))
		if k.rng.IntN(50) == 0 {
			line += strings.Repeat(" and more of the same", 60)
		}
		require.NoError(k.t, k.s.Send(journald.Field{Name: "MESSAGE", Value: line}, journald.Field{Name: "SYSLOG_IDENTIFIER", Value: "p" + strconv.Itoa(k.rng.IntN(5))}))
	}
}

// look notes what is in the journal.
func (k *killing) look() {
	out, err := exec.Command("journalctl", "--directory="+k.s.Dir, "--quiet", "--all", "-o", "json").Output()
	require.NoError(k.t, err)
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var e struct {
			Cursor  string `json:"__CURSOR"`
			Time    string `json:"__REALTIME_TIMESTAMP"`
			Message any    `json:"MESSAGE"`
		}
		if dec.Decode(&e) == io.EOF {
			return
		}
		_, rest, _ := strings.Cut(e.Cursor, ";i=")
		number, _, _ := strings.Cut(rest, ";")
		n, err := strconv.ParseUint(number, 16, 64)
		require.NoError(k.t, err)
		k.truth[fmt.Sprintf("%d %s %v", n, e.Time, e.Message)] = true
	}
}

// caught waits until the reader has saved everything.
func (k *killing) caught() {
	k.s.Sync()
	k.look()
	ok := wait.Until(time.Minute, func() bool { return len(k.read()) >= len(k.truth) })
	require.True(k.t, ok, "read %d of %d", len(k.read()), len(k.truth))
}

func (k *killing) snapshot() (s snapshot) {
	b, err := os.ReadFile(filepath.Join(k.dir, "state"))
	if err == nil {
		require.NoError(k.t, json.Unmarshal(b, &s))
	}
	return s
}

// read returns how often each line was read, by the newest snapshot.
func (k *killing) read() map[string]int {
	out := map[string]int{}
	f, err := os.Open(filepath.Join(k.dir, "lines"))
	if err != nil {
		return out
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, k.snapshot().Size))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		out[lines.Text()]++
	}
	return out
}

func newKilling(t *testing.T, seed uint64, disk string) *killing {
	t.Helper()
	k := &killing{t: t, rng: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), root: t.TempDir(), truth: map[string]bool{}}
	k.s = journald.Start(t, journald.Options{
		Disk:   disk,
		Env:    []string{"SYSTEMD_JOURNAL_COMPACT=" + strconv.FormatUint(seed%2, 10)},
		Config: []string{"SystemMaxFileSize=600K", "SystemMaxUse=4G", "SystemKeepFree=1M", "SystemMaxFiles=1000"},
	})
	// Only this journal, under its real name.
	require.NoError(t, os.Mkdir(filepath.Join(k.root, filepath.Base(k.s.Dir)), 0o755))
	require.NoError(t, exec.Command("mount", "--bind", k.s.Dir, filepath.Join(k.root, filepath.Base(k.s.Dir))).Run())
	t.Cleanup(func() { _ = exec.Command("umount", filepath.Join(k.root, filepath.Base(k.s.Dir))).Run() })
	return k
}

// seedOf returns the seed of the plan.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("CROWSNEST_CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano()) % 1e6
	}
	t.Logf("CROWSNEST_CHAOS_SEED=%d", seed)
	return seed
}

// The reader is killed while lines are written, journald is killed and restarted, files
// are rotated, and vacuumed once they were read: each line is read once.
func TestKills(t *testing.T) {
	kills, crashes := 12, 3
	if os.Getenv("CROWSNEST_CHAOS") != "" {
		kills, crashes = 100, 20
	}
	k := newKilling(t, seedOf(t), "")
	k.start()
	for i := range kills {
		k.send(k.rng.IntN(400))
		if k.rng.IntN(4) == 0 {
			k.s.Sync()
			k.s.Rotate()
		}
		if i%(kills/crashes) == 1 {
			k.send(50)
			k.s.Kill()
			k.s.Launch()
		}
		if k.rng.IntN(6) == 0 {
			k.caught()
			k.s.Vacuum(2)
		}
		wait.Pause(t.Context(), time.Duration(k.rng.IntN(120))*time.Millisecond)
		k.kill()
		k.send(k.rng.IntN(100))
		k.start()
	}
	k.caught()
	twice := 0
	read := k.read()
	for line, n := range read {
		require.True(t, k.truth[line], "not in the journal: %.80s", line)
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d kills of the reader, %d of journald, %d lines sent, %d in the journal, %d read, %d twice", kills, crashes, k.sent, len(k.truth), len(read), twice)
	require.Zero(t, twice)
	require.Len(t, read, len(k.truth))
	st := k.snapshot().Status
	require.LessOrEqual(t, st.Losses[lostVacuumed].Count, int64(crashes), "a number of an entry that journald did not write")
	require.Zero(t, st.Losses[lostDamaged].Count)
}

// What is vacuumed while the reader does not run is counted exactly.
func TestVacuumedWhileDown(t *testing.T) {
	k := newKilling(t, seedOf(t), "")
	k.start()
	k.send(500)
	k.caught()
	k.kill()
	before := len(k.read())
	k.send(2000)
	k.s.Sync()
	k.s.Rotate()
	k.send(2000)
	k.s.Sync()
	k.s.Rotate()
	k.send(100)
	k.s.Sync()
	k.look()
	all := len(k.truth)
	k.s.Vacuum(1)
	k.truth = map[string]bool{}
	k.look()
	k.start()
	var read map[string]int
	require.True(t, wait.Until(time.Minute, func() bool {
		read = k.read()
		return int64(len(read))+k.snapshot().Status.Losses[lostVacuumed].Count >= int64(all)
	}))
	lost := k.snapshot().Status.Losses[lostVacuumed].Count
	t.Logf("%d entries, %d read before, %d after, %d reported as lost", all, before, len(read)-before, lost)
	require.Equal(t, int64(all), int64(len(read))+lost)
	require.Positive(t, lost)
}

// While the disk of the journal is full, journald removes old files and leaves out
// entries. What it keeps is read once.
func TestDiskFull(t *testing.T) {
	k := newKilling(t, seedOf(t), "6m")
	k.start()
	for range 20 {
		for range 800 {
			k.sent++
			noise := make([]byte, 1500)
			for i := range noise {
				noise[i] = 'a' + byte(k.rng.IntN(26))
			}
			require.NoError(t, k.s.Send(journald.Field{Name: "MESSAGE", Value: fmt.Sprintf("line %d %s", k.sent, noise)}))
		}
		k.kill()
		k.start()
	}
	k.s.Sync()
	k.look()
	full := len(k.truth)
	require.Less(t, full, k.sent, "the disk is not full")
	k.caught()
	k.s.Enlarge("60m")
	k.s.Stop() // it looks at the size of the disk again
	k.s.Launch()
	k.send(50)
	k.s.Sync()
	k.look()
	require.Greater(t, len(k.truth), full)
	var read map[string]int
	require.True(t, wait.Until(time.Minute, func() bool {
		read = k.read()
		for line := range k.truth {
			if read[line] == 0 {
				return false
			}
		}
		return true
	}), "an entry that is in the journal was not read")
	for line, n := range read {
		require.Equal(t, 1, n, "%.80s", line)
	}
	st := k.snapshot().Status
	t.Logf("%d lines sent, %d were in the journal, %d read, lost: %v", k.sent, len(k.truth), len(read), st.LossCounts())
	require.Empty(t, st.Error)
}
