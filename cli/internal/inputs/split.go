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

// maxParts bounds the containers whose lines one file holds.
const maxParts = 512

// A file may hold the lines of several containers and say of each line whose it
// is: `kubectl logs --prefix` in front of each line, `kubectl cluster-info dump`
// in a line before those of a container. Each container becomes an input.

// classifier returns who wrote a line, nil if it does not say, and what the
// container wrote of it, nil if nothing. Lines come in order; a longer line than
// the buffer is identified by its beginning.
type classifier func(line []byte) (who, rest []byte)

// classifierOf returns a function that makes origins for a file with that head and
// those labels; nil if it is an ordinary one.
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

// sections reads the parts of the dump of one pod. A line in the middle that
// looks like the start of a part of another pod is a line that a container wrote.
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

// between returns the name between two texts that together are a whole line.
func between(line, before, behind string) (string, bool) {
	rest, ok := strings.CutPrefix(line, before)
	if !ok {
		return "", false
	}
	name, ok := strings.CutSuffix(rest, behind)
	return name, ok && isName(name)
}

// split returns an input for each container whose lines a file holds, in the
// order of their names; the first may be of lines that do not say whose they
// are. It returns none for an ordinary file.
func split(in replay.Input) ([]replay.Input, error) {
	rc, err := in.Open()
	if err != nil {
		return nil, nil // the reader reports that
	}
	defer rc.Close()
	br := bufio.NewReaderSize(rc, 64<<10)
	head, _ := br.Peek(headSize)
	if i := bytes.IndexByte(head, '\n'); i >= 0 {
		head = head[:i+1]
	}
	classify := classifierOf(head, in.Labels)
	if classify == nil {
		return nil, nil
	}
	names, err := origins(br, classify())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", in.Name, err)
	}
	var out []replay.Input
	for _, who := range names {
		out = append(out, part(in, who, classify))
	}
	return out, nil
}

// origins returns who wrote the lines of a file.
func origins(br *bufio.Reader, classify classifier) ([]string, error) {
	seen := map[string]bool{}
	for long := false; ; {
		line, err := br.ReadSlice('\n')
		if len(line) > 0 && !long {
			if who, rest := classify(line); rest != nil && !seen[string(who)] {
				if seen[string(who)] = true; len(seen) > maxParts {
					return nil, fmt.Errorf("it has the lines of more than %d containers; write them to several files", maxParts)
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

// part returns the input of one container in a file.
func part(in replay.Input, who string, classify func() classifier) replay.Input {
	labels := maps.Clone(in.Labels)
	name := in.Name
	if pod, container, ok := strings.Cut(who, "/"); ok {
		name += "[" + who + "]"
		for label, value := range map[string]string{"pod": pod, "container": container} {
			if labels[label] == "" {
				labels[label] = value
			}
		}
	}
	return replay.Input{Name: name, Labels: labels, Open: func() (io.ReadCloser, error) {
		rc, err := in.Open()
		if err != nil {
			return nil, err
		}
		only := &picker{br: bufio.NewReaderSize(rc, 64<<10), who: []byte(who), classify: classify()}
		return &joined{Reader: only, close: rc.Close}, nil
	}}
}

// picker reads the lines of one container.
type picker struct {
	br       *bufio.Reader
	who      []byte
	classify classifier
	keep     bool   // the line that is read on
	long     bool   // a line is read on
	ready    []byte // not yet handed out; of br
	err      error
}

// Read reads what the container wrote.
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
