package discover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/redact"
)

// wording returns a pattern of one line.
func wording(text redact.Text) Pattern {
	return Pattern{Template: text, Example: "E0101 10:00:00.0 1 a.go:1] " + text}
}

// One rule covers all wordings that it can distinguish.
func TestGather(t *testing.T) {
	f := func(first string, variants []string, wantOthers [][]string, wantLeft ...string) {
		t.Helper()
		p := ProposeFor(wording(redact.Text(first)))[0]
		all := make([]Pattern, len(variants))
		for i, v := range variants {
			all[i] = wording(redact.Text(v))
		}
		others, left := Gather(&p, all)
		var gotOthers [][]string
		for _, o := range others {
			gotOthers = append(gotOthers, o.Texts)
		}
		var gotLeft []string
		for _, l := range left {
			gotLeft = append(gotLeft, string(l.Template))
		}
		require.Equal(t, wantOthers, gotOthers)
		require.Equal(t, wantLeft, gotLeft)
	}
	f("quota of tenant is used up", nil, nil)
	f("cannot scale the pool", []string{"unable to grow the pool", "pool refused to grow"}, [][]string{{"unable to grow the pool"}, {"pool refused to grow"}})
	// The rule matches it already.
	f("cannot scale the pool", []string{"again: cannot scale the pool"}, nil)
	// It would also match the line of the rule.
	f("again cannot scale the pool", []string{"cannot scale the pool"}, nil, "cannot scale the pool")
	// There is no text to match.
	f("cannot scale the pool", []string{"no pool"}, nil, "no pool")
	var many []string
	var want [][]string
	for i := range maxOthers + 2 {
		many = append(many, "cannot scale pool "+strings.Repeat(string(rune('a'+i)), 8))
		want = append(want, []string{many[i]})
	}
	f("unable to grow the pool", many, want[:maxOthers], many[maxOthers:]...)
}

// A variant contains the text of the cause, and captures the object if it names one.
func TestGatherCause(t *testing.T) {
	line := func(msg, err, fields string) Pattern {
		return Pattern{Template: redact.Text(msg), Error: redact.Text(err), Example: redact.Text(fmt.Sprintf("E0101 10:00:00.0 1 a.go:1] %q err=%q%s", msg, err, fields))}
	}
	p := ProposeFor(line("Sync failed", "quota of tenant is used up", ` Claim="shop/a"`))[0]
	require.Equal(t, "Claim", p.Object)
	others, left := Gather(&p, []Pattern{
		line("Cannot resize", "cannot update it: quota of tenant is used up", ` Claim="shop/b"`),
		line("Cannot shrink", "it failed after 3 attempts: quota of tenant is used up", ""),
	})
	require.Empty(t, left)
	require.Equal(t, []string{"Cannot resize", "cannot update it: quota of tenant is used up"}, others[0].Texts)
	require.Equal(t, "shop/b", others[0].Value)
	require.Equal(t, []string{"Cannot shrink", "it failed after", "quota of tenant is used up"}, others[1].Texts)
	require.Empty(t, others[1].Object)
}
