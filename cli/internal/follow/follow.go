// Package follow reads logs while they are written, with the sources of the daemon, and
// passes what matches to the engine.
package follow

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"crowsnest/internal/times"
	"crowsnest/lab/inputs"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
	"crowsnest/rules"
	"crowsnest/sources"
)

// quiet is how long a pipe must be silent until all of it counts as read.
const quiet = time.Second

// Options configure Run.
type Options struct {
	Target replay.Target
	Follow replay.FollowOptions
	Inputs inputs.Options
	// Flush is called after each block of lines and after each conclusion. An error ends
	// the reading.
	Flush func() error
}

// Result is what was read.
type Result struct {
	Report  replay.Report
	Alerts  int // number of alerts that fired
	Ended   bool
	Skipped []inputs.Skipped
}

// Run follows the logs until ctx ends, or until all of them have ended, as pipes do.
func Run(ctx context.Context, logs *Logs, opt Options) (Result, error) {
	f := &pipeline{
		opt: opt, logs: map[*matcher.Stream]*log{}, named: logs, skipped: map[string][]string{},
		read: map[string]time.Time{}, moved: map[string]time.Time{},
	}
	f.opt.Follow.Ordered = logs.single()
	f.follower = replay.NewFollower(opt.Target, f.opt.Follow)
	ctx, f.cancel = context.WithCancelCause(ctx)
	defer f.cancel(nil)
	errs := f.run(ctx)
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	return f.finish(ctx.Err() == nil), errors.Join(errs...)
}

