package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// ListStyle controls the format of lists.
type ListStyle struct {
	Color bool
	Wide  bool // more columns
	// Now is the time that ages refer to.
	Now time.Time
}

// Cell is a text of a table, without line breaks.
type Cell struct {
	Text string
	// Color is one of the colors of a terminal, "" for none.
	Color string
	// Drifts means that the text changes all the time, like an age: such a change is none
	// that a person waits for.
	Drifts bool
}

// Row is a row of a table. Rows with the same key, at different times, are about the same.
type Row struct {
	Key   string
	Cells []Cell
}

// same reports whether two rows differ in no cell that does not drift.
func (r Row) same(other Row) bool {
	for i, c := range r.Cells {
		if i >= len(other.Cells) || !c.Drifts && c.Text != other.Cells[i].Text {
			return false
		}
	}
	return true
}

// Table is a list with a head.
type Table struct {
	Head []string
	Rows []Row
	// State is the column with the state of a row whose subject ends by leaving the list;
	// Ended is its state then, "" if nothing has to be said.
	State int
	Ended string
	// EndedAs is the state of the rows that have another one then, by key.
	EndedAs map[string]string
}

const gap = 2 // between two columns

// Write prints tables, with an empty line between them.
func Write(w io.Writer, tables []Table, style ListStyle) error {
	var b strings.Builder
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		widths := t.widths(nil)
		t.line(&b, t.head(), widths, style)
		for _, r := range t.Rows {
			t.line(&b, r.Cells, widths, style)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) head() []Cell {
	out := make([]Cell, len(t.Head))
	for i, name := range t.Head {
		out[i] = Cell{Text: name, Color: bold}
	}
	return out
}

// widths returns the widths of the columns, at least those of another time.
func (t Table) widths(least []int) []int {
	out := make([]int, len(t.Head))
	copy(out, least)
	grow := func(i int, text string) { out[i] = max(out[i], utf8.RuneCountInString(text)) }
	for i, name := range t.Head {
		grow(i, name)
	}
	for _, r := range t.Rows {
		for i, c := range r.Cells {
			grow(i, c.Text)
		}
	}
	return out
}

func (t Table) line(b *strings.Builder, cells []Cell, widths []int, style ListStyle) {
	last := len(cells) - 1
	for last > 0 && cells[last].Text == "" {
		last--
	}
	for i, c := range cells[:last+1] {
		b.WriteString(Style{Color: style.Color && c.Color != ""}.paint(c.Color, c.Text))
		if i < last {
			b.WriteString(strings.Repeat(" ", widths[i]+gap-utf8.RuneCountInString(c.Text)))
		}
	}
	b.WriteByte('\n')
}

// Watched prints the tables of a list once, and then the rows that changed. It is not safe
// for concurrent use.
type Watched struct {
	W      io.Writer
	began  bool
	widths [][]int
	last   []map[string]Row
}

// Update prints what changed since the last call.
func (x *Watched) Update(tables []Table, style ListStyle) error {
	var b strings.Builder
	for i, t := range tables {
		if !x.began {
			x.widths, x.last = append(x.widths, nil), append(x.last, map[string]Row{})
			if i > 0 {
				b.WriteByte('\n')
			}
		}
		if i >= len(x.last) {
			break
		}
		x.widths[i] = t.widths(x.widths[i])
		if t.Ended != "" { // later states must fit
			x.widths[i][t.State] = max(x.widths[i][t.State], len(t.Ended))
		}
		if !x.began {
			t.line(&b, t.head(), x.widths[i], style)
		}
		x.changes(&b, i, t, style)
	}
	x.began = true
	_, err := io.WriteString(x.W, b.String())
	return err
}

func (x *Watched) changes(b *strings.Builder, i int, t Table, style ListStyle) {
	now := make(map[string]Row, len(t.Rows))
	for _, r := range t.Rows {
		now[r.Key] = r
		if was, known := x.last[i][r.Key]; !known || !r.same(was) {
			t.line(b, r.Cells, x.widths[i], style)
		}
	}
	if t.Ended != "" {
		for _, r := range sortedRows(x.last[i]) {
			if _, open := now[r.Key]; !open {
				state := cmp.Or(t.EndedAs[r.Key], t.Ended)
				r.Cells[t.State] = stateCell(state, state)
				t.line(b, r.Cells, x.widths[i], style)
			}
		}
	}
	x.last[i] = now
}

// age formats how long something has lasted, as kubectl does; "never" for no time.
func (s ListStyle) age(t time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "never", Drifts: true}
	}
	return Cell{Text: ageText(s.Now.Sub(t)), Drifts: true}
}

// ageText formats an age with the precision that matters.
func ageText(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(large time.Duration, l string, small time.Duration, s string) string {
		text := fmt.Sprintf("%d%s", d/large, l)
		if rest := d % large / small; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, s)
		}
		return text
	}
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 10*time.Minute:
		return two(time.Minute, "m", time.Second, "s")
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 8*time.Hour:
		return two(time.Hour, "h", time.Minute, "m")
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 8*day:
		return two(day, "d", time.Hour, "h")
	}
	return fmt.Sprintf("%dd", d/day)
}

func plain(text string) Cell { return Cell{Text: text} }

func number[T int | int64](n T) Cell { return Cell{Text: fmt.Sprint(n)} }

// severityCell is a severity in its color.
func severityCell(severity string) Cell {
	c := Cell{Text: severity, Color: blue}
	switch severity {
	case "critical":
		c.Color = red
	case "warning":
		c.Color = yellow
	case "":
		c = plain("-")
	}
	return c
}

// stateCell is the state of an alert in its color.
func stateCell(state, text string) Cell {
	c := plain(text)
	switch state {
	case "firing":
		c.Color = red
	case "pending":
		c.Color = yellow
	case "resolved":
		c.Color = green
	}
	return c
}

// healthCell is the health of a rule in its color.
func healthCell(health string) Cell {
	c := Cell{Text: health, Color: red}
	switch health {
	case "ok":
		c.Color = green
	case "inactive": // nothing runs here that the rule is about
		c.Color = dim
	case "blind":
		c.Color = yellow
	}
	return c
}

// goodCell is a text that is green if all is well, else red.
func goodCell(good bool, text string) Cell {
	if good {
		return Cell{Text: text, Color: green}
	}
	return Cell{Text: text, Color: red}
}

// RuleTable returns a table of rules: the first column is the name of a rule, the third its
// severity.
func RuleTable(head []string, rows [][]string) Table {
	t := Table{Head: head}
	for _, texts := range rows {
		cells := make([]Cell, len(texts))
		for i, text := range texts {
			cells[i] = plain(text)
		}
		cells[0].Color, cells[2] = bold, severityCell(texts[2])
		t.Rows = append(t.Rows, Row{texts[0], cells})
	}
	return t
}
