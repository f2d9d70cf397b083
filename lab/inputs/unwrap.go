package inputs

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"time"

	"crowsnest/internal/times"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// Limits of the part at the beginning of an input from which the log headers of other tools are determined.
const (
	probeSize   = 256 << 10
	decodeBlock = 64 << 10
)

// probeResult is the result of decoding the beginning of an input.
type probeResult struct {
	tally
	wrapped bool
	until   time.Time // value for Until of the input; zero if no line states a year
}

// oldest is a time before Kubernetes wrote logs. An earlier timestamp comes from a clock that was not set, or from a
// tool that packs files without their times.
var oldest = time.Date(2014, 1, 1, 0, 0, 0, 0, time.UTC)

// laterLines is the maximum time by which lines without a year may follow a line with a year. Lines before that line
// may then be up to two months older than it.
const laterLines = 300 * 24 * time.Hour

// look decodes the beginning of an input. whole reports whether the input ends within this part.
func look(r io.Reader) (p probeResult, whole bool, err error) {
	var newest time.Time // newest time of a line with a year; here lines without a year get a time long ago
	d := envelope.New(time.Time{}, func(l envelope.Line) {
		t := l.Time
		if t.Before(oldest) {
			t, _ = matcher.TimeOf(l.Text, time.Time{})
		}
		newest = times.Max(newest, t)
		p.lines++
		if l.Understood {
			p.understood++
		}
	})
	buf := make([]byte, probeSize)
	n, err := io.ReadFull(r, buf)
	whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if whole {
		err = nil
	}
	buf = buf[:n]
	long := false // whether the first line is longer than the part that was read
	if !whole {
		buf = buf[:bytes.LastIndexByte(buf, '\n')+1]
		if len(buf) == 0 {
			buf, long = buf[:n], true
		}
	}
	if allBare(buf[:min(len(buf), 4<<10)]) {
		return p, true, err
	}
	d.Write(buf)
	if whole || long {
		d.Close()
	}
	p.wrapped = d.Changed()
	if newest.After(oldest) {
		p.until = newest.Add(laterLines)
	}
	return p, whole, err
}

func allBare(b []byte) bool {
	n := 0
	for line := range bytes.Lines(b) {
		if line[len(line)-1] != '\n' {
			break
		}
		if !envelope.IsRuntime(line) {
			return false
		}
		n++
	}
	return n > 0
}

// unwrap splits an input whose lines have headers of another tool into one input for each container. It returns no
// inputs if the lines have no such headers. It lowers in.Until to the time that the first lines state. The state of
// file provides the images of the containers.
func (c *collector) unwrap(in *replay.Input, file *logFile) ([]replay.Input, []*part, error) {
	rc, err := in.Open()
	if err != nil {
		return nil, nil, nil //nolint:nilerr // the reader of the input reports this error
	}
	defer rc.Close()
	head := make([]byte, headSize)
	n, _ := io.ReadFull(rc, head) // the next read returns the error again
	p, whole, err := look(io.MultiReader(bytes.NewReader(head[:n]), rc))
	if err != nil {
		return nil, nil, nil //nolint:nilerr // the reader of the input reports this error
	}
	file.tally = p.tally
	if !p.until.IsZero() {
		in.Until = in.Latest(p.until)
	}
	switch {
	case !p.wrapped && isDocument(head[:n]) && whole:
		return nil, nil, &unreadableError{documentKind}
	case !p.wrapped:
		return nil, nil, nil
	}
	_ = rc.Close()
	if rc, err = in.Open(); err != nil {
		return nil, nil, nil //nolint:nilerr // the reader of the input reports this error
	}
	defer rc.Close()
	return c.decode(*in, rc)
}

func (c *collector) decode(in replay.Input, r io.Reader) ([]replay.Input, []*part, error) {
	labels := in.StreamLabels()
	ps := newParts(c.opt.Unpack)
	emit := ps.add
	known := labels["pod"] != "" && labels["container"] != ""
	if known {
		// The path states the origin of the lines and is more reliable than the headers of the lines.
		nowhere := new(envelope.Place)
		emit = func(l envelope.Line) {
			l.Place = nowhere
			ps.add(l)
		}
	}
	d := envelope.New(in.Latest(time.Now()), emit)
	buf := make([]byte, decodeBlock)
	var err error
	for err == nil && ps.err == nil {
		var n int
		n, err = r.Read(buf)
		d.Write(buf[:n])
	}
	d.Close()
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(ps.close(), err); err != nil {
		return nil, nil, err
	}
	var out []replay.Input
	for _, p := range ps.list {
		out = append(out, c.partInput(in, ps, p, len(ps.list) > 1))
	}
	return out, ps.list, nil
}

