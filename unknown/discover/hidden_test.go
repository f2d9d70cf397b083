package discover

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/test/traffic"
)

// hidden is an incident among healthy logs.
type hidden struct {
	name  string
	lines []string
	// root are the numbers of the lines that report the failure.
	root map[int64]bool
}

// hiddenLogs returns the incidents of the corpus that deserve an alert, and the healthy logs.
func hiddenLogs(t *testing.T) (incidents, healthy []hidden) {
	t.Helper()
	e := marks(t)
	index, err := os.ReadFile(filepath.Join(corpus, "INDEX.tsv"))
	require.NoError(t, err)
	benign := map[string]bool{}
	for row := range strings.Lines(string(index)) {
		f := strings.Split(row, "\t")
		benign[filepath.Join(corpus, f[0])] = strings.HasPrefix(f[5], "benign")
	}
	for _, path := range e.files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		h := hidden{name: filepath.Base(path), root: map[int64]bool{}}
		h.lines = strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		for n := range e.lines[path] {
			h.root[n] = true
		}
		switch {
		case strings.Contains(path, "/N-"):
			healthy = append(healthy, h)
		case !benign[path] && len(h.root) > 0:
			incidents = append(incidents, h)
		}
	}
	return incidents, healthy
}

// over is how long the healthy logs last; the incident begins after three quarters.
const over = 4 * time.Hour

// during writes lines with the times of a container runtime, from one time to another; it
// repeats them.
func during(lines []string, from, to time.Time, every time.Duration) string {
	var b bytes.Buffer
	at := from
	for at.Before(to) {
		for _, l := range lines {
			fmt.Fprintf(&b, "%s stderr F %s\n", at.Format(time.RFC3339Nano), l)
			at = at.Add(10 * time.Millisecond)
		}
		at = at.Add(every)
	}
	return b.String()
}

// sometimes writes each line at a tenth of the times, so that lines occur for the first time
// long after the logs begin.
func sometimes(lines []string, from, to time.Time) string {
	r := rand.New(rand.NewPCG(1, uint64(len(lines))))
	var b bytes.Buffer
	for at := from; at.Before(to); at = at.Add(10 * time.Minute) {
		fmt.Fprintf(&b, "%s stderr F the log goes on\n", at.Format(time.RFC3339Nano))
		for _, l := range lines {
			if r.IntN(10) == 0 {
				fmt.Fprintf(&b, "%s stderr F %s\n", at.Add(time.Second).Format(time.RFC3339Nano), l)
			}
		}
	}
	return b.String()
}

// ofPod returns an input with the labels of a pod.
func ofPod(name, log string) Input {
	name = strings.TrimSuffix(name, ".log")
	return Input{
		Name: name, Labels: matcher.Labels{"namespace": "infra", "pod": name + "-0", "container": name},
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil },
	}
}

// rankOf returns the place of the root line of an incident among healthy logs; 0: it has none.
func rankOf(t *testing.T, incident hidden, healthy []Input, log func(hidden) Input) int {
	t.Helper()
	in := log(incident)
	f, root := seek(t, func(input string, line int64) bool {
		return input == in.Name && incident.root[(line-1)%int64(len(incident.lines))+1]
	})
	for _, h := range healthy {
		require.NoError(t, f.Read(h))
	}
	require.NoError(t, f.Read(in))
	return placeOf(f, root)
}

// seek returns a Finder and the keys that it finds in root lines.
func seek(t *testing.T, isRoot func(input string, line int64) bool) (*Finder, map[uint64]bool) {
	t.Helper()
	f, err := New(nil, Options{Lenient: true, Now: now})
	require.NoError(t, err)
	root := map[uint64]bool{}
	f.onCount = func(key uint64, input string, line int64) {
		if isRoot(input, line) {
			root[key] = true
		}
	}
	return f, root
}

// placeOf returns the place of the first entry with one of the keys, 0 if there is none.
func placeOf(f *Finder, root map[uint64]bool) int {
	for i, g := range f.rank() {
		for key := range root {
			if slices.Contains(g.members, f.patterns.byKey[key]) {
				return i + 1
			}
		}
	}
	return 0
}

// first is how many entries a person reads.
const first = 10

