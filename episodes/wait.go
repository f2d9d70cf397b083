package episodes

import (
	"fmt"
	"strings"
)

// Wait is a part of a rule that a conclusion waits for, because lines of it may not have been
// read.
type Wait struct {
	Part    string   // match, sequence_2, clear or unless
	From    string   // selector of the streams that it reads
	Sources []string // those without progress, sorted; empty: no source reads the streams
}

// maxNamed bounds the sources that a text names.
const maxNamed = 3

// Brief says in a few words why the part is waited for.
func (w Wait) Brief() string {
	switch len(w.Sources) {
	case 0:
		return "no source for " + w.Part
	case 1:
		return w.Sources[0] + " makes no progress"
	}
	return fmt.Sprintf("%d sources make no progress", len(w.Sources))
}

// String says the same as a sentence without a full stop.
func (w Wait) String() string {
	if len(w.Sources) == 0 {
		return fmt.Sprintf("`%s` waits for lines of %s, which no source reads", w.Part, w.From)
	}
	named := strings.Join(w.Sources[:min(len(w.Sources), maxNamed)], ", ")
	if n := len(w.Sources) - maxNamed; n > 0 {
		named += fmt.Sprintf(" and %d more", n)
	}
	if len(w.Sources) == 1 {
		return fmt.Sprintf("`%s` waits for source %s, which makes no progress", w.Part, named)
	}
	return fmt.Sprintf("`%s` waits for the sources %s, which make no progress", w.Part, named)
}
