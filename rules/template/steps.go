package template

import (
	"fmt"
	"strings"
)

// maxQuoted bounds the length of an unsafe value that is quoted below the steps, in characters.
const maxQuoted = 160

// failedStep replaces a step that cannot be shown completely, because half of a command is a
// different command.
const failedStep = "This step is not shown: its template failed, or the step is too long."

// Text renders a summary, unless it is nil, and numbered steps, one per line. People paste
// steps as commands. So Text replaces a value that IsSafe refuses by UNSAFE_VALUE_1, quotes it
// below the steps, and replaces a missing value by its name in upper case. neutral must return
// a value as one harmless line. failed is the number of templates that failed.
func Text(summary *Template, steps []*Template, d Data, neutral func(string) string) (text string, failed int) {
	var lines []string
	var unsafe []unsafeValue
	render := func(t *Template) string {
		out, ok := t.execute(d, &shown{use: useStep, neutral: neutral, unsafe: &unsafe})
		if !ok {
			failed++
		}
		return out
	}
	if summary != nil {
		lines = append(lines, render(summary))
	}
	for i, s := range steps {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, render(s)))
	}
	for i, v := range unsafe {
		lines = append(lines, fmt.Sprintf("UNSAFE_VALUE_%d is the logged text of %s. Check it before use: %s", i+1, placeholder(v.name), asData(v.text, neutral)))
	}
	return strings.Join(lines, "\n"), failed
}

// asData returns text as one word in single quotes, which a shell does not interpret.
func asData(text string, neutral func(string) string) string {
	text = strings.ReplaceAll(neutral(text), "'", "’")
	if r := []rune(text); len(r) > maxQuoted {
		text = string(r[:maxQuoted]) + "…"
	}
	return "'" + text + "'"
}
