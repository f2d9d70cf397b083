package commands

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is a program or one of its subcommands.
type program struct {
	flags map[string]flag
	// risk is "risky" if it deletes, drains, restarts or scales something, and "changes" if
	// it changes something else.
	risk string
	subs bool // it has subcommands
}

// flag is a flag: how many values follow it, at least and at most; manyValues: all up to the
// next flag.
type flag struct {
	values   int
	optional bool // the value, after =
}

const manyValues = -1

// programs reads the table of programs by their names with subcommands.
func programs(t *testing.T) map[string]*program {
	t.Helper()
	data, err := os.ReadFile("testdata/programs.txt")
	require.NoError(t, err)
	out := map[string]*program{}
	for row := range strings.Lines(string(data)) {
		if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
			continue
		}
		name, flags, ok := strings.Cut(row, ":")
		require.True(t, ok, row)
		require.NotContains(t, out, name)
		p := &program{flags: map[string]flag{}}
		for f := range strings.FieldsSeq(flags) {
			if f == "risky" || f == "changes" {
				p.risk = f
				continue
			}
			names, value, takes := strings.Cut(f, "=")
			x := flag{}
			switch {
			case takes && value == "":
				x.values = 1
			case value == "2":
				x.values = 2
			case value == "*":
				x.values = manyValues
			}
			if bare, ok := strings.CutSuffix(names, "?"); ok {
				names, x.optional = bare, true
			}
			for n := range strings.SplitSeq(names, ",") {
				p.flags[n] = x
			}
		}
		out[name] = p
		for words := strings.Fields(name); len(words) > 1; {
			words = words[:len(words)-1]
			parent := strings.Join(words, " ")
			if out[parent] == nil {
				out[parent] = &program{flags: map[string]flag{}}
			}
			out[parent].subs = true
		}
	}
	return out
}

// parsedCommand is a simple command whose program is known.
type parsedCommand struct {
	name string // with subcommands
	risk string
	args []string // that are no flags, after the subcommands
	rest []string // after "--"
}

// read finds the program of a command and checks its flags.
func read(all map[string]*program, words []string) (out parsedCommand, problems []string) {
	out.name = words[0]
	chain := []*program{all[words[0]]}
	if chain[0] == nil {
		return out, []string{fmt.Sprintf("program %s is not in testdata/programs.txt", words[0])}
	}
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w == "--" {
			out.rest = words[i+1:]
			break
		}
		if len(w) > 1 && w[0] == '-' {
			n, problem := readFlag(chain, out.name, words[i:])
			if problem != "" {
				problems = append(problems, problem)
			}
			i += n
			continue
		}
		if last := chain[len(chain)-1]; last.subs && len(out.args) == 0 {
			if p := all[out.name+" "+w]; p != nil {
				out.name += " " + w
				chain = append(chain, p)
				continue
			}
			problems = append(problems, fmt.Sprintf("%s has no subcommand %s in testdata/programs.txt", out.name, w))
		}
		out.args = append(out.args, w)
	}
	out.risk = chain[len(chain)-1].risk
	return out, problems
}

// readFlag checks the flag at the start of words, and returns how many values follow it.
func readFlag(chain []*program, name string, words []string) (n int, problem string) {
	bare, value, stated := strings.Cut(words[0], "=")
	if !strings.HasPrefix(bare, "--") && len(bare) > 2 && !known(chain, bare) && !stated {
		for i, c := range bare[1:] { // -rn, -n5
			f, ok := find(chain, "-"+string(c))
			if !ok {
				return 0, fmt.Sprintf("%s has no flag %s", name, bare)
			}
			if f.values > 0 {
				if i == len(bare)-2 {
					return f.values, ""
				}
				return 0, ""
			}
		}
		return 0, ""
	}
	f, ok := find(chain, bare)
	switch {
	case !ok:
		return 0, fmt.Sprintf("%s has no flag %s", name, bare)
	case stated && value == "":
		return 0, fmt.Sprintf("flag %s of %s has an empty value", bare, name)
	case stated && f.values == 0 && !f.optional && value != "true" && value != "false":
		return 0, fmt.Sprintf("flag %s of %s takes no value", bare, name)
	case stated || f.values == 0:
		return 0, ""
	case f.values == manyValues:
		for n+1 < len(words) && !strings.HasPrefix(words[n+1], "-") {
			n++
		}
		return n, ""
	case len(words) <= f.values:
		return 0, fmt.Sprintf("flag %s of %s has no value", bare, name)
	}
	return f.values, ""
}

func find(chain []*program, name string) (flag, bool) {
	for _, p := range chain {
		if f, ok := p.flags[name]; ok {
			return f, true
		}
	}
	return flag{}, false
}

func known(chain []*program, name string) bool {
	_, ok := find(chain, name)
	return ok
}
