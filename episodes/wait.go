package episodes

import (
	"fmt"
	"strings"
)

// Wait is a part of a rule whose lines may not have been read, so that a conclusion has to
// wait.
type Wait struct {
	Part    string   // match, sequence_2, clear or unless, for example
	From    string   // selector of the streams that the part reads
	Sources []string // sources without progress, sorted; empty if no source reads these streams
}

// maxNamed is the maximum number of sources that a text names.
const maxNamed = 3

// BriefText describes in a few words why the conclusion waits.
func (w Wait) BriefText() string {
	switch len(w.Sources) {
	case 0:
		return "no source for " + w.Part
	case 1:
		return w.Sources[0] + " makes no progress"
	}
	return fmt.Sprintf("%d sources make no progress", len(w.Sources))
}

// String describes the same in a sentence without a full stop.
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
