package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// stampForm is the time format of container runtimes.
const stampForm = "2006-01-02T15:04:05.000000000Z07:00"

type due struct {
	line
	when time.Time
}

// Play contains the log lines of several stories, shifted in time so that the present times of
// all coincide.
type Play struct {
	dir          string
	past, future []due
}

// NewPlay prepares to write the logs of the stories below dir. All stories take now as the
// present time.
func NewPlay(dir string, stories []Story, now time.Time) *Play {
	p := &Play{dir: dir}
	p.past, p.future = scheduleStories(stories, now)
	return p
}

// Past writes the lines before the present. It must be called before a reader starts, because a
// reader that does not find them concludes that they were never written.
func (p *Play) Past() error { return writeAll(p.dir, p.past) }

// Live writes the lines after the present, each when it is due. It returns when all are written
// or ctx ends.
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
		n := 0
		for n < len(future) && !future[n].when.After(time.Now()) {
			n++
		}
		if err := writeAll(p.dir, future[:n]); err != nil {
			return err
		}
		future = future[n:]
	}
	return nil
}

// scheduleStories shifts every story so that its present is now.
func scheduleStories(stories []Story, now time.Time) (past, future []due) {
	var all []due
	for _, s := range stories {
		for _, l := range s.lines {
			all = append(all, due{l, now.Add(l.at - s.Now)})
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return cmp.Or(a.when.Compare(b.when), cmp.Compare(a.file, b.file)) })
	i := 0
	for i < len(all) && !all[i].when.After(now) {
		i++
	}
	return all[:i], all[i:]
}

func writeAll(dir string, lines []due) error {
	texts := map[string]*bytes.Buffer{}
	var order []string
	for _, l := range lines {
		b := texts[l.file]
		if b == nil {
			b = &bytes.Buffer{}
			texts[l.file] = b
			order = append(order, l.file)
		}
		b.WriteString(l.when.UTC().Format(stampForm))
		b.WriteByte(' ')
		b.Write(l.rest)
	}
	for _, file := range order {
		if err := appendTo(filepath.Join(dir, file), texts[file].Bytes()); err != nil {
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
