package inputs

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"time"

	"crowsnest/internal/times"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/matcher"
	"crowsnest/replay"
)

// The beginning of an input decides whether its lines have an envelope. Of a large file,
// places further on are looked at too.
const (
	probeSize   = 256 << 10
	samples     = 32
	sampleSize  = 8 << 10
	decodeBlock = 64 << 10
)

// probed is what the lines of an input look like.
type probed struct {
	wrapped bool
	records bool      // lines are fields of records
	until   time.Time // as Until of an input, zero if no line states a year
}

// oldest is before all logs of Kubernetes. An earlier time is that of a clock that was not set,
// or of a tool that packs files without their times.
var oldest = time.Date(2014, 1, 1, 0, 0, 0, 0, time.UTC)

// laterLines is how long after a line that states its year the lines are that do not. Those
// before it may then be older by two months.
const laterLines = 300 * 24 * time.Hour

// look decodes the beginning of an input.
func look(r io.Reader) (p probed, whole bool, err error) {
	var newest time.Time // newest time of a line that states its year; a line without a year seems long ago
	d := envelope.New(time.Time{}, func(l envelope.Line) {
		t := l.Time
		if t.Before(oldest) {
			t, _ = matcher.TimeOf(l.Text, time.Time{})
		}
		newest = times.Later(newest, t)
	})
	buf := make([]byte, probeSize)
	n, err := io.ReadFull(r, buf)
	whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if whole {
		err = nil
	}
	buf = buf[:n]
	long := false // the first line is not complete
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
	p = probed{wrapped: d.Changed(), records: d.Records() > 0}
	if newest.After(oldest) {
		p.until = newest.Add(laterLines)
	}
	return p, whole, err
}

// allBare reports whether all lines are as container runtimes write them.
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

// lookInto decodes samples of a large file. Its shape may change where one ends.
func lookInto(f io.ReaderAt, size int64) bool {
	buf := make([]byte, sampleSize)
	for i := range int64(samples) {
		at := probeSize + (size-probeSize-sampleSize)/samples*i
		n, _ := f.ReadAt(buf, at)
		b := buf[:n]
		b = b[bytes.IndexByte(b, '\n')+1:]
		b = b[:bytes.LastIndexByte(b, '\n')+1]
		d := envelope.New(time.Time{}, func(envelope.Line) {})
		d.Write(b)
		if d.Changed() {
			return true
		}
	}
	return false
}

// unwrap returns an input for each container whose lines an input has, if they have an
// envelope, or if it is the dump of one pod; none for other inputs. It lowers Until of in to what
// the first lines say. state names the images of
// the containers.
func (c *collector) unwrap(in *replay.Input, of *logFile) ([]replay.Input, []*part, error) {
	rc, err := in.Open()
	if err != nil {
		return nil, nil, nil //nolint:nilerr // the reader reports that
	}
	defer rc.Close()
	labels := in.StreamLabels()
	head := make([]byte, headSize)
	n, _ := io.ReadFull(rc, head) // an error returns with the next read
	head = head[:n]
	dump := isDump(head, labels)
	if !dump {
		document := isDocument(head)
		p, whole, err := look(io.MultiReader(bytes.NewReader(head), rc))
		if err != nil {
			return nil, nil, nil //nolint:nilerr // the reader reports that
		}
		if !p.wrapped && !whole && of != nil {
			p.wrapped = of.changes()
		}
		if !p.until.IsZero() {
			in.Until = in.Latest(p.until)
		}
		switch {
		case !p.wrapped && document && whole:
			return nil, nil, &unreadableError{documentKind}
		case !p.wrapped:
			return nil, nil, nil
		}
		_ = rc.Close()
		if rc, err = in.Open(); err != nil {
			return nil, nil, nil //nolint:nilerr // the reader reports that
		}
		defer rc.Close()
		head = nil
	}
	return c.decode(*in, io.MultiReader(bytes.NewReader(head), rc), dump)
}

// decode copies the lines of an input apart.
func (c *collector) decode(in replay.Input, r io.Reader, dump bool) ([]replay.Input, []*part, error) {
	labels := in.StreamLabels()
	ps := newParts(c.opt.Unpack)
	var emit = ps.add
	known := labels["pod"] != "" && labels["container"] != ""
	if known {
		// The path says where the lines are from, and lines may lie.
		nowhere := new(envelope.Place)
		emit = func(l envelope.Line) {
			l.Place = nowhere
			ps.add(l)
		}
	}
	d := envelope.New(in.Latest(time.Now()), emit)
	if dump {
		d.Sections(labels["namespace"], labels["pod"])
	}
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

// partInput returns the input with the lines of one place.
func (c *collector) partInput(in replay.Input, ps *parts, p *part, several bool) replay.Input {
	name := in.Name
	if n := nameOf(p.place); n != "" && several {
		name += "[" + n + "]"
	}
	state := c.state
	derive := func() matcher.Labels {
		labels := maps.Clone(in.StreamLabels())
		if p.place != (envelope.Place{}) {
			delete(labels, replay.FileLabel)
		}
		setPlace(labels, p.place, name)
		state.addImage(labels)
		return labels
	}
	return replay.Input{Name: name, Labels: in.Labels, Derive: derive, Size: p.size + int64(len(p.buf)), Until: in.Until, Open: func() (io.ReadCloser, error) { return ps.open(p) }}
}

// setPlace adds the labels of a place to those that are known. name identifies one without a
// pod.
func setPlace(labels matcher.Labels, p envelope.Place, name string) {
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

// nameOf returns a place in the name of an input.
func nameOf(p envelope.Place) string {
	switch {
	case p.Pod != "" && p.Container != "":
		return p.Pod + "/" + p.Container
	case p.Pod != "":
		return p.Pod
	case p.Unit != "":
		return p.Unit
	case p.Container != "":
		return p.Container
	case p.Identifier != "":
		return p.Identifier
	case p.Transport != "":
		return p.Transport
	case p.Name != "":
		return p.Name
	}
	return p.Namespace
}

// isDump reports whether a file is the part of `kubectl cluster-info dump` about one pod.
func isDump(head []byte, labels matcher.Labels) bool {
	return labels["namespace"] != "" && labels["pod"] != "" && labels["container"] == "" && bytes.HasPrefix(head, []byte(envelope.SectionStart))
}

// changes reports whether lines further on in the file have an envelope.
func (l *logFile) changes() bool {
	if l.size < probeSize+sampleSize {
		return false
	}
	if l.content != nil {
		return lookInto(l.content(), l.size)
	}
	f, err := os.Open(l.path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, headSize)
	if _, err := f.ReadAt(head, 0); err != nil || bytes.HasPrefix(head, gzipMagic) || envelope.IsWide(head) {
		return false
	}
	return lookInto(f, l.size)
}

// checkDocument returns an error if a file is a JSON document without lines of logs.
func checkDocument(f io.ReaderAt, size int64) error {
	p, whole, err := look(envelope.NewText(io.NewSectionReader(f, 0, size), nil))
	if err != nil || p.wrapped || !whole {
		return err
	}
	return &unreadableError{documentKind}
}
