package inputs

import (
	"fmt"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/replay"
)

// What a file was read as.
const (
	asPodLog    = "pod log"
	asLog       = "log"
	asJournal   = "journal"
	asDocuments = "objects"
)

// File is what became of one file of the input, or of one member of an archive.
type File struct {
	Name string `json:"file"` // printable
	// As is what it was read as; empty if it was not read.
	As string `json:"as,omitempty"`
	// Lines are those of a log, or the Events and objects of a document. Understood are
	// those whose format is known. Matched counts the matches of rules.
	Lines      int64 `json:"lines"`
	Understood int64 `json:"understood"`
	Matched    int64 `json:"matched"`
	// NULs counts bytes of blocks of NUL, which are left out: a node that loses power leaves
	// them in a log. Truncated counts lines of which only the beginning was read.
	NULs      int64 `json:"nuls,omitempty"`
	Truncated int64 `json:"truncated,omitempty"`
	// Problem says why the file, or a part of it, was not read; empty if it was.
	Problem string `json:"problem,omitempty"`
	// Incomplete means that the problem may hide lines of a log.
	Incomplete bool `json:"incomplete,omitempty"`

	arg int // index of the argument
}

// Account says of each file of the input what became of it.
type Account struct {
	Files []File

	args []string // printable
	of   []int    // file of each input, -1 for lines that are made from several files
	seen []*tally // formats of the lines of each input; nil means that the scan counted them
}

// Count adds what reading the inputs returned. It is called once.
func (a *Account) Count(outcomes []replay.Outcome) {
	for i, o := range outcomes {
		if a.of[i] < 0 {
			continue
		}
		f := &a.Files[a.of[i]]
		f.Lines += o.Lines
		f.Understood += a.understood(i, o)
		f.Truncated += o.Truncated
		if t := a.seen[i]; t != nil && !t.exact {
			f.NULs += int64(t.nuls)
		}
		f.Matched += o.Hits
		if o.Err != nil {
			f.Problem, f.Incomplete = o.Err.Error(), true
		}
	}
}

// tally counts what the lines of an input look like while it is read, in a large one those
// of samples.
type tally struct {
	lines, understood int64
	nuls              uint32 // bytes, or the largest number
	exact             bool   // all lines were looked at
}

// understood returns how many lines of an input were understood.
func (a *Account) understood(input int, o replay.Outcome) int64 {
	switch t := a.seen[input]; {
	case t == nil || t.lines == 0:
		return o.Understood
	case t.exact:
		return min(t.understood, o.Lines)
	default:
		return int64(float64(o.Understood) * float64(t.understood) / float64(t.lines))
	}
}

// Doubt is an argument of which less than nine of ten lines were understood.
type Doubt struct {
	Name              string
	Lines, Understood int64
}

// Doubts returns the arguments of which less than nine of ten lines were understood. Lines
// that rules match count as understood.
func (a *Account) Doubts() []Doubt {
	sums := make([]Doubt, len(a.args))
	for _, f := range a.Files {
		if f.As == asDocuments || f.As == asJournal {
			continue
		}
		sums[f.arg].Lines += f.Lines
		sums[f.arg].Understood += min(f.Lines, max(f.Understood, f.Matched))
	}
	var out []Doubt
	for i, s := range sums {
		if s.Understood*10 < s.Lines*9 {
			s.Name = a.args[i]
			out = append(out, s)
		}
	}
	return out
}

// Notes say what was left out of files that were read.
func (a *Account) Notes() []string {
	var out []string
	for _, f := range a.Files {
		if f.NULs > 0 {
			out = append(out, fmt.Sprintf("%s has %s, as after a power failure; they were left out", f.Name, text.Plural(f.NULs, "NUL byte")))
		}
		if f.Truncated > 0 {
			out = append(out, fmt.Sprintf("%s has %s of more than 16 KiB; only the beginning was read", f.Name, text.Plural(f.Truncated, "line")))
		}
	}
	return out
}

// NotUnderstood returns the arguments that have lines of which none was understood.
func (a *Account) NotUnderstood() []string {
	type sum struct{ lines, understood int64 }
	sums := make([]sum, len(a.args))
	for _, f := range a.Files {
		sums[f.arg].lines += f.Lines
		sums[f.arg].understood += f.Understood + f.Matched
	}
	var out []string
	for i, s := range sums {
		if s.lines > 0 && s.understood == 0 {
			out = append(out, a.args[i])
		}
	}
	return out
}

// Skipped are files with the same problem.
type Skipped struct {
	Problem string
	Names   []string
}

// Skipped returns the files with problems that do not make the result incomplete, grouped by
// problem, in the order in which they were found.
func (a *Account) Skipped() []Skipped {
	var out []Skipped
	at := map[string]int{}
	for _, f := range a.Files {
		if f.Problem == "" || f.Incomplete {
			continue
		}
		i, ok := at[f.Problem]
		if !ok {
			i, at[f.Problem] = len(out), len(out)
			out = append(out, Skipped{Problem: f.Problem})
		}
		out[i].Names = append(out[i].Names, f.Name)
	}
	return out
}

// Summary returns in one line what was read.
func (a *Account) Summary() string {
	files := map[string]int{}
	var lines, understood int64
	empty := 0
	for _, f := range a.Files {
		switch {
		case f.As == "":
		case f.Lines == 0 && f.Problem == "":
			empty++
		default:
			files[f.As]++
		}
		if f.As != asDocuments {
			lines += f.Lines
			understood += f.Understood
		}
	}
	var parts []string
	for _, as := range []string{asPodLog, asLog, asJournal, asDocuments} {
		if n := files[as]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d as %s", n, as))
		}
	}
	if empty > 0 {
		parts = append(parts, fmt.Sprintf("%d without a line", empty))
	}
	if unread := len(a.Files) - empty - files[asPodLog] - files[asLog] - files[asJournal] - files[asDocuments]; unread > 0 {
		parts = append(parts, fmt.Sprintf("%d not read", unread))
	}
	return fmt.Sprintf("files: %s; %d of %d lines have a known format", strings.Join(parts, ", "), understood, lines)
}

// found is a list of inputs, with the file of each.
type found struct {
	inputs []replay.Input
	file   []int      // indices in the account
	of     []*logFile // nil for what is not a file with a log
	seen   []*tally   // nil if unknown
}

func (l *found) add(file int, of *logFile, seen *tally, in replay.Input) {
	l.inputs = append(l.inputs, in)
	l.file = append(l.file, file)
	l.of = append(l.of, of)
	l.seen = append(l.seen, seen)
}

// read notes a file that is read, with its name for people, and returns its index.
func (c *collector) read(name, as string) int {
	c.account.Files = append(c.account.Files, File{Name: name, As: as, arg: c.arg})
	return len(c.account.Files) - 1
}

// skip notes a file without lines of logs.
func (c *collector) skip(path, reason string) {
	c.account.Files = append(c.account.Files, File{Name: c.shown(path), Problem: reason, arg: c.arg})
}

// lose notes a file that should have been read, which is an error of the input.
func (c *collector) lose(verb, path string, err error) {
	c.loseShown(verb, c.shown(path), err)
}

func (c *collector) loseShown(verb, name string, err error) {
	err = cause(err)
	c.account.Files = append(c.account.Files, File{Name: name, Problem: err.Error(), Incomplete: true, arg: c.arg})
	c.fail(fmt.Errorf("%s %s: %w", verb, name, err))
}