// The line that reports the failure of an incident is among the first entries, although
// many healthy logs complain as well: as the files are, and over hours in which the incident
// begins late. Halves of the incidents, by the hash of their names, do about as well: the points
// were chosen by the first one.
func TestHiddenIncidents(t *testing.T) {
	incidents, healthy := hiddenLogs(t)
	start := now.Add(-over)
	for _, way := range []struct {
		name  string
		least float64
		log   func(h hidden, ill bool) Input
	}{
		{"as they are", 0.9, func(h hidden, _ bool) Input { return ofPod(h.name, strings.Join(h.lines, "\n")+"\n") }},
		{"over hours", 0.95, func(h hidden, ill bool) Input {
			if ill {
				return ofPod(h.name, during(h.lines, start.Add(over*3/4), now, 2*time.Minute))
			}
			return ofPod(h.name, during(h.lines, start, now, 20*time.Minute))
		}},
		{"once", 0.95, func(h hidden, ill bool) Input {
			if ill {
				return ofPod(h.name, during(h.lines, start.Add(over*3/4), start.Add(over*3/4+time.Millisecond), time.Hour))
			}
			return ofPod(h.name, during(h.lines, start, now, 20*time.Minute))
		}},
		{"sporadic", 0.95, func(h hidden, ill bool) Input {
			if ill {
				return ofPod(h.name, during(h.lines, start.Add(over*3/4), now, 2*time.Minute))
			}
			return ofPod(h.name, sometimes(h.lines, start, now))
		}},
	} {
		var quiet []Input
		for _, h := range healthy {
			quiet = append(quiet, way.log(h, false))
		}
		requireFound(t, way.name, way.least, incidents, func(x hidden) int {
			return rankOf(t, x, quiet, func(h hidden) Input { return way.log(h, true) })
		})
	}
}

// requireFound requires that the root lines of at least a share of the incidents are among
// the first entries.
func requireFound(t *testing.T, way string, least float64, incidents []hidden, rank func(hidden) int) {
	t.Helper()
	var found, all [2]int
	var missed []string
	for _, x := range incidents {
		h := fnv.New32a()
		_, _ = h.Write([]byte(x.name))
		half := h.Sum32() % 2
		all[half]++
		if n := rank(x); n > 0 && n <= first {
			found[half]++
		} else {
			missed = append(missed, fmt.Sprintf("%s:%d", x.name, n))
		}
	}
	t.Logf("%s: %d of %d and %d of %d; missed: %s", way, found[0], all[0], found[1], all[1], strings.Join(missed, " "))
	require.GreaterOrEqual(t, float64(found[0]+found[1]), least*float64(all[0]+all[1]), way)
}

// withoutTimes reads a log whose lines have no times.
func withoutTimes(f *Finder, name string, lines ...string) {
	in := ofPod(name, "")
	s := f.openStream(matcher.NewStream(in.Labels, matcher.StreamOptions{Lenient: true, Join: matcher.JoinStream}), in.Name)
	f.countLines(s, f.prog.ScanInto(f.buf, s.Stream, []byte(strings.Join(lines, "\n")+"\n"), now), f.buf.Complaints())
	f.countLines(s, f.prog.FlushInto(f.buf, s.Stream, now), f.buf.Complaints())
	f.closeStream(s)
}

// The same, where no line has a time and the incident is once in the middle of a long healthy
// log of another program.
func TestIncidentPastedIntoLog(t *testing.T) {
	incidents, healthy := hiddenLogs(t)
	var long [2][]string
	for i := range long {
		log := traffic.Bytes(500_000, traffic.Options{Seed: uint64(i), Match: 1e-9, Near: 1e-9})
		long[i] = strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	}
	requireFound(t, "pasted", 0.95, incidents, func(x hidden) int {
		at := len(long[0]) / 2
		f, root := seek(t, func(input string, line int64) bool { return input == "pasted" && x.root[line-int64(at)] })
		for _, h := range healthy {
			withoutTimes(f, h.name, h.lines...)
		}
		withoutTimes(f, "long", long[1]...)
		withoutTimes(f, "pasted", slices.Concat(long[0][:at], x.lines, long[0][at:])...)
		return placeOf(f, root)
	})
}
