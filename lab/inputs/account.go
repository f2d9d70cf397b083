package inputs

import (
	"fmt"
	"slices"
	"strings"

	"crowsnest/internal/text"
	"crowsnest/replay"
)

// Values of File.ReadAs: the ways in which a file is read.
const (
	asPodLog    = "pod log"
	asLog       = "log"
	asJournal   = "journal"
	asDocuments = "objects"
)

// File describes the result of reading one file, or one member of an archive.
type File struct {
	Name string `json:"file"` // printable name
	// ReadAs is the way in which the file was read; "" if it was not read.
	ReadAs string `json:"as,omitempty"`
	// Lines is the number of lines of a log, or of Events and objects in a document. Understood is the number of lines
	// with a known format. Matched is the number of matches of rules.
	Lines      int64 `json:"lines"`
	Understood int64 `json:"understood"`
	Matched    int64 `json:"matched"`
	// NULs is the number of NUL bytes that were omitted. A node that loses power leaves blocks of NUL bytes in a log.
	// Truncated is the number of lines of which only the beginning was read.
	NULs      int64 `json:"nuls,omitempty"`
	Truncated int64 `json:"truncated,omitempty"`
	// Problem is the reason why the file, or a part of it, was not read. It is "" if everything was read.
	Problem string `json:"problem,omitempty"`
	// Incomplete reports whether lines of a log may be missing because of Problem.
	Incomplete bool `json:"incomplete,omitempty"`

	arg int // index of the argument that contains the file
}

// Account records the result of reading each file of the input.
type Account struct {
	Files []File

	args        []string // printable arguments
	fileOfInput []int    // for each input, the index of its file; -1 if the lines come from several files
	seen        []*tally // for each input, its lines counted by format; nil if the scan counts them
}

// Count adds the results of reading the inputs. It must be called once.
func (a *Account) Count(outcomes []replay.Outcome) {
	for i, o := range outcomes {
		if a.fileOfInput[i] < 0 {
			continue
		}
		f := &a.Files[a.fileOfInput[i]]
		f.Lines += o.Lines
		f.Understood += a.understood(i, o)
		f.Truncated += o.Truncated
		if t := a.seen[i]; t != nil && !t.exact {
			f.NULs += t.nuls
		}
		f.Matched += o.Hits
		if o.Err != nil {
			f.Problem, f.Incomplete = o.Err.Error(), true
		}
	}
}

// tally counts the lines of an input by format. If the input is large, it counts only the first lines.
type tally struct {
	lines, understood int64
	nuls              int64 // number of bytes that were omitted
	exact             bool  // whether all lines were counted
}

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

// minUnderstood is the percentage of lines with a known format below which an argument is doubtful.
const minUnderstood = 90

// DoubtfulInput describes an argument of the command, such as a file, in which less than minUnderstood of the
// lines have a known format.
type DoubtfulInput struct {
	Name              string
	Lines, Understood int64
}

// sums returns, for each argument, the number of lines and the number of lines with a known format. It counts only
// files that were read in one of the ways. A line that a rule matches counts as having a known format.
func (a *Account) sums(ways ...string) []DoubtfulInput {
	sums := make([]DoubtfulInput, len(a.args))
	for i := range sums {
		sums[i].Name = a.args[i]
	}
	for _, f := range a.Files {
		if slices.Contains(ways, f.ReadAs) {
			sums[f.arg].Lines += f.Lines
			sums[f.arg].Understood += min(f.Lines, max(f.Understood, f.Matched))
		}
	}
	return sums
}

// Doubts returns the arguments in which less than minUnderstood of the lines have a known format.
func (a *Account) Doubts() []DoubtfulInput {
	return slices.DeleteFunc(a.sums(asPodLog, asLog), func(s DoubtfulInput) bool { return s.Understood*100 >= s.Lines*minUnderstood })
}

// Notes returns sentences about the parts that were omitted from files.
func (a *Account) Notes() []string {
	var out []string
	for _, f := range a.Files {
		if f.NULs > 0 {
			out = append(out, fmt.Sprintf("%s has %s, which occur after a power failure; they were skipped", f.Name, text.Plural(f.NULs, "NUL byte")))
		}
		if f.Truncated > 0 {
			out = append(out, fmt.Sprintf("%s has %s of more than 16 KiB; only the beginning was read", f.Name, text.Plural(f.Truncated, "line")))
		}
	}
	return out
}

// NotUnderstood returns the arguments that have lines but no line with a known format.
func (a *Account) NotUnderstood() (names []string) {
	for _, s := range a.sums(asPodLog, asLog, asJournal, asDocuments) {
		if s.Lines > 0 && s.Understood == 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// SkippedFiles is a group of files with the same problem.
type SkippedFiles struct {
	Problem string
	Names   []string
}

// Skipped returns the files with a problem that does not make the result incomplete. The files are grouped by problem,
// in the order in which they were found.
func (a *Account) Skipped() []SkippedFiles {
	var out []SkippedFiles
	at := map[string]int{}
	for _, f := range a.Files {
		if f.Problem == "" || f.Incomplete {
			continue
		}
		i, ok := at[f.Problem]
		if !ok {
			i, at[f.Problem] = len(out), len(out)
			out = append(out, SkippedFiles{Problem: f.Problem})
		}
		out[i].Names = append(out[i].Names, f.Name)
	}
	return out
}

// Summary returns one line about the files and lines that were read.
func (a *Account) Summary() string {
	files := map[string]int{}
	var lines, understood int64
	empty := 0
	for _, f := range a.Files {
		switch {
		case f.ReadAs == "":
		case f.Lines == 0 && f.Problem == "":
			empty++
		default:
			files[f.ReadAs]++
		}
		if f.ReadAs != asDocuments {
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

type foundInputs struct {
	inputs []replay.Input
	file   []int      // for each input, the index of its file in the account
	files  []*logFile // file of each input; nil for an input that is not a log file
	seen   []*tally   // counts for each input; nil until its lines are counted
}

func (l *foundInputs) add(file int, log *logFile, seen *tally, in replay.Input) {
	l.inputs = append(l.inputs, in)
	l.file = append(l.file, file)
	l.files = append(l.files, log)
	l.seen = append(l.seen, seen)
}

// read adds a readable file to the account and returns the index of the file. name is the name for people.
func (c *collector) read(name, as string) int {
	c.account.Files = append(c.account.Files, File{Name: name, ReadAs: as, arg: c.arg})
	return len(c.account.Files) - 1
}

func (c *collector) skip(path, reason string) {
	c.account.Files = append(c.account.Files, File{Name: c.shown(path), Problem: reason, arg: c.arg})
}

// recordLoss adds to the account a file that should have been read but could not be, and records an error.
func (c *collector) recordLoss(verb, path string, err error) {
	c.loseShown(verb, c.shown(path), err)
}

func (c *collector) loseShown(verb, name string, err error) {
	err = cause(err)
	c.account.Files = append(c.account.Files, File{Name: name, Problem: err.Error(), Incomplete: true, arg: c.arg})
	c.fail(fmt.Errorf("%s %s: %w", verb, name, err))
}
