package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"crowsnest/redact"
	"crowsnest/rules"
)

// ListStyle controls the output format of lists.
type ListStyle struct {
	Color bool
	Wide  bool // whether to show additional columns
	// Now is the time to which ages are relative.
	Now time.Time
}

// Cell is the text of one cell of a table. It has no line breaks.
type Cell struct {
	Text string
	// Color is an escape sequence for a color. It is "" for the default color.
	Color string
}

// Table is a list with a header.
type Table struct {
	hidden []bool // whether each column is omitted
	rows   [][]Cell
}

// newTable returns a table without rows. Columns whose names begin with + are shown only in wide lists.
func newTable(style ListStyle, head ...string) *Table {
	t := &Table{}
	row := make([]any, len(head))
	for i, name := range head {
		name, wide := strings.CutPrefix(name, "+")
		t.hidden = append(t.hidden, wide && !style.Wide)
		row[i] = boldCell(name)
	}
	t.addRow(row...)
	return t
}

// addRow adds a row with a value for each column. It ignores values beyond the last column, and removes control
// characters, so that text from a log cannot control a terminal.
func (t *Table) addRow(values ...any) {
	var row []Cell
	for i, hidden := range t.hidden {
		if hidden {
			continue
		}
		c, ok := values[i].(Cell)
		if at, isTime := values[i].(time.Time); isTime {
			c.Text = at.UTC().Format(time.RFC3339)
		} else if !ok {
			c.Text = fmt.Sprint(values[i])
		}
		c.Text = redact.Sanitise(c.Text)
		row = append(row, c)
	}
	t.rows = append(t.rows, row)
}

const gap = 2 // number of spaces between two columns

// Write prints tables, with an empty line between them.
func Write(w io.Writer, style ListStyle, tables ...*Table) error {
	var b strings.Builder
	for i, t := range tables {
		if i > 0 {
			b.WriteByte('\n')
		}
		widths := make([]int, len(t.hidden))
		for _, row := range t.rows {
			for i, c := range row {
				widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
			}
		}
		for _, row := range t.rows {
			last := len(row) - 1
			for last > 0 && row[last].Text == "" {
				last--
			}
			for i, c := range row[:last+1] {
				b.WriteString(Style{Color: style.Color && c.Color != ""}.paint(c.Color, c.Text))
				if i < last {
					b.WriteString(strings.Repeat(" ", widths[i]+gap-utf8.RuneCountInString(c.Text)))
				}
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// age formats the time since t as kubectl does. It returns "never" if t is zero.
func (s ListStyle) age(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return ageText(s.Now.Sub(t))
}

func (s ListStyle) lineText(line redact.Text) string {
	if s.Wide {
		return string(line)
	}
	return fmt.Sprintf("%.100s", line)
}

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

func boldCell(text string) Cell { return Cell{Text: text, Color: bold} }

func severityCell(severity string) Cell {
	if severity == "" {
		return Cell{Text: "-"}
	}
	return Cell{Text: severity, Color: severityColor(severity)}
}

func healthCell(health string) Cell {
	colors := map[string]string{"ok": green, "inactive": dim, "blind": yellow} // no source can deliver lines to an inactive rule
	return Cell{Text: health, Color: cmp.Or(colors[health], red)}
}

func upCell(up bool) Cell {
	if up {
		return Cell{Text: "true", Color: green}
	}
	return Cell{Text: "false", Color: red}
}

// WriteRules writes a list of rules.
func WriteRules(w io.Writer, all []*rules.Rule, style ListStyle) error {
	t := newTable(style, "ALERT", "PACK", "SEVERITY", "ENABLED", "ORIGIN", "STREAMS")
	for _, r := range all {
		t.addRow(boldCell(r.Alert), r.Pack, severityCell(string(r.Severity)), r.Mode, r.LineOrigin(), r.From)
	}
	return Write(w, style, t)
}
