package follow

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/lab/inputs"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources/kubelet"
	"crowsnest/test/wait"
)

const pack = `
pack: {name: demo, version: 0.1.0}
rules:
- alert: Lost
  from: '{container="syncer"}'
  match: "leaderelection lost"
  severity: critical
`

func target(t *testing.T) replay.Target {
	t.Helper()
	doc, problems := rules.Parse(rules.File{Name: "demo.yaml", Data: []byte(pack)})
	require.Empty(t, problems.Errors())
	set, problems := rules.Build([]*rules.Document{doc}, rules.Options{})
	require.Empty(t, problems.Errors())
	program, err := matcher.CompileOpen(set)
	require.NoError(t, err)
	return replay.Target{Set: set, Program: program}
}

// run is a run of Run that collects hits.
type run struct {
	t       *testing.T
	mu      sync.Mutex
	hits    []string // file, labels and line of each
	skipped []string
	stop    context.CancelFunc
	done    chan struct{}
	res     Result
	err     error
}

func start(t *testing.T, in io.Reader, args ...string) *run {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{t: t, stop: cancel, done: make(chan struct{})}
	opt := inputs.Options{PathLabels: kubelet.PathLabels, Stdin: in}
	go func() {
		defer close(r.done)
		r.res, r.err = Run(ctx, args, Options{
			Target: target(t), Inputs: opt, Flush: func() error { return nil },
			Skip: func(name, problem string) { r.skipped = append(r.skipped, name+" "+problem) },
			Follow: replay.FollowOptions{Clock: time.Now, Scan: replay.ScanOptions{
				Lenient: true, HitsOnly: true,
				OnHits: func(file string, hits []matcher.Hit) {
					r.mu.Lock()
					defer r.mu.Unlock()
					for _, h := range hits {
						r.hits = append(r.hits, strings.Join([]string{file, h.Labels["pod"], h.Labels[replay.FileLabel], h.Line}, "|"))
					}
				},
			}},
		})
	}()
	t.Cleanup(func() { r.end() })
	return r
}

func (r *run) shows(hit string) {
	r.t.Helper()
	if !wait.Until(time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.Contains(r.hits, hit)
	}) {
		r.t.Fatalf("no hit %q in %q", hit, r.hits)
	}
}

func (r *run) end() Result {
	r.stop()
	<-r.done
	require.NoError(r.t, r.err)
	return r.res
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func lost(n string) string {
	return "2026-01-01T00:00:0" + n + ".000000000Z stderr F leaderelection lost " + n + "\n"
}

// In a folder, all logs are followed: those that exist, those that are linked, and those
// that are made later. What is not a log is named.
func TestFolder(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "team-a_vc-0_1b2c", "syncer", "0.log"), lost("1"))
	write(t, filepath.Join(other, "linked.log"), lost("2"))
	require.NoError(t, os.Symlink(filepath.Join(other, "linked.log"), filepath.Join(dir, "link.log")))
	write(t, filepath.Join(dir, "notes.yaml"), "a: 1\n")
	r := start(t, nil, dir)
	pod := func(name string) string { return filepath.Join(dir, name, "syncer", "0.log") }
	r.shows(pod("team-a_vc-0_1b2c") + "|vc-0||leaderelection lost 1")
	link := filepath.Join(dir, "link.log")
	r.shows(link + "||" + link + "|leaderelection lost 2")
	write(t, pod("team-b_vc-1_1b2c"), lost("3"))
	r.shows(pod("team-b_vc-1_1b2c") + "|vc-1||leaderelection lost 3")
	write(t, filepath.Join(other, "linked.log"), lost("4"))
	r.shows(link + "||" + link + "|leaderelection lost 4")
	res := r.end()
	require.False(t, res.Ended)
	require.EqualValues(t, 4, res.Report.Hits)
	require.EqualValues(t, 4, res.Report.Lines)
	require.Equal(t, []string{filepath.Join(dir, "notes.yaml") + " is YAML, not a log"}, r.skipped)
}

// Files and pipes together: the end of a pipe ends only the pipe.
func TestFilesAndPipes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "odd[1]*.log")
	write(t, file, lost("1"))
	write(t, file+".1", lost("0"))
	in, feed := io.Pipe()
	r := start(t, in, file, inputs.Stdin)
	r.shows(file + "||" + file + "|leaderelection lost 1")
	write(t, file, lost("2"))
	r.shows(file + "||" + file + "|leaderelection lost 2")
	_, err := io.WriteString(feed, "[pod/a/syncer] "+lost("3")+"[pod/b/syncer] "+lost("4")+lost("5"))
	require.NoError(t, err)
	r.shows("stdin[a/syncer]|a|stdin|leaderelection lost 3")
	r.shows("stdin[b/syncer]|b|stdin|leaderelection lost 4")
	r.shows("stdin||stdin|leaderelection lost 5")
	require.NoError(t, feed.Close())
	write(t, file, lost("6"))
	r.shows(file + "||" + file + "|leaderelection lost 6")
	require.EqualValues(t, 6, r.end().Report.Hits, "the rotated file before the named one is not read")
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	f := func(in io.Reader, arg, want string) {
		t.Helper()
		r := start(t, in, arg)
		<-r.done
		require.ErrorContains(t, r.err, want)
		r.err = nil
	}
	for name, content := range map[string]string{"x.zip": "PK\x03\x04\n", "x.gz": "\x1f\x8b\n", "x.yaml": "a: 1\n"} {
		write(t, filepath.Join(dir, name), content)
		f(nil, filepath.Join(dir, name), name+" is ")
	}
	f(nil, filepath.Join(dir, "none"), "no such file")
	f(strings.NewReader("PK\x03\x04\n"), inputs.Stdin, "stdin is ")
}
