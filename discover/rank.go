package discover

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/redact"
)

// Pattern is a shape of complaints that no rule covers.
type Pattern struct {
	// ID is stable across runs for the same template.
	ID string `json:"id"`
	// Template is the message with placeholders. Error is the template of the
	// error in the lines, "" if they state none.
	Template redact.Text `json:"template"`
	Error    redact.Text `json:"error,omitempty"`
	// Level is the highest level of its lines.
	Level Level `json:"level"`
	Count int64 `json:"count"`
	// Streams is the number of streams with the pattern, up to a limit;
	// MoreStreams reports that the limit was reached.
	Streams     int  `json:"streams"`
	MoreStreams bool `json:"more_streams,omitempty"`
	// First and Last are the range of the lines' timestamps; nil without any.
	First *time.Time `json:"first,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
	// Score orders patterns; Why explains it.
	Score float64  `json:"score,omitempty"`
	Why   []string `json:"why,omitempty"`
	// Example is the first line of the pattern, without its envelope. Input,
	// LineNumber and Labels say where it was read.
	Example    redact.Text    `json:"example"`
	Input      string         `json:"input"`
	LineNumber int64          `json:"line_number"`
	Labels     matcher.Labels `json:"labels"`
	// Variants are differently worded patterns of the same cause, the best first.
	// The counts above include them.
	Variants []Pattern `json:"variants,omitempty"`
}

// Report is the result of a search.
type Report struct {
	Patterns []Pattern `json:"patterns"` // the most urgent first
	Inputs   int       `json:"inputs"`
	Lines    int64     `json:"lines"`
	Bytes    int64     `json:"bytes"`
	Covered  int64     `json:"covered"` // lines that a rule hits
	// Complaints are lines that complain and that no rule covers.
	Complaints int64 `json:"complaints"`
	// All is the number of patterns, including those omitted from Patterns.
	All int `json:"all_patterns"`
	// Evicted counts the patterns evicted to bound memory, EvictedLines their lines.
	Evicted      int64 `json:"evicted_patterns"`
	EvictedLines int64 `json:"evicted_lines"`
	Truncated    int64 `json:"truncated_lines"`
	Dropped      int64 `json:"dropped_lines"`
}

// Points of the ranking. Level and wording outweigh any realistic number of lines: what is
// harmless repeats as much as what is not.
const (
	perLine       = 0.6 // per factor of ten in lines
	maxFrequency  = 1.8
	perStream     = 1.0 // per factor of ten in streams
	namedPoints   = 0.5 // points of an error in a line whose level is harmless
	passingPoints = -1.0
	retryPoints   = -0.5 // the next attempt may succeed
	// perCause is for each cause in a message such as "what: why: why". An operation that
	// failed as a whole passes on its cause; what is only noted has none.
	perCause  = 0.2
	maxCauses = 5
	// A component that complains a lot must not hide the others: each doubling of
	// its groups above costs this much. A group of another module of the component
	// counts as otherModule of one.
	perComponent = -1.5
	otherModule  = 0.9
)

var levelPoints = map[Level]float64{
	levelDebug: 0, levelInfo: 2.25, levelUnknown: 2.25, levelWarning: 2.5, levelError: 3, levelFatal: 5,
}

var wordPoints = map[weight]float64{0: 0, soft: 0.5, ordinary: 1.5, severe: 2.5}

// Report returns the ranked patterns so far: the top ones, 0 meaning all, of those
// with at least minCount lines. Secrets are hidden.
func (f *Finder) Report(minCount int64, top int) Report {
	out := f.report
	out.Evicted, out.EvictedLines = f.tree.evicted, f.tree.evictedLines
	out.Patterns = []Pattern{}
	for e := f.tree.recent.Front(); e != nil; e = e.Next() {
		if p := e.Value.(*pattern); !p.idle() {
			out.Complaints += p.idling
		}
	}
	all := f.groups(minCount)
	out.All = len(all)
	ordered := all.diverse(f.components)
	if top > 0 {
		ordered = ordered[:min(len(ordered), top)]
	}
	for _, g := range ordered {
		p := g.members[0].export(f.opt.Redactor)
		p.Score, p.Why = math.Round(g.score*10)/10, g.reasons()
		p.Level, p.Count, p.Streams, p.MoreStreams = g.level, g.count, len(g.streams), len(g.streams) >= maxStreams
		p.First, p.Last = stated(g.first), stated(g.last)
		for _, v := range g.members[1:] {
			p.Variants = append(p.Variants, v.export(f.opt.Redactor))
		}
		out.Patterns = append(out.Patterns, p)
	}
	return out
}

// stated returns a time in UTC, nil for the zero time.
func stated(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// export copies a pattern, without secrets.
func (p *pattern) export(red *redact.Redactor) Pattern {
	x := p.example
	out := Pattern{
		Level: p.level, Count: p.count, Streams: len(p.streams), MoreStreams: len(p.streams) == maxStreams,
		First: stated(p.first), Last: stated(p.last),
		Example: red.Text(x.line), Input: x.input, LineNumber: x.number, Labels: x.labels,
	}
	said := x.reading.Message + "\n" + x.reading.Error
	hidden := red.Text(said)
	var text redact.Text
	for i, w := range p.words {
		if i > 0 {
			text += " "
		}
		text += hideWord(red, x.line, out.Example, said, hidden, w)
	}
	out.Template, out.Error = text, ""
	if at := strings.Index(string(text), errorSeparator); at >= 0 {
		out.Template, out.Error = text[:at], text[at+len(errorSeparator):]
	}
	out.Template, out.Error = out.Template.Map(strings.TrimSpace), out.Error.Map(strings.TrimSpace)
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	out.ID = fmt.Sprintf("%016x", h.Sum64())
	return out
}

// hideWord returns a token of a pattern, or a mask if it contains part of a secret: its
// fixed parts must still be in the redacted line and in its redacted message.
func hideWord(red *redact.Redactor, line string, hiddenLine redact.Text, said string, hidden redact.Text, word string) (out redact.Text) {
	for word != "" {
		if k := slices.IndexFunc(placeholders, func(m redact.Text) bool { return strings.HasPrefix(word, string(m)) }); k >= 0 {
			out, word = out+placeholders[k], word[len(placeholders[k]):]
			continue
		}
		end := 1 + strings.IndexByte(word[1:], '<')
		if end == 0 {
			end = len(word)
		}
		piece := red.Part(said, hidden, word[:end])
		if string(piece) != word[:end] || strings.Contains(line, word[:end]) && !strings.Contains(string(hiddenLine), word[:end]) {
			return redact.Mask
		}
		out, word = out+piece, word[end:]
	}
	return out
}
