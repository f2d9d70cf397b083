package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"crowsnest/replay"
)

// statusLine is a line on a terminal that says how far a command has come. It is
// not safe for concurrent use.
type statusLine struct {
	w     io.Writer
	shown bool
	last  time.Time
}

// due tells whether the line is to be written once more.
func (s *statusLine) due() bool {
	if !s.shown || time.Since(s.last) < 200*time.Millisecond {
		return false
	}
	s.last = time.Now()
	return true
}

func (s *statusLine) show(format string, args ...any) {
	fmt.Fprintf(s.w, "\r\x1b[K"+format, args...)
}

// clear removes what is shown.
func (s *statusLine) clear() {
	if s.shown && !s.last.IsZero() {
		fmt.Fprint(s.w, "\r\x1b[K")
	}
}

// judgeReading returns why a report is no statement about the cluster: nothing
// was read, or nothing that looks like a log. It warns of inputs that do not.
func judgeReading(w io.Writer, r replay.Report) error {
	switch {
	case r.Lines == 0:
		return errors.New("nothing was read: the input is empty, which says nothing about the cluster")
	case len(r.Untimed) == 0:
		return nil
	case len(r.Untimed) == r.Inputs-r.Empty && r.Hits == 0:
		return fmt.Errorf("nothing was understood: no line of %s has a time in a format that crowsnest knows, so this is no all-clear; give the logs as the containers wrote them", named(r.Untimed))
	}
	fmt.Fprintf(w, "no line of %s has a time in a format that crowsnest knows; the lines were read as plain text\n", named(r.Untimed))
	return nil
}

// named returns the first name of a list and how many there are.
func named(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}
