package traffic

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule is one signature: a text that lines contain, or an expression that they
// match. It is immutable.
type Rule struct {
	ID   int    // from 1
	Name string // Sig0001
	// Text is the literal text in the lines; if empty, Expr applies.
	Text string
	// Expr is in RE2 syntax, with named groups, and without syntax that other
	// engines interpret differently.
	Expr string
	// By are the groups of Expr that distinguish the failures.
	By []string

	sample func(d dice, b []byte) []byte
}

// Regexp returns the expression that matches the same lines as the rule.
func (r Rule) Regexp() string {
	if r.Text != "" {
		return regexp.QuoteMeta(r.Text)
	}
	return r.Expr
}

var groupName = regexp.MustCompile(`\(\?P<\w+>`)

// Bare returns the expression without names of groups and without captures.
func (r Rule) Bare() string { return groupName.ReplaceAllString(r.Regexp(), "(?:") }

// MaxRules is the number of different rules.
const MaxRules = 5000

// Rules returns n rules, at most MaxRules. A smaller set is a prefix of a
// larger one. The first five are the failures that crowsnest was made for. Half
// of the others are texts, a third are expressions with captures around a fixed
// text, and the rest are alternations, case-insensitive texts, and two texts
// with anything between. A fifth have a text of only 7 to 14 bytes.
func Rules(n int) []Rule {
	out := incidents()
	short := tokens()
	for i := len(out); i < n; i++ {
		out = append(out, made(i, short))
	}
	out = out[:min(n, len(out))]
	for i := range out {
		out[i].ID, out[i].Name = i+1, fmt.Sprintf("Sig%04d", i+1)
	}
	return out
}

func plain(text string) Rule {
	return Rule{Text: text, sample: func(_ dice, b []byte) []byte { return append(b, text...) }}
}

func incidents() []Rule {
	modified := `failed to increase node group size: Operation cannot be fulfilled on machinedeployments.cluster.x-k8s.io `
	return []Rule{
		{
			Expr: `Failed to aggregate ControlPlane, MachinePool, MachineDeployment(?:'s RollingOut|, MachineSet's Scaling(?:Up|Down)) conditions`,
			sample: func(d dice, b []byte) []byte {
				b = append(b, "Failed to aggregate ControlPlane, MachinePool, MachineDeployment"...)
				b = append(b, d.one([]string{"'s RollingOut", ", MachineSet's ScalingUp", ", MachineSet's ScalingDown"})...)
				return append(b, " conditions"...)
			},
		},
		{
			Expr: regexp.QuoteMeta(modified) + `(?P<group>[a-z0-9.-]+): .*the object has been modified`, By: []string{"group"},
			sample: func(d dice, b []byte) []byte {
				return append(d.name(append(b, modified...)), ": StorageError: conflict, the object has been modified"...)
			},
		},
		{
			Expr: `CAPI machine count \((?P<machines>\d+)\) is not equal to node count \((?P<nodes>\d+)\)`,
			sample: func(d dice, b []byte) []byte {
				b = d.number(append(b, "CAPI machine count ("...), 40)
				b = d.number(append(b, ") is not equal to node count ("...), 40)
				return append(b, ')')
			},
		},
		plain("failed to renew lease kube-system/kube-controller-manager"),
		plain("no new finalizers can be added if the object is being deleted"),
	}
}

const (
	objectExpr = `(?P<object>[a-z0-9-]+/[a-z0-9.-]+)`
	timeExpr   = `[0-9]+(?:ms|s|m)`
)

// made returns the i-th generated rule.
func made(i int, short []string) Rule {
	text := phrase(i)
	token := short[i/20*4+min(i%20, 3)]
	switch i % 20 {
	case 0, 1, 2:
		return plain(token)
	case 3:
		return surrounded("", token+" in ", objectExpr, dice.object, "object")
	case 11, 12:
		return surrounded("", text+" of ", objectExpr, dice.object, "object")
	case 13:
		return surrounded("", text+" after ", `(?P<waited>`+timeExpr+`)`, dice.duration)
	case 14:
		return surrounded(`(?P<times>\d+) times: `, text+" on ", `(?P<node>[a-z0-9][a-z0-9.-]*)`, dice.name, "node")
	case 15:
		return surrounded(`(?P<kind>[A-Z][A-Za-z]+): `, text+" in ", objectExpr, dice.object, "object")
	case 16:
		return surrounded("", text+", attempt ", `(?P<attempt>\d+)`, func(d dice, b []byte) []byte { return d.number(b, 99) })
	case 17:
		return either(text, phrase(MaxRules+i/20))
	case 18:
		return anyCase(text)
	case 19:
		return gap(text)
	}
	return plain(text)
}

// surrounded is a fixed text with an expression before and after it.
func surrounded(before, text, behind string, value func(dice, []byte) []byte, by ...string) Rule {
	return Rule{Expr: before + regexp.QuoteMeta(text) + behind, By: by, sample: func(d dice, b []byte) []byte {
		switch {
		case strings.Contains(before, "times"):
			b = append(d.number(b, 5000), " times: "...)
		case before != "":
			b = append(append(b, d.one(kinds)...), ": "...)
		}
		return value(d, append(b, text...))
	}}
}

func either(one, other string) Rule {
	return Rule{Expr: `(?:` + one + `|` + other + `) at generation (?P<generation>\d+)`, sample: func(d dice, b []byte) []byte {
		b = append(b, d.one([]string{one, other})...)
		return d.number(append(b, " at generation "...), 1000)
	}}
}

func anyCase(text string) Rule {
	forms := []string{text, strings.ToUpper(text), strings.ToUpper(text[:1]) + text[1:]}
	return Rule{Expr: `(?i)` + text, sample: func(d dice, b []byte) []byte { return append(b, d.one(forms)...) }}
}

// gap is two texts with anything between.
func gap(text string) Rule {
	const end = "giving up for good"
	return Rule{Expr: text + `.*` + end, sample: func(d dice, b []byte) []byte {
		b = append(append(b, text...), d.one([]string{", ", " again, ", " for the third time, "})...)
		return append(b, end...)
	}}
}

// appendSample appends a text that the rule matches.
func (r Rule) appendSample(b []byte, d dice) []byte { return r.sample(d, b) }