// run runs the sources to their end.
func (f *pipeline) run(ctx context.Context) (errs []error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range f.named.sources {
		f.read[s.Name()], f.moved[s.Name()] = time.Time{}, f.opt.Follow.Clock()
	}
	for _, s := range f.named.sources {
		wg.Go(func() {
			err := s.Run(ctx, f)
			f.end(s.Name())
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errs
}

// pipeline is the sources.Pipeline of a command that follows logs. The streams of the
// sources only name the logs: lines are matched with streams that accept unknown labels
// and times in texts, as scan does.
type pipeline struct {
	opt    Options
	named  *Logs
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	follower *replay.Follower
	logs     map[*matcher.Stream]*log
	read     map[string]time.Time // up to which each source was read
	moved    map[string]time.Time // when each pipe wrote last
	skipped  map[string][]string  // names by problem
}

var _ sources.Pipeline = (*pipeline)(nil)

// log is one log that is followed.
type log struct {
	name      string
	source    string // name of the pipe; a file has none
	labels    matcher.Labels
	began     bool
	refused   bool
	timed     bool
	open      []byte            // a line of a pipe whose end has not arrived
	unwrapper *inputs.Unwrapper // nil before the first lines
	streams   map[envelope.Place]*matcher.Stream
	order     []*envelope.Place // places of the streams, in their order
}

// Scan implements sources.Pipeline.
func (f *pipeline) Scan(s *matcher.Stream, block []byte, commit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	commit()
	if len(block) == 0 {
		return
	}
	l := f.log(s)
	if l.refused {
		return
	}
	now := f.opt.Follow.Clock()
	if l.source != "" {
		f.moved[l.source] = now
		if l.open = nil; block[len(block)-1] != '\n' {
			l.open = bytes.Clone(block) // the source shows the whole line again
			return
		}
	}
	f.scan(l, block, now)
}

func (f *pipeline) scan(l *log, block []byte, now time.Time) {
	if !l.began {
		l.began = true
		if problem := inputs.Problem(l.name, block); problem != "" {
			l.refused = true
			f.skipped[problem] = append(f.skipped[problem], l.name)
			return
		}
	}
	f.take(l, l.unwrap(block, now), now)
}

// take matches lines without their envelope.
func (f *pipeline) take(l *log, parts []inputs.Unwrapped, now time.Time) {
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
		name, stream := l.stream(p.Place, f.opt)
		if !first.IsZero() {
			stream.Began(first)
		}
		f.follower.Take(name, f.opt.Target.Program.Scan(stream, p.Lines, now), read)
	}
	f.flush()
}

// unwrap takes the envelope off lines. The path of a log states its pod better than lines.
func (l *log) unwrap(block []byte, now time.Time) []inputs.Unwrapped {
	if l.labels["pod"] != "" && l.labels["container"] != "" {
		return []inputs.Unwrapped{{Place: unknown, Lines: block}}
	}
	if l.unwrapper == nil {
		l.unwrapper = inputs.NewUnwrapper(now)
	}
	return l.unwrapper.Lines(block)
}

var unknown = new(envelope.Place)

// maxStreams bounds the containers in one pipe. Lines of further ones are matched as those
// of an unknown one.
const maxStreams = 512

// stream returns the name and the stream of a container in a log.
func (l *log) stream(place *envelope.Place, opt Options) (string, *matcher.Stream) {
	s := l.streams[*place]
	if s == nil && *place != *unknown && len(l.streams) >= maxStreams {
		return l.stream(unknown, opt)
	}
	name := l.name
	if who := inputs.NameOf(place); who != "" {
		name += "[" + who + "]"
	}
	if s == nil {
		labels := maps.Clone(l.labels)
		inputs.SetPlace(labels, place, name)
		s = matcher.NewStream(labels, matcher.StreamOptions{Lenient: opt.Follow.Scan.Lenient, TextTime: true, Join: matcher.JoinStream})
		s.Place(0)
		l.streams[*place] = s
		l.order = append(l.order, place)
	}
	return name, s
}

// log returns the log of a source's stream.
func (f *pipeline) log(s *matcher.Stream) *log {
	l := f.logs[s]
	if l == nil {
		l = f.named.log(s, f.opt.Inputs)
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
		f.flush()
	}
}

func (f *pipeline) flushLog(l *log) {
	for _, place := range l.order {
		name, stream := l.stream(place, f.opt)
		f.follower.Take(name, f.opt.Target.Program.Flush(stream, f.opt.Follow.Clock()), time.Time{})
	}
}

// AdvanceWatermark implements sources.Pipeline. Everything waits for lagging streams.
func (f *pipeline) AdvanceWatermark(source string, t time.Time, lagging ...matcher.LaggingStream) {
	for _, l := range lagging {
		t = times.Earlier(t, l.ReadUpTo)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, pipe := f.named.pipes[source]; pipe && f.opt.Follow.Clock().Sub(f.moved[source]) < quiet {
		return // the lines may be history
	}
	f.read[source] = t
	f.advance()
}

// advance passes on the time up to which every source was read.
func (f *pipeline) advance() {
	if len(f.read) == 0 {
		return
	}
	all := slices.MinFunc(slices.Collect(maps.Values(f.read)), time.Time.Compare)
	if !all.IsZero() {
		f.follower.Advance(all)
		f.flush()
	}
}

// end is called when a source has ended.
func (f *pipeline) end(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.logs {
		if l.source != source {
			continue
		}
		if open := l.open; len(open) > 0 {
			l.open = nil
			f.scan(l, open, f.opt.Follow.Clock())
		}
		if l.unwrapper != nil {
			f.take(l, l.unwrapper.End(), f.opt.Follow.Clock())
		}
		f.flushLog(l)
	}
	if delete(f.read, source); len(f.read) > 0 {
		f.advance()
	}
}

func (f *pipeline) flush() {
	if err := f.opt.Flush(); err != nil {
		f.cancel(err)
	}
}

// finish returns what was read. ended means that all logs have ended.
func (f *pipeline) finish(ended bool) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	report := f.follower.Finish(ended)
	f.flush()
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
	res := Result{Report: report, Alerts: f.follower.Alerts(), Ended: ended}
	for _, problem := range slices.Sorted(maps.Keys(f.skipped)) {
		res.Skipped = append(res.Skipped, inputs.Skipped{Problem: problem, Names: f.skipped[problem]})
	}
	return res
}

// Match implements sources.Pipeline; no source of this package calls it.
func (f *pipeline) Match(*matcher.Stream, matcher.Record, func()) {}

// Ingest implements sources.Pipeline; no source of this package calls it.
func (f *pipeline) Ingest(func(*rules.Set) []matcher.Hit, func()) {}

// Rules implements sources.Pipeline.
func (f *pipeline) Rules() *rules.Set { return f.opt.Target.Set }

// AddMember implements sources.Pipeline; no source of this package has members.
func (f *pipeline) AddMember(string) {}

// RemoveMember implements sources.Pipeline.
func (f *pipeline) RemoveMember(string) {}

// PodDeleted implements sources.Pipeline; no source of this package knows pods.
func (f *pipeline) PodDeleted(matcher.Labels, time.Time) {}
