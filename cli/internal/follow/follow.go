// Package follow reads logs while they are being written. It reads them with the sources of the daemon, matches their
// lines and passes the hits to the engine.
package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/lab/inputs"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/sources/files"
	"crowsnest/sources/stdin"
)

const (
	pipeIdleTime = time.Second // time without new lines after which a pipe counts as completely read
	depth        = 8           // maximum depth of folders that are followed, including the top folder
	// maxStreams is the maximum number of containers in one pipe. Lines of further containers
	// are matched as lines of an unknown container.
	maxStreams = 512
	// pipeLabel is a label that identifies the stream of a pipe.
	pipeLabel = "pipe"
)

// Options configure Run.
type Options struct {
	Target replay.Target
	Follow replay.FollowOptions // options of the follower; Run sets Ordered and Reads
	Inputs inputs.Options
	// Flush is called after each block of lines and each evaluation. If it returns an error, Run ends with the error.
	Flush func() error
	// Skip is called for each file in a folder that does not contain a log. problem is the reason.
	Skip func(name, problem string)
}

// Result describes the lines that were read.
type Result struct {
	Report replay.Report
	Alerts int // number of alerts that fired
	Ended  bool
}

// Run follows the logs in args until ctx ends, or until all of them have ended, as pipes do. An argument is a file, a
// folder, a named pipe, or inputs.Stdin. In a folder, logs that are created later are also followed.
func Run(ctx context.Context, args []string, opt Options) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &pipeline{
		opt: opt, cancel: cancel, givenNames: map[string]string{}, logs: map[*matcher.Stream]*log{},
		read: map[string]time.Time{}, lastWrites: map[string]time.Time{}, pipes: map[string]bool{},
	}
	if err := f.findLogs(args); err != nil {
		return Result{}, err
	}
	f.opt.Follow.Ordered, f.opt.Follow.Reads = !f.several, f.reads()
	f.follower = replay.NewFollower(opt.Target, f.opt.Follow)
	errs := f.runSources(ctx)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	return f.finishReport(ctx.Err() == nil), errors.Join(errs...)
}

// pipeline implements sources.Pipeline for a command that follows logs. The streams of the sources only identify the
// logs. Lines are matched with other streams, which accept unknown labels and times inside the text, as in scan.
type pipeline struct {
	sources.Pipeline // nil, because the sources of this package call only the methods below

	opt        Options
	cancel     context.CancelCauseFunc
	sources    []sources.Source
	givenNames map[string]string // names of files and folders in the form of the arguments; the key is the real path
	pipes      map[string]bool   // names of sources that are pipes
	folders    bool              // whether further logs may be created later
	several    bool              // whether there may be more than one log

	mu         sync.Mutex
	follower   *replay.Follower
	logs       map[*matcher.Stream]*log
	read       map[string]time.Time // time up to which each source has been read
	lastWrites map[string]time.Time // time of the last write to each pipe
}

func (f *pipeline) findLogs(args []string) error {
	f.several = len(args) > 1
	var named, below []files.Path
	for _, arg := range args {
		if arg == inputs.Stdin {
			f.addPipe("stdin", f.opt.Inputs.Stdin)
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			pipe, err := os.Open(arg)
			if err != nil {
				return err
			}
			f.addPipe(arg, pipe)
			continue
		}
		real, err := realPath(arg)
		if err != nil {
			return err
		}
		f.givenNames[real] = arg
		if !info.IsDir() {
			if err := checkText(arg); err != nil {
				return err
			}
			named = append(named, files.Path{Path: escapeGlob(real)})
			continue
		}
		f.several, f.folders = true, true
		for n := range depth {
			below = append(below, files.Path{Path: escapeGlob(real) + strings.Repeat("/*", n+1)})
		}
		below = append(f.linkTargets(arg), below...)
	}
	// Named files are read from their start. Logs in folders are read with their rotated files.
	for name, paths := range map[string][]files.Path{"files": named, "folders": below} {
		if len(paths) > 0 {
			f.sources = append(f.sources, files.New(files.Config{
				Common: sources.Common{Name: name}, Paths: paths, LookBack: -1, FromStart: true, Newest: name == "files",
			}))
		}
	}
	return nil
}

func (f *pipeline) addPipe(name string, r io.Reader) {
	if !f.pipes[name] {
		f.pipes[name] = true
		f.sources = append(f.sources, stdin.New(stdin.Config{Common: sources.Common{Name: name}, Reader: r, Labels: map[string]string{pipeLabel: name}}))
	}
}

