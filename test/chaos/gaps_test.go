package chaos

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/daemon"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// gapAlert is the daemon's alert about lost lines.
const gapAlert = "CrowsnestLinesLost "

// planted gaps, by the expected reason.
var gapReasons = []string{"gap", "gzip", "removed", "truncated"}

// Every possible loss is counted, reported within a minute and kept over
// restarts; every line that was read is accounted for.
func TestGaps(t *testing.T) {
	t.Parallel()
	rounds := 1
	if long {
		rounds = 10
	}
	s := newScene(t, seed(t), options{
		writers: 2, load: load{perSecond: 300, pad: 100, maxSize: 1 << 20, planted: 100, period: 1000, quiet: true}, resend: 5 * time.Second,
	})
	s.p.start()
	s.p.ready()
	var slowest time.Duration
	for round := range rounds {
		slowest = max(slowest, s.plantGaps(round))
	}
	s.oddLines()
	s.p.kill()
	s.p.start()
	s.p.ready()
	good, bad := s.settle(40*time.Second, nil)
	for _, got := range []map[string]*heard{good, bad} {
		for _, reason := range gapReasons {
			h := got[gapAlert+reason]
			require.NotNil(t, h, "no alert for %s", reason)
			require.Equal(t, "firing", h.states, reason)
			delete(got, gapAlert+reason)
		}
	}
	s.judge(good, bad, nil)
	s.report(good, bad)
	t.Logf("%d rounds of %v: notified at most %v after the daemon could know", rounds, gapReasons, slowest.Round(time.Millisecond))
	require.LessOrEqual(t, slowest, promisedReport)
	eventually(t, 10*time.Second, "every gap is counted once", func() bool { return maps.Equal(s.savedLosses(), counts(int64(rounds))) })
	s.requireBalance()
}

func counts(n int64) map[string]int64 {
	out := map[string]int64{}
	for _, reason := range gapReasons {
		out[reason] = n
	}
	return out
}

// plantGaps loses lines in each possible way and returns the time until the
// last loss was notified.
func (s *scene) plantGaps(round int) time.Duration {
	s.t.Helper()
	t := s.t
	box := map[string]*kubesim.Container{}
	for _, reason := range gapReasons {
		c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "gaps", Pod: fmt.Sprintf("%s-%d", reason, round), Container: "c"})
		t.Cleanup(c.Close)
		box[reason] = c
		some(c, 50)
	}
	s.awaitSaved(box)
	before := s.savedLosses()

	s.p.term()
	for _, reason := range []string{"gap", "gzip", "removed"} {
		some(box[reason], 2000)
	}
	rotateTwice(t, box["gap"])
	require.NoError(t, os.Remove(rotatedGZ(t, box["gap"]))) // it contains the saved position
	rotateTwice(t, box["gzip"])
	gz := rotatedGZ(t, box["gzip"])
	fi, err := os.Stat(gz)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(gz, fi.Size()/2))
	require.NoError(t, os.RemoveAll(box["removed"].PodDir()))
	began := time.Now()
	s.p.start()
	s.p.ready()
	took := s.awaitLosses(before, began, "gap", "gzip", "removed")

	began = time.Now()
	s.p.Signal(syscall.SIGSTOP)
	some(box["truncated"], 20)
	require.NoError(t, os.Truncate(box["truncated"].Path(), 0))
	some(box["truncated"], 3)
	s.p.Signal(syscall.SIGCONT)
	took = max(took, s.awaitLosses(before, began, "truncated"))
	for _, c := range box {
		require.NoError(t, c.Err)
	}
	return took
}

func some(c *kubesim.Container, n int) {
	for i := range n {
		c.Write("stdout", fmt.Sprintf("line %d of a controller that is not looked for", i))
	}
}

// rotateTwice leaves one compressed and one uncompressed file.
func rotateTwice(t *testing.T, c *kubesim.Container) {
	t.Helper()
	c.Rotate()
	some(c, 10)
	c.Rotate()
	some(c, 10)
	require.NoError(t, c.Err)
}

func rotatedGZ(t *testing.T, c *kubesim.Container) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(c.Dir(), "*.gz"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// awaitSaved waits until the saved state contains the containers.
func (s *scene) awaitSaved(box map[string]*kubesim.Container) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, "positions are saved", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.p.StatePath(), "state"))
		for _, c := range box {
			if !strings.Contains(string(b), filepath.Base(c.PodDir())) {
				return false
			}
		}
		return len(b) > 0
	})
}

// awaitLosses waits until each reason is counted and notified, and returns how
// long that took.
func (s *scene) awaitLosses(before map[string]int64, began time.Time, reasons ...string) time.Duration {
	s.t.Helper()
	if !wait.Until(70*time.Second, func() bool {
		got, saved := hear(s.good.AM), s.savedLosses()
		for _, reason := range reasons {
			if got[gapAlert+reason] == nil || saved[reason] <= before[reason] {
				return false
			}
		}
		return true
	}) {
		s.t.Errorf("not all of %v was notified; counted %v", reasons, s.savedLosses())
	}
	return time.Since(began)
}

// savedLosses returns the losses in the saved state, by reason.
func (s *scene) savedLosses() map[string]int64 {
	out := map[string]int64{}
	b, _ := os.ReadFile(filepath.Join(s.p.StatePath(), "state"))
	_, rest, ok := strings.Cut(string(b), `"losses":`)
	if !ok {
		return out
	}
	var losses map[string]struct {
		Count int64 `json:"count"`
	}
	if json.NewDecoder(strings.NewReader(rest)).Decode(&losses) == nil {
		for reason, l := range losses {
			out[reason] = l.Count
		}
	}
	return out
}

// oddLines writes lines that are not evaluated as a whole: parts beyond the
// maximum merged line, and a line without its end.
func (s *scene) oddLines() {
	s.t.Helper()
	c := kubesim.New(kubesim.Options{Root: s.pods, Namespace: "gaps", Pod: "odd", Container: "chaos"})
	s.t.Cleanup(c.Close)
	part := strings.Repeat("x", 16<<10)
	for range 10 {
		c.Part("stdout", part)
	}
	c.Write("stdout", "the end of it")
	c.Write("stderr", strings.Repeat("y", 100<<10))
	c.Part("stderr", "a line whose end never comes")
	require.NoError(s.t, c.Err)
	eventually(s.t, 20*time.Second, "dropped parts are counted", func() bool { return s.dropped() > 0 })
	s.requireBalance()
}

const evaluatedLines = `crowsnest_source_evaluated_lines_total{source="kubelet"}`

func (s *scene) dropped() (n float64) {
	for name, v := range s.p.newest() {
		if strings.HasPrefix(name, "crowsnest_source_dropped_lines_total{") {
			n += v
		}
	}
	return n
}

// requireBalance waits until no partial line is pending; then every line that
// was read is accounted for.
func (s *scene) requireBalance() {
	s.t.Helper()
	var read, evaluated, dropped float64
	ok := wait.Until(15*time.Second, func() bool {
		m := s.p.newest()
		read, evaluated, dropped = m[daemon.LinesRead], m[evaluatedLines], s.dropped()
		return read > 0 && read == evaluated+dropped
	})
	s.t.Logf("lines read %.0f = evaluated %.0f + dropped %.0f", read, evaluated, dropped)
	require.True(s.t, ok, "lines read = evaluated + dropped")
}
