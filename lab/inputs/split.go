package inputs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"crowsnest/matcher"
	"crowsnest/replay"
)

// maxParts bounds the number of containers in one file.
const maxParts = 512

// A file may contain the lines of several containers: `kubectl logs --prefix`
// writes the container before each line, `kubectl cluster-info dump` writes a line
// before those of each container. Each container becomes an input.

// classifier returns the container that wrote a line, nil if unknown, and the part
// of the line that the container wrote, nil if none. It is called with the lines in
// order; only the beginning of a line longer than the buffer is passed.
type classifier func(line []byte) (who, rest []byte)

// classifierOf returns the constructor of the classifier for a file with that head
// and those labels; nil for an ordinary file.
func classifierOf(head []byte, labels matcher.Labels) func() classifier {
	if who, _ := prefixed(head); who != nil {
		return func() classifier { return prefixed }
	}
	dump := labels["namespace"] != "" && labels["pod"] != "" && labels["container"] == ""
	if dump && bytes.HasPrefix(head, []byte(sectionStart)) {
		return func() classifier { return sections(labels["namespace"] + "/" + labels["pod"]) }
	}
	return nil
}

// prefixed reads `[pod/POD/CONTAINER] LINE`.
func prefixed(line []byte) (who, rest []byte) {
	const before = "[pod/"
	end := bytes.Index(line, []byte("] "))
	if !bytes.HasPrefix(line, []byte(before)) || end < 0 {
		return nil, line
	}
	who = line[len(before):end]
	pod, container, ok := strings.Cut(string(who), "/")
	if !ok || !isName(pod) || !isName(container) {
		return nil, line
	}
	return who, line[end+2:]
}

const (
	sectionStart = "==== START logs for container "
	sectionEnd   = "==== END logs for container "
)

// sections reads the sections in the dump of one pod. Within a section, a line that
// looks like the start of another one is a line of the container.
func sections(pod string) classifier {
	behind := " of pod " + pod + " ====\n"
	name := pod[strings.IndexByte(pod, '/')+1:]
	var who []byte
	return func(line []byte) ([]byte, []byte) {
		text := string(line)
		if container, ok := between(text, sectionStart, behind); ok && who == nil {
			who = []byte(name + "/" + container)
			return nil, nil
		}
		if container, ok := between(text, sectionEnd, behind); ok && string(who) == name+"/"+container {
			who = nil
			return nil, nil
		}
		return who, line
	}
}

// between returns the name in a line that consists of before, the name and behind.
func between(line, before, behind string) (string, bool) {
	rest, ok := strings.CutPrefix(line, before)
	if !ok {
		return "", false
	}
	name, ok := strings.CutSuffix(rest, behind)
	return name, ok && isName(name)
}

// split returns an input for each container in a file, sorted by name; the first
// may contain the lines of unknown containers. It returns none for an ordinary
// file. state names the images of the containers.
func split(in replay.Input, state *state) ([]replay.Input, error) {
	rc, err := in.Open()
	if err != nil {
		return nil, nil // the reader reports that
	}
	defer rc.Close()
	begin := make([]byte, headSize)
	n, _ := io.ReadFull(rc, begin) // an error returns with the next read
	begin = begin[:n]
	head := begin
	if i := bytes.IndexByte(head, '\n'); i >= 0 {
		head = head[:i+1]
	}
	labels := in.StreamLabels()
	classify := classifierOf(head, labels)
	if classify == nil {
		return nil, nil
	}
	names, err := origins(bufio.NewReaderSize(io.MultiReader(bytes.NewReader(begin), rc), 64<<10), classify())
	if err != nil {
		return nil, err
	}
	var out []replay.Input
	for _, who := range names {
		one := part(in, who, classify, state)
		one.Size = in.Size / int64(len(names))
		out = append(out, one)
	}
	return out, nil
}

func origins(br *bufio.Reader, classify classifier) ([]string, error) {
	seen := map[string]bool{}
	for long := false; ; {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 && !long {
			if who, rest := classify(line); rest != nil && !seen[string(who)] {
				if seen[string(who)] = true; len(seen) > maxParts {
					return nil, fmt.Errorf("it contains lines of more than %d containers; write them to several files", maxParts)
				}
			}
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		switch {
		case errors.Is(err, io.EOF):
			return slices.Sorted(maps.Keys(seen)), nil
		case err != nil && !long:
			return nil, err
		}
	}
}

func part(in replay.Input, who string, classify func() classifier, state *state) replay.Input {
	name := in.Name
	pod, container, ok := strings.Cut(who, "/")
	if ok {
		name += "[" + who + "]"
	}
	derive := func() matcher.Labels {
		labels := maps.Clone(in.StreamLabels())
		if ok {
			delete(labels, replay.FileLabel)
			for label, value := range map[string]string{"pod": pod, "container": container} {
				if labels[label] == "" {
					labels[label] = value
				}
			}
		}
		state.addImage(labels)
		return labels
	}
	return replay.Input{Name: name, Labels: in.Labels, Derive: derive, Open: func() (io.ReadCloser, error) {
		rc, err := in.Open()
		if err != nil {
			return nil, err
		}
		only := &picker{br: bufio.NewReaderSize(rc, 64<<10), who: []byte(who), classify: classify()}
		return joined{only, rc}, nil
	}}
}

// picker reads the lines of one container.
type picker struct {
	br       *bufio.Reader
	who      []byte
	classify classifier
	keep     bool   // the current line is of the container
	long     bool   // the current line continues
	ready    []byte // not yet returned; memory of br
	err      error
}

// Read reads the lines of the container.
func (p *picker) Read(b []byte) (int, error) {
	for len(p.ready) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		line, err := p.br.ReadSlice('\n')
		if len(line) > 0 && !p.long {
			var who []byte
			who, line = p.classify(line)
			p.keep = bytes.Equal(who, p.who)
		}
		if p.keep {
			p.ready = line
		}
		if p.long = errors.Is(err, bufio.ErrBufferFull); !p.long {
			p.err = err
		}
	}
	n := copy(b, p.ready)
	p.ready = p.ready[n:]
	return n, nil
}