func (c *collector) partInput(in replay.Input, ps *parts, p *part, several bool) replay.Input {
	name := in.Name
	if n := NameOf(&p.place); n != "" && several {
		name += "[" + n + "]"
	}
	state := c.state
	derive := func() matcher.Labels {
		labels := maps.Clone(in.StreamLabels())
		if p.place != (envelope.Place{}) {
			delete(labels, replay.FileLabel)
		}
		SetPlace(labels, &p.place, name)
		state.addImage(labels)
		return labels
	}
	return replay.Input{Name: name, Labels: in.Labels, Derive: derive, Size: p.size + int64(len(p.buf)), Until: in.Until, Open: func() (io.ReadCloser, error) { return ps.open(p) }}
}

// SetPlace adds the labels of the origin p to the labels of a log. name is used for an origin that is not a pod.
func SetPlace(labels matcher.Labels, p *envelope.Place, name string) {
	host := "node_name"
	if p.Unit != "" || p.Identifier != "" || p.Transport != "" {
		host = "node"
	}
	for label, value := range map[string]string{
		"cluster": p.Cluster, "namespace": p.Namespace, "pod": p.Pod, "container": p.Container, host: p.Node,
		"unit": p.Unit, "identifier": p.Identifier, "transport": p.Transport,
	} {
		if value != "" && labels[label] == "" {
			labels[label] = value
		}
	}
	if p.Name != "" && p.Pod == "" {
		labels[replay.FileLabel] = name
	}
}

// NameOf returns a short name of an origin. It returns "" if the origin is unknown.
func NameOf(p *envelope.Place) string {
	if p.Pod != "" && p.Container != "" {
		return p.Pod + "/" + p.Container
	}
	return cmp.Or(p.Pod, p.Unit, p.Container, p.Identifier, p.Transport, p.Name, p.Namespace)
}

// checkDocument returns an error if a file is a JSON document that contains no log lines.
func checkDocument(f io.ReaderAt, size int64) error {
	p, whole, err := look(envelope.NewText(io.NewSectionReader(f, 0, size), nil, new(int64)))
	if err != nil || p.wrapped || !whole {
		return err
	}
	return &unreadableError{documentKind}
}

// LabelsOf returns the labels of a log that is followed, according to its path and the options.
func LabelsOf(path string, opt Options) matcher.Labels {
	return (&collector{opt: opt}).labels(path)
}

// Problem returns the reason why a file cannot be followed. It returns "" if the file consists of lines of text. head
// contains the first bytes of the file.
func Problem(name string, head []byte) string {
	if isYAML(name) {
		return "is YAML, not a log"
	}
	if envelope.IsWide(head[:min(len(head), headSize)]) {
		return "is UTF-16 text; scan it without --follow"
	}
	if k, bad := detectKind(head[:min(len(head), headSize)]); bad {
		return (&unreadableError{k}).Error()
	}
	return ""
}

// Unwrapper removes the headers of other tools from the lines of a log that is followed. It is not safe for concurrent
// use.
type Unwrapper struct {
	decoder *envelope.Decoder
	out     []Unwrapped
}

// Unwrapped contains lines of one origin. They are in the CRI format if their times are known.
type Unwrapped struct {
	Place *envelope.Place
	Lines []byte
}

// NewUnwrapper returns an unwrapper for one log. now determines the year of timestamps without a year.
func NewUnwrapper(now time.Time) *Unwrapper {
	u := &Unwrapper{}
	u.decoder = envelope.New(now, u.add)
	return u
}

func (u *Unwrapper) add(l envelope.Line) {
	if k := len(u.out) - 1; k < 0 || u.out[k].Place != l.Place {
		u.out = append(u.out, Unwrapped{Place: l.Place})
	}
	to := &u.out[len(u.out)-1]
	to.Lines = appendLine(to.Lines, l)
}

// Lines returns the next lines of the log. The last line of block must be complete. The caller
// owns the result.
func (u *Unwrapper) Lines(block []byte) []Unwrapped {
	u.out = nil
	u.decoder.Write(block)
	return u.out
}

// End returns the remaining lines. Lines must not be called after End.
func (u *Unwrapper) End() []Unwrapped {
	u.out = nil
	u.decoder.Close()
	return u.out
}
