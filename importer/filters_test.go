package importer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Conditions on labels of a JSON line mean the same as in LogQL. The model evaluates them as LogQL
// does: an absent label is empty, and is no number.
func TestLabelFiltersMeanTheSame(t *testing.T) {
	held := 0
	const runs = 3000
	for seed := range uint64(runs) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		text, holds := randomFilter(rnd, 2)
		query := `sum(count_over_time({app="x"} | json | ` + text + ` [5m])) > 3`
		r := &rule{}
		require.NoError(t, alertOf(query, r), query)
		accepts := r.match.compile()
		for range 5 {
			line, labels := randomLine(rnd)
			want := holds(labels)
			if want {
				held++
			}
			require.Equal(t, want, accepts(line), "%s\n%s\n%+v", query, line, r.match)
		}
	}
	require.Greater(t, held, runs/2)
}

type labelsOf map[string]string

func randomFilter(rnd *rand.Rand, depth int) (string, func(labelsOf) bool) {
	if depth == 0 || rnd.IntN(3) == 0 {
		return randomComparison(rnd)
	}
	a, holdsA := randomFilter(rnd, depth-1)
	b, holdsB := randomFilter(rnd, depth-1)
	if rnd.IntN(2) == 0 {
		join := []string{" and ", ", ", " "}[rnd.IntN(3)]
		return "(" + a + join + b + ")", func(l labelsOf) bool { return holdsA(l) && holdsB(l) }
	}
	return "(" + a + " or " + b + ")", func(l labelsOf) bool { return holdsA(l) || holdsB(l) }
}

func randomComparison(rnd *rand.Rand) (string, func(labelsOf) bool) {
	name := []string{"a", "b", "c_d", "n"}[rnd.IntN(4)]
	if name == "n" {
		op := []string{"=", "==", "!=", ">", ">=", "<", "<="}[rnd.IntN(7)]
		limit := rnd.IntN(30)
		return fmt.Sprintf("n %s %d", op, limit), func(l labelsOf) bool {
			v, err := strconv.ParseFloat(l["n"], 64)
			if err != nil {
				return false
			}
			f := float64(limit)
			return map[string]bool{"=": v == f, "==": v == f, "!=": v != f, ">": v > f, ">=": v >= f, "<": v < f, "<=": v <= f}[op]
		}
	}
	switch value := []string{"x", "y", "", "~x"}[rnd.IntN(4)]; rnd.IntN(4) {
	case 0:
		return fmt.Sprintf("%s=%q", name, value), func(l labelsOf) bool { return l[name] == value }
	case 1:
		return fmt.Sprintf("%s!=%q", name, value), func(l labelsOf) bool { return l[name] != value }
	case 2:
		return name + `=~"x|y."`, func(l labelsOf) bool { return regexp.MustCompile(`^(?:x|y.)$`).MatchString(l[name]) }
	default:
		return name + `!~"x|y."`, func(l labelsOf) bool { return !regexp.MustCompile(`^(?:x|y.)$`).MatchString(l[name]) }
	}
}

// randomLine returns a JSON object, and the labels that LogQL extracts from it.
func randomLine(rnd *rand.Rand) (string, labelsOf) {
	line, labels := map[string]any{"z": "z"}, labelsOf{}
	for _, name := range []string{"a", "b", "c_d"} {
		if rnd.IntN(3) == 0 {
			continue
		}
		value := []string{"x", "y", "yy", "", "~x"}[rnd.IntN(5)]
		labels[name] = value
		if nested, inner, ok := strings.Cut(name, "_"); ok && rnd.IntN(2) == 0 {
			line[nested] = map[string]any{inner: value}
		} else {
			line[name] = value
		}
	}
	if rnd.IntN(3) > 0 {
		n := json.Number([]string{"0", "7", "12", "19.5", "29", "-3", "100"}[rnd.IntN(7)])
		labels["n"], line["n"] = n.String(), n
	}
	text, _ := json.Marshal(line) // maps of texts and numbers always encode
	return string(text), labels
}