// linkTargets returns the targets of the symbolic links to files in a folder, such as /var/log/containers. It is needed
// because sources do not follow links below a folder.
func (f *pipeline) linkTargets(dir string) (out []files.Path) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return nil //nolint:nilerr // the source reports files that cannot be read
		}
		info, err := os.Stat(path)
		real, realErr := realPath(path)
		if err == nil && realErr == nil && info.Mode().IsRegular() && f.givenNames[real] == "" {
			f.givenNames[real] = path
			out = append(out, files.Path{Path: escapeGlob(real)})
		}
		return nil
	})
	return out
}

func checkText(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, _ := io.ReadFull(f, head) // an error is ignored here, because the source reports files that cannot be read
	if problem := inputs.Problem(path, head[:n]); problem != "" {
		return fmt.Errorf("%s %s", path, problem)
	}
	return nil
}

func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (f *pipeline) shownName(real string) string {
	for folder := real; ; folder = filepath.Dir(folder) {
		if given := f.givenNames[folder]; given != "" {
			return given + strings.TrimPrefix(real, folder)
		}
		if folder == filepath.Dir(folder) {
			return real
		}
	}
}

// logLabels returns the labels of a log. real is the real path of its file, or "" for a pipe. Logs with an unknown pod
// get different labels, so that they are not confused.
func (f *pipeline) logLabels(name, real string) matcher.Labels {
	path := name
	if real == "" {
		path = ""
	}
	labels := inputs.LabelsOf(path, f.opt.Inputs)
	if len(labels) == len(f.opt.Inputs.Labels) && real != "" {
		labels = inputs.LabelsOf(real, f.opt.Inputs)
	}
	if labels["namespace"] == "" && labels["pod"] == "" && labels["node_name"] == "" && f.several {
		labels[replay.FileLabel] = name
	}
	return labels
}

// reads returns a function that reports whether a selector can match a stream in the logs. It returns nil if every
// selector can.
func (f *pipeline) reads() func(rules.Selector) bool {
	if f.folders {
		return nil // further logs with any labels may be created
	}
	var all []matcher.Labels
	for real, name := range f.givenNames {
		all = append(all, f.logLabels(name, real))
	}
	for name := range f.pipes {
		all = append(all, f.logLabels(name, ""))
	}
	return func(from rules.Selector) bool {
		return slices.ContainsFunc(all, func(labels matcher.Labels) bool {
			return f.opt.Follow.Scan.Lenient && from.MayMatch(labels) || from.Matches(labels, false)
		})
	}
}

func (f *pipeline) runSources(ctx context.Context) []error {
	var wg sync.WaitGroup
	for _, s := range f.sources {
		f.read[s.Name()], f.lastWrites[s.Name()] = time.Time{}, f.opt.Follow.Clock()
	}
	errs := make([]error, len(f.sources))
	for i, s := range f.sources {
		wg.Go(func() {
			errs[i] = s.Run(ctx, f)
			f.endSource(s.Name())
		})
	}
	wg.Wait()
	return errs
}

type log struct {
	name      string
	source    string // name of the pipe; "" for a file
	labels    matcher.Labels
	began     bool
	refused   bool
	timed     bool
	open      []byte            // incomplete last line of a pipe
	unwrapper *inputs.Unwrapper // removes the log header from lines; nil before the first lines
	streams   map[envelope.Place]*matcher.Stream
	order     []*envelope.Place // origins of the streams, ordered by creation of the streams
}

// Scan implements sources.Pipeline.
func (f *pipeline) Scan(s *matcher.Stream, block []byte, commit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	commit()
	if len(block) == 0 {
		return
	}
	l := f.findLog(s)
	if l.refused {
		return
	}
	now := f.opt.Follow.Clock()
	if l.source != "" {
		f.lastWrites[l.source] = now
		if l.open = nil; block[len(block)-1] != '\n' {
			l.open = bytes.Clone(block) // the source will pass the complete line again
			return
		}
	}
	f.scanBlock(l, block, now)
}

func (f *pipeline) scanBlock(l *log, block []byte, now time.Time) {
	if !l.began {
		l.began = true
		if problem := inputs.Problem(l.name, block); problem != "" {
			if l.refused = true; l.source != "" {
				f.cancel(fmt.Errorf("%s %s", l.name, problem))
			} else {
				f.opt.Skip(l.name, problem)
			}
			return
		}
	}
	f.matchParts(l, l.unwrapLines(block, now), now)
}

func (f *pipeline) matchParts(l *log, parts []inputs.Unwrapped, now time.Time) {
	for _, p := range parts {
		var first time.Time
		for line := range bytes.Lines(p.Lines) {
			if l.timed {
				break
			}
			first, l.timed = matcher.TimeOf(bytes.TrimRight(line, "\r\n"), now)
		}
		last := bytes.TrimRight(p.Lines, "\r\n")
		read, _ := matcher.TimeOf(last[bytes.LastIndexByte(last, '\n')+1:], now)
		name, stream := l.findStream(p.Place, f.opt)
		if !first.IsZero() {
			stream.SetStart(first)
		}
		f.follower.Take(name, f.opt.Target.Program.Scan(stream, p.Lines, now), read)
	}
	f.flushOutput()
}

