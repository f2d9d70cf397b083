package strictyaml

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"

	"crowsnest/internal/lazyre"
)

var (
	decimal      = lazyre.New(`^[-+]?(0|[1-9][0-9]*)$`)
	trailingZero = lazyre.New(`^[0-9]+\.[0-9]*[1-9]0+$`)
)

const durationForm = "write it as in Prometheus: 30s, 10m, 1h30m, 7d"

// kindName returns the name of a node's kind in messages.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a truth value"
	case "!!null":
		return "empty"
	}
	return "text"
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// wrongType is WrongType without a fix.
func (n *Node) wrongType(want string) { n.WrongType(want, "") }

// typeFix returns the fix that the kind of the node suggests, or "" if it suggests none.
func (n *Node) typeFix(want string) string {
	value := n.n.Value
	scalar := n.n.Kind == yaml.ScalarNode
	short := scalar && len(value) <= 40 && !strings.ContainsAny(value, "\n\"'")
	quoted := n.n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	switch {
	case want == "a list" && short:
		return "write [" + value + "]"
	case want == "a list":
		return "write a list: - item"
	case want == "a mapping":
		return "write it as NAME: VALUE"
	case want == "text" && n.n.Kind == yaml.MappingNode:
		return "quote the value: text that starts with { or has a colon and a space needs quotes"
	case want == "text" && n.n.Kind == yaml.SequenceNode:
		return "write one text, in quotes if it starts with ["
	case want == "text" && trailingZero.MatchString(value):
		return fmt.Sprintf("quote it: %q (unquoted it is the number %s)", value, strings.TrimRight(value, "0"))
	case want == "text" && short:
		return fmt.Sprintf("quote it: %q", value)
	case quoted && (decimal.MatchString(value) || value == "true" || value == "false"):
		return "remove the quotes: " + value
	case strings.HasSuffix(want, "number"):
		return "write it in digits"
	case want == "a duration":
		return durationForm
	case want == "true or false":
		return "write true or false"
	}
	return ""
}

func (d *decoder) decodeScalar(n *Node, v reflect.Value) {
	switch {
	case v.Kind() == reflect.String:
		if s, ok := n.Text(); ok {
			v.SetString(s)
		}
	case v.Kind() == reflect.Bool:
		if n.n.Kind != yaml.ScalarNode || n.n.Tag != "!!bool" {
			n.wrongType("true or false")
			return
		}
		v.SetBool(strings.EqualFold(n.n.Value, "true"))
	case v.CanInt():
		if i, ok := n.parseInteger(v.Type().Bits()); ok {
			v.SetInt(i)
		}
	case v.CanUint():
		if i, ok := n.parseInteger(64); ok {
			if i < 0 || v.OverflowUint(uint64(i)) {
				n.tooGreat()
				return
			}
			v.SetUint(uint64(i))
		}
	case v.CanFloat():
		f, err := strconv.ParseFloat(n.n.Value, 64)
		if n.n.Kind != yaml.ScalarNode || n.n.Tag != "!!int" && n.n.Tag != "!!float" || err != nil {
			n.wrongType("a number")
			return
		}
		v.SetFloat(f)
	default:
		// This is a bug of the program, not a mistake in the file.
		n.Errorf("wrong-type", "%s cannot be decoded into a Go %s", n.name, v.Type())
	}
}

// parseInteger parses the node as a decimal number. It reports a problem if it cannot.
func (n *Node) parseInteger(bits int) (int64, bool) {
	i, err := strconv.ParseInt(n.n.Value, 10, bits)
	switch isDecimal := decimal.MatchString(n.n.Value); {
	case n.n.Kind != yaml.ScalarNode || n.n.Tag != "!!int" && n.n.Tag != "!!float":
		n.wrongType("a whole number")
	case n.n.Tag == "!!float" && !isDecimal:
		n.Error("wrong-type", fmt.Sprintf("%s is %s, but must be a whole number", n.name, n.n.Value), "write it without a fraction")
	case !isDecimal:
		n.Error("wrong-type", fmt.Sprintf("%s is the number %s in a form that is easily misread", n.name, n.n.Value), "write it in decimal digits")
	case err != nil:
		n.tooGreat()
	default:
		return i, true
	}
	return 0, false
}

func (n *Node) tooGreat() {
	n.Error("wrong-type", n.name+" is out of range: "+n.n.Value[:min(len(n.n.Value), 60)], "use a number closer to 0")
}

// Duration returns the duration in the node, which must have the format of Prometheus, such as 1h30m. If the node is
// not a duration, Duration reports a problem and returns false.
func (n *Node) Duration() (time.Duration, bool) {
	if n.n.Kind != yaml.ScalarNode || isNull(n.n) {
		n.wrongType("a duration")
		return 0, false
	}
	d, err := model.ParseDuration(n.n.Value)
	if err != nil {
		fix := durationForm
		if n.n.Tag == "!!int" {
			fix = fmt.Sprintf("add a unit: %ss, %sm", n.n.Value, n.n.Value)
		}
		n.Error("bad-duration", fmt.Sprintf("%s is not a duration: %s", n.name, quoteShort(n.n.Value)), fix)
		return 0, false
	}
	return time.Duration(d), true
}

func quoteShort(s string) string {
	if len(s) > 60 {
		s = s[:60] + "..."
	}
	return strconv.Quote(s)
}
