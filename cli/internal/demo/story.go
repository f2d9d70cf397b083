// Package demo replays recorded incidents as live traffic to a real Alertmanager
// and reports whether every expected alert arrived.
package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crowsnest/internal/strictyaml"
)

// base is the recorded time at which each story (recorded incident) begins.
var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Story is one recorded incident.
type Story struct {
	Name string
	// Now is the offset from the start at which the live part of the replay begins.
	Now time.Duration
	// End is the offset of the last event.
	End   time.Duration
	Fires []Expected // all alerts that fire during the story
	// Resolves contains the alerts that must have resolved at the end.
	Resolves []Expected
	lines    []line
}

// Expected describes an alert by some of its labels.
type Expected map[string]string

type line struct {
	at   time.Duration // offset of the line from base
	file string        // path of the log relative to the folder of pod logs
	rest []byte        // text of the line after its time, including the newline
}

type expectFile struct {
	About  string        `yaml:"about"`
	Now    time.Duration `yaml:"now"`
	End    time.Duration `yaml:"end"`
	Expect []struct {
		At       time.Duration `yaml:"at"`
		Firing   []Expected    `yaml:"firing"`
		Resolved []Expected    `yaml:"resolved"`
	} `yaml:"expect"`
}

// Load reads all stories. Each story is a folder with an expect.yaml.
func Load(fsys fs.FS) ([]Story, error) {
	files, err := fs.Glob(fsys, "*/expect.yaml")
	if err != nil {
		return nil, err
	}
	out := make([]Story, len(files))
	for i, file := range files {
		if out[i], err = loadStory(fsys, file); err != nil {
			return nil, fmt.Errorf("read incident %s: %w", path.Dir(file), err)
		}
	}
	return out, nil
}

func loadStory(fsys fs.FS, file string) (Story, error) {
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return Story{}, err
	}
	var in expectFile
	if ps := strictyaml.Decode(file, data, &in, strictyaml.Options{}); len(ps.Errors()) > 0 {
		return Story{}, ps
	}
	s := Story{Name: path.Dir(file), Now: in.Now, End: in.End}
	for _, c := range in.Expect {
		s.Fires, s.Resolves = addExpected(s.Fires, c.Firing), addExpected(s.Resolves, c.Resolved)
	}
	s.Fires = dropCovered(s.Fires)
	err = fs.WalkDir(fsys, s.Name, func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(p) != ".log" {
			return err
		}
		return s.readLog(fsys, p)
	})
	slices.SortStableFunc(s.lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return s, err
}

func addExpected(list, more []Expected) []Expected {
	for _, e := range more {
		if !slices.ContainsFunc(list, func(o Expected) bool { return maps.Equal(o, e) }) {
			list = append(list, e)
		}
	}
	return list
}

// dropCovered removes an alert if its labels are a subset of the labels of another alert. This occurs because two
// checkpoints may describe one alert with different labels.
func dropCovered(list []Expected) []Expected {
	return slices.DeleteFunc(slices.Clone(list), func(e Expected) bool {
		return slices.ContainsFunc(list, func(o Expected) bool { return len(o) > len(e) && e.coversLabels(o) })
	})
}

func (e Expected) coversLabels(labels map[string]string) bool {
	for k, v := range e {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (s *Story) readLog(fsys fs.FS, name string) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	_, pod, _ := strings.Cut(name, "/")
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		stamp, rest, ok := bytes.Cut(sc.Bytes(), []byte(" "))
		t, err := time.Parse(time.RFC3339Nano, string(stamp))
		if !ok || err != nil {
			return fmt.Errorf("%s:%d: the line does not begin with the timestamp of a container runtime", name, n)
		}
		s.lines = append(s.lines, line{at: t.Sub(base), file: pod, rest: append(bytes.Clone(rest), '\n')})
	}
	return sc.Err()
}

const stampForm = "2006-01-02T15:04:05.000000000Z07:00"

type dueLine struct {
	line
	when time.Time
}

// Play contains the log lines of several stories, shifted so that all stories are at their Now at the same time.
type Play struct {
	dir            string
	played, future []dueLine
}

// NewPlay prepares to write the logs of the stories below dir. now is the time at which the live parts begin.
func NewPlay(dir string, stories []Story, now time.Time) *Play {
	var all []dueLine
	for _, s := range stories {
		for _, l := range s.lines {
			all = append(all, dueLine{l, now.Add(l.at - s.Now)})
		}
	}
	slices.SortStableFunc(all, func(a, b dueLine) int { return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.file, b.file)) })
	n := countDue(all, now)
	return &Play{dir: dir, played: all[:n], future: all[n:]}
}

// countDue returns the number of lines that are due at the time now.
func countDue(lines []dueLine, now time.Time) int {
	n := slices.IndexFunc(lines, func(l dueLine) bool { return l.when.After(now) })
	if n < 0 {
		return len(lines)
	}
	return n
}

// WritePast writes the lines before the present. It must be called before a reader starts. Otherwise the reader would
// conclude from the absence of these lines that they were never written.
func (p *Play) WritePast() error { return writeAll(p.dir, p.played) }

// Live writes each line after the present when the line is due. It returns when all lines are written or ctx ends.
func (p *Play) Live(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for future := p.future; len(future) > 0; {
		timer.Reset(time.Until(future[0].when))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		n := countDue(future, time.Now())
		if err := writeAll(p.dir, future[:n]); err != nil {
			return err
		}
		future = future[n:]
	}
	return nil
}

func writeAll(dir string, lines []dueLine) error {
	texts := map[string][]byte{}
	for _, l := range lines {
		texts[l.file] = fmt.Appendf(texts[l.file], "%s %s", l.when.UTC().Format(stampForm), l.rest)
	}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if err := appendTo(filepath.Join(dir, file), texts[file]); err != nil {
			return fmt.Errorf("play incidents: %w", err)
		}
	}
	return nil
}

func appendTo(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
