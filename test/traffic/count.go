package traffic

import (
	"bytes"
	"regexp"
	"runtime"
	"sync"
)

// MaxLine is the number of bytes of a line that crowsnest reads.
const MaxLine = 16 << 10

// Counts contain how many lines each rule matches, by the name of the rule.
// Rules that match none are missing.
type Counts struct {
	Lines int64 // physical lines
	// Joined counts logical lines: partial lines are joined, and only the first
	// MaxLine bytes count. crowsnest should find these.
	Joined map[string]int64
	// Physical counts lines as they are in the file, without the header of the
	// container runtime. A program without support for partial lines finds
	// these.
	Physical map[string]int64
	// AnyPhysical is the number of physical lines that at least one rule
	// matches.
	AnyPhysical int64
}

// Count counts in the simplest way: it tries each rule on each line.
func Count(log []byte, rules []Rule) Counts {
	texts := split(log)
	expressions := make([]*regexp.Regexp, len(rules))
	for i, r := range rules {
		if r.Text == "" {
			expressions[i] = regexp.MustCompile(r.Expr)
		}
	}
	c := counter{rules: rules, expressions: expressions}
	workers := runtime.GOMAXPROCS(0)
	parts := make([]tally, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { parts[w] = c.count(texts[len(texts)*w/workers : len(texts)*(w+1)/workers]) })
	}
	wg.Wait()
	out := Counts{Lines: int64(bytes.Count(log, []byte("\n"))), Joined: map[string]int64{}, Physical: map[string]int64{}}
	for _, t := range parts {
		out.AnyPhysical += t.any
		for i, r := range rules {
			add(out.Joined, r.Name, t.joined[i])
			add(out.Physical, r.Name, t.physical[i])
		}
	}
	return out
}

func add(to map[string]int64, name string, n int64) {
	if n > 0 {
		to[name] += n
	}
}

// text is an input of the rules: a physical line, a logical one, or both.
type text struct {
	b                 []byte
	physical, logical bool
}

// split returns the texts of a log. A physical line that is also a logical one
// is one text.
func split(log []byte) []text {
	var out []text
	pending := map[string][]byte{} // by stream: the partial lines so far
	logical := func(line []byte, whole bool) {
		cut := line[:min(len(line), MaxLine)]
		if whole && len(cut) == len(line) {
			out = append(out, text{line, true, true})
			return
		}
		if whole {
			out = append(out, text{line, true, false})
		}
		out = append(out, text{cut, false, true})
	}
	for line := range bytes.Lines(log) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		stream, tag, b, ok := header(line)
		before := pending[stream]
		switch {
		case !ok, tag == "F" && before == nil:
			logical(b, true)
		case tag == "P":
			out = append(out, text{b, true, false})
			pending[stream] = append(before, b...)
		default:
			out = append(out, text{b, true, false})
			logical(append(before, b...), false)
			delete(pending, stream)
		}
	}
	for _, b := range pending {
		logical(b, false)
	}
	return out
}

// Parts returns the physical lines for which Joined and Physical may differ:
// partial lines, and lines longer than MaxLine. For the other lines they are
// equal.
func Parts(log []byte) []byte {
	var out []byte
	open := map[string]bool{} // by stream: its line continues
	for line := range bytes.Lines(log) {
		stream, tag, b, _ := header(bytes.TrimSuffix(line, []byte("\n")))
		if tag == "P" || open[stream] || len(b) > MaxLine {
			out = append(out, line...)
		}
		open[stream] = tag == "P"
	}
	return out
}

var criHeader = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+Z (stdout|stderr) ([PF]) `)

// header splits off what the container runtime wrote before a line.
func header(line []byte) (stream, tag string, rest []byte, ok bool) {
	m := criHeader.FindSubmatchIndex(line)
	if m == nil {
		return "", "", line, false
	}
	return string(line[m[2]:m[3]]), string(line[m[4]:m[5]]), line[m[1]:], true
}

type counter struct {
	rules       []Rule
	expressions []*regexp.Regexp
}

type tally struct {
	joined, physical []int64 // by index of the rule
	any              int64
}

func (c counter) count(texts []text) tally {
	t := tally{joined: make([]int64, len(c.rules)), physical: make([]int64, len(c.rules))}
	for _, x := range texts {
		matched := false
		for i, r := range c.rules {
			if !c.matches(i, r, x.b) {
				continue
			}
			if x.physical {
				t.physical[i]++
				matched = true
			}
			if x.logical {
				t.joined[i]++
			}
		}
		if matched {
			t.any++
		}
	}
	return t
}

func (c counter) matches(i int, r Rule, line []byte) bool {
	if e := c.expressions[i]; e != nil {
		return e.Match(line)
	}
	return bytes.Contains(line, []byte(r.Text))
}
