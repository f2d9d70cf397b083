package importer

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The expressions agree with the comparison of numbers.
func TestNumberConditions(t *testing.T) {
	values := []string{"-1", "-0.5", "0", "0.5", "1", "007", "99.0", "99.5", "100.25"}
	for i := range 1300 {
		values = append(values, strconv.Itoa(i))
	}
	compare := map[string]func(a, b float64) bool{
		"=":  func(a, b float64) bool { return a == b },
		"==": func(a, b float64) bool { return a == b },
		"!=": func(a, b float64) bool { return a != b },
		">":  func(a, b float64) bool { return a > b },
		">=": func(a, b float64) bool { return a >= b },
		"<":  func(a, b float64) bool { return a < b },
		"<=": func(a, b float64) bool { return a <= b },
	}
	for _, n := range []string{"0", "1", "9", "10", "19", "99", "100", "500", "999", "1000"} {
		for op, want := range compare {
			expr, negated, err := numberCondition(&labelFilter{name: "x", op: op, value: n, number: true})
			require.NoError(t, err)
			re := regexp.MustCompile("^(?:" + expr[1:] + ")$")
			limit, _ := strconv.ParseFloat(n, 64)
			for _, v := range values {
				f, _ := strconv.ParseFloat(v, 64)
				require.Equal(t, want(f, limit), re.MatchString(v) != negated, "%s %s %s: %s", v, op, n, expr)
			}
		}
	}
	for _, n := range []string{"1.5", "1e3", "99999999999999999999"} {
		_, _, err := numberCondition(&labelFilter{name: "x", op: ">", value: n, number: true})
		require.Error(t, err)
	}
}

// The number of lines that a comparison needs.
func TestLeast(t *testing.T) {
	f := func(expr string, want int) {
		t.Helper()
		q, err := parseAlert(expr)
		require.NoError(t, err)
		n, err := q.least()
		require.NoError(t, err)
		require.Equal(t, want, n, expr)
	}
	f(`sum(count_over_time({a="b"}[5m]))`, 1)
	f(`sum(count_over_time({a="b"}[5m])) > 0`, 1)
	f(`sum(count_over_time({a="b"}[5m])) >= 0`, 1)
	f(`sum(count_over_time({a="b"}[5m])) > -3`, 1)
	f(`sum(count_over_time({a="b"}[5m])) != 0`, 1)
	f(`sum(count_over_time({a="b"}[5m])) > 2.5`, 3)
	f(`sum(count_over_time({a="b"}[5m])) >= 3`, 3)
	f(`sum(rate({a="b"}[5m])) > 0.1`, 31)
	f(`sum(rate({a="b"}[5m])) >= 0.1`, 30)
	f(`sum(rate({a="b"}[1m])) * 60 >= 10`, 10)
	f(`sum(rate({a="b"}[1m])) / 2 * 120 > 10`, 11)
}
