package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// ListStyle controls the format of lists.
type ListStyle struct {
	Color bool
	Wide  bool // whether to show more columns
	// Now is the time from which ages are computed.
	Now time.Time
}

// Cell is a text of a table, without line breaks.
type Cell struct {
	Text string
	// Color is one of the colors of a terminal; "" for none.
	Color string
}

// Table is a list with a header.
type Table struct {
	Head []string
	Rows [][]Cell
}

const gap = 2 // number of spaces between two columns

// Write prints tables, with an empty line between them.
func Write(w io.Writer, tables []Table, style ListStyle) error {
	var b strings.Builder
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		widths := t.columnWidths()
		t.writeLine(&b, t.headRow(), widths, style)
		for _, r := range t.Rows {
			t.writeLine(&b, r, widths, style)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) headRow() []Cell {
	out := make([]Cell, len(t.Head))
	for i, name := range t.Head {
		out[i] = Cell{Text: name, Color: bold}
	}
	return out
}

func (t Table) columnWidths() []int {
	out := make([]int, len(t.Head))
	grow := func(i int, text string) { out[i] = max(out[i], utf8.RuneCountInString(text)) }
	for i, name := range t.Head {
		grow(i, name)
	}
	for _, r := range t.Rows {
		for i, c := range r {
			grow(i, c.Text)
		}
	}
	return out
}

func (t Table) writeLine(b *strings.Builder, cells []Cell, widths []int, style ListStyle) {
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

// ageCell formats how long ago t was, as kubectl does; "never" if t is zero.
func (s ListStyle) ageCell(t time.Time) Cell {
	if t.IsZero() {
		return plainCell("never")
	}
	return plainCell(ageText(s.Now.Sub(t)))
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

func plainCell[T ~string](text T) Cell { return Cell{Text: string(text)} }

func numberCell[T int | int64](n T) Cell { return Cell{Text: fmt.Sprint(n)} }

// severityCell returns a severity in its color.
func severityCell(severity string) Cell {
	c := Cell{Text: severity, Color: blue}
	switch severity {
	case "critical":
		c.Color = red
	case "warning":
		c.Color = yellow
	case "":
		c = plainCell("-")
	}
	return c
}

// stateCell returns text in the color of the state of an alert.
func stateCell(state, text string) Cell {
	c := plainCell(text)
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

// healthCell returns the health of a rule in its color.
func healthCell(health string) Cell {
	c := Cell{Text: health, Color: red}
	switch health {
	case "ok":
		c.Color = green
	case "inactive": // no source can serve the rule
		c.Color = dim
	case "blind":
		c.Color = yellow
	}
	return c
}

// goodCell returns a text that is green if good is true, and red otherwise.
func goodCell(good bool, text string) Cell {
	if good {
		return Cell{Text: text, Color: green}
	}
	return Cell{Text: text, Color: red}
}

// RuleTable returns a table of rules. The first column must be the name of the rule, and the
// third its severity.
func RuleTable(head []string, rows [][]string) Table {
	t := Table{Head: head}
	for _, texts := range rows {
		cells := make([]Cell, len(texts))
		for i, text := range texts {
			cells[i] = plainCell(text)
		}
		cells[0].Color, cells[2] = bold, severityCell(texts[2])
		t.Rows = append(t.Rows, cells)
	}
	return t
}