// unwrapLines removes the log header that another tool added to each line. It does nothing if the path of the log
// states the pod.
func (l *log) unwrapLines(block []byte, now time.Time) []inputs.Unwrapped {
	if l.labels["pod"] != "" && l.labels["container"] != "" {
		return []inputs.Unwrapped{{Place: unknown, Lines: block}}
	}
	if l.unwrapper == nil {
		l.unwrapper = inputs.NewUnwrapper(now)
	}
	return l.unwrapper.Lines(block)
}

var unknown = new(envelope.Place)

func (l *log) findStream(place *envelope.Place, opt Options) (string, *matcher.Stream) {
	s := l.streams[*place]
	if s == nil && *place != *unknown && len(l.streams) >= maxStreams {
		return l.findStream(unknown, opt)
	}
	name := l.name
	if who := inputs.NameOf(place); who != "" {
		name += "[" + who + "]"
	}
	if s == nil {
		labels := maps.Clone(l.labels)
		inputs.SetPlace(labels, place, name)
		s = matcher.NewStream(labels, matcher.StreamOptions{Lenient: opt.Follow.Scan.Lenient, TextTime: true, Join: matcher.JoinStream})
		s.SetOffset(0)
		l.streams[*place] = s
		l.order = append(l.order, place)
	}
	return name, s
}

func (f *pipeline) findLog(s *matcher.Stream) *log {
	l := f.logs[s]
	if l == nil {
		pipe, real := s.Labels()[pipeLabel], s.Labels()["filename"]
		l = &log{name: pipe, source: pipe, streams: map[envelope.Place]*matcher.Stream{}}
		if pipe == "" {
			l.name = f.shownName(real)
		}
		l.labels = f.logLabels(l.name, real)
		f.logs[s] = l
	}
	return l
}

// Flush implements sources.Pipeline.
func (f *pipeline) Flush(s *matcher.Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l := f.logs[s]; l != nil {
		f.flushLog(l)
		f.flushOutput()
	}
}

func (f *pipeline) flushLog(l *log) {
	for _, place := range l.order {
		name, stream := l.findStream(place, f.opt)
		f.follower.Take(name, f.opt.Target.Program.Flush(stream, f.opt.Follow.Clock()), time.Time{})
	}
}

// AdvanceWatermark implements sources.Pipeline. It records the time up to which a source was read, which is no later
// than the time of any lagging stream.
func (f *pipeline) AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream) {
	for _, l := range lagging {
		t = times.Min(t, l.ReadUpTo)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pipes[source] && f.opt.Follow.Clock().Sub(f.lastWrites[source]) < pipeIdleTime {
		return // the lines that are still arriving in a pipe may be old
	}
	f.read[source] = t
	f.passProgress()
}

func (f *pipeline) passProgress() {
	if len(f.read) == 0 {
		return
	}
	all := slices.MinFunc(slices.Collect(maps.Values(f.read)), time.Time.Compare)
	if !all.IsZero() {
		f.follower.Advance(all)
		f.flushOutput()
	}
}

func (f *pipeline) endSource(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.logs {
		if l.source != source {
			continue
		}
		if open := l.open; len(open) > 0 {
			l.open = nil
			f.scanBlock(l, open, f.opt.Follow.Clock())
		}
		if l.unwrapper != nil {
			f.matchParts(l, l.unwrapper.End(), f.opt.Follow.Clock())
		}
		f.flushLog(l)
	}
	if delete(f.read, source); len(f.read) > 0 {
		f.passProgress()
	}
}

func (f *pipeline) flushOutput() {
	if err := f.opt.Flush(); err != nil {
		f.cancel(err)
	}
}

// finishReport returns the result. ended is whether all logs have ended.
func (f *pipeline) finishReport(ended bool) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := f.follower.Finish(ended)
	f.flushOutput()
	for _, l := range f.logs {
		lines := int64(0)
		for _, s := range l.streams {
			c := s.Counters()
			lines += c.Lines
			report.Bytes += c.Bytes
			report.Dropped += c.Dropped
		}
		report.Lines += lines
		report.Inputs++
		if lines > 0 && !l.timed {
			report.Untimed = append(report.Untimed, l.name)
		}
	}
	slices.Sort(report.Untimed)
	return Result{Report: report, Alerts: f.follower.Alerts(), Ended: ended}
}

// Rules implements sources.Pipeline.
func (f *pipeline) Rules() *rules.Set { return f.opt.Target.Set }
