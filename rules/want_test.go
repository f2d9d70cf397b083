package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/strictyaml"
	"crowsnest/rules"
)

const errPacks = "../testdata/rules/err"

// want is one line of a .want file: `LINES LEVEL WORD`.
//
// LINES is the line that the problem must name; `3,7` and `3-7` allow any of
// several, where the text leaves it open which of two keys is the wrong one, and
// `*` allows every line. LEVEL is error, warning, or any. WORD, in lower case, must occur
// in the message, the fix or the id of the check; `a|b` asks for one of them.
type want struct {
	lines string
	level string
	words []string
}

// expectation is a whole .want file.
type expectation struct {
	wants   []want
	options rules.Options
}

// TestErrPacks checks every broken file against what the language demands of it:
// each wanted problem is found on its line, and no line is blamed without a
// reason. `X.want` stands beside `X.yaml`; `X.base`, if there, is a pack that is
// loaded before it.
func TestErrPacks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(errPacks, "*.want"))
	require.NoError(t, err)
	require.Greater(t, len(files), 60)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".want")
		t.Run(name, func(t *testing.T) {
			exp := readWant(t, file)
			problems := problemsOf(t, strings.TrimSuffix(file, ".want"), exp.options)
			var wrong []string
			for _, w := range exp.wants {
				if !w.foundIn(problems) {
					wrong = append(wrong, fmt.Sprintf("wanted on line %s: %s %s", w.lines, w.level, strings.Join(w.words, "|")))
				}
			}
			for _, p := range problems.Errors() {
				if !exp.allows(p) {
					wrong = append(wrong, fmt.Sprintf("line %d is in order", p.Line))
				}
			}
			require.Empty(t, wrong, "got:\n%s", problems.Error())
		})
	}
}

func readWant(t *testing.T, file string) expectation {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var exp expectation
	for _, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		lines, rest, _ := strings.Cut(line, " ")
		level, word, _ := strings.Cut(rest, " ")
		if lines == "option" {
			exp.options.Shipped = exp.options.Shipped || level == "shipped"
			exp.options.Version = max(exp.options.Version, word)
			continue
		}
		require.Contains(t, []string{"error", "warning", "any"}, level, "%s: %s", file, line)
		exp.wants = append(exp.wants, want{lines, level, strings.Split(word, "|")})
	}
	require.NotEmpty(t, exp.wants, file)
	return exp
}

// problemsOf loads a file, behind its base if it has one, and returns its own
// problems, those that only the whole set shows included.
func problemsOf(t *testing.T, path string, opt rules.Options) rules.Problems {
	t.Helper()
	var docs []*rules.Document
	if base, err := os.ReadFile(path + ".base"); err == nil {
		doc, problems := rules.Parse(rules.File{Name: "base.yaml", Data: base})
		require.Empty(t, problems.Errors())
		docs = append(docs, doc)
	}
	data, err := os.ReadFile(path + ".yaml")
	require.NoError(t, err)
	name := filepath.Base(path) + ".yaml"
	doc, problems := rules.Parse(rules.File{Name: name, Data: data})
	set, more := rules.Build(append(docs, doc), opt)
	all := append(append(rules.Problems{}, problems...), more...)
	if len(all.Errors()) > 0 {
		require.Nil(t, set, "a set was built although there are errors")
	}
	own := rules.Problems{}
	for _, p := range all {
		if p.File == name {
			own = append(own, p)
		}
	}
	return own
}

func (w want) foundIn(problems rules.Problems) bool {
	for _, p := range problems {
		if w.describes(p) {
			return true
		}
	}
	return false
}

func (w want) describes(p rules.Problem) bool {
	if w.level == "error" && p.Level != strictyaml.Error || w.level == "warning" && p.Level != strictyaml.Warning {
		return false
	}
	if !covers(w.lines, p.Line) {
		return false
	}
	text := strings.ToLower(strings.Join([]string{p.Message, p.Fix, p.Check}, "\n"))
	for _, word := range w.words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// allows reports whether an error lies on a line on which one is expected.
func (e expectation) allows(p rules.Problem) bool {
	for _, w := range e.wants {
		if w.level != "warning" && covers(w.lines, p.Line) {
			return true
		}
	}
	return false
}

// covers reports whether lines, such as `3`, `3,7`, `3-7` or `*`, has line n.
func covers(lines string, n int) bool {
	if lines == "*" {
		return true
	}
	for _, part := range strings.Split(lines, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		if n >= number(from) && n <= number(to) {
			return true
		}
	}
	return false
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(fmt.Sprintf("not a line number: %q", s))
	}
	return n
}
