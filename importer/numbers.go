package importer

import (
	"strconv"
	"strings"
)

// numberCondition translates a comparison of a field with a whole number into an expression for
// its decimal form.
func numberCondition(f *labelFilter) (value string, negated bool, err error) {
	n, err := strconv.ParseUint(f.value, 10, 32)
	if err != nil {
		return "", false, queryErrorf(f.at, "the label %s is compared with %s; a rule compares whole numbers only", f.name, f.value)
	}
	const fraction = `(?:\.\d+)?`
	equal := f.value + `(?:\.0+)?`
	switch f.op {
	case "=", "==":
		return "~0*" + equal, false, nil
	case "!=":
		return "~0*" + equal, true, nil
	case ">=":
		return "~0*" + atLeast(n) + fraction, false, nil
	case ">":
		return "~0*(?:" + atLeast(n+1) + fraction + "|" + f.value + `\.\d*[1-9]\d*)`, false, nil
	case "<":
		return "~" + below(n, fraction), false, nil
	case "<=":
		return "~(?:" + below(n, fraction) + "|0*" + equal + ")", false, nil
	}
	return "", false, queryErrorf(f.at, "`%s` cannot compare the label %s with a number", f.op, f.name)
}

// below returns an expression for numbers below n, and for negative ones.
func below(n uint64, fraction string) string {
	negative := `-\d+` + fraction
	if n == 0 {
		return negative
	}
	return "(?:0*(?:" + atMost(n-1) + ")" + fraction + "|" + negative + ")"
}

// atLeast returns an expression for whole numbers from n, without leading zeros.
func atLeast(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	parts := []string{digits, `[1-9]\d{` + strconv.Itoa(len(digits)) + `,}`}
	for i := range digits {
		rest := len(digits) - i - 1
		if d := digits[i]; d < '9' {
			parts = append(parts, digits[:i]+class(d+1, '9')+repeated(rest))
		}
	}
	return "(?:" + strings.Join(parts, "|") + ")"
}

// atMost returns an expression for whole numbers up to n, without leading zeros.
func atMost(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	parts := []string{digits}
	if len(digits) > 1 {
		parts = append(parts, `\d{1,`+strconv.Itoa(len(digits)-1)+`}`)
	}
	for i := range digits {
		low := byte('0')
		if i == 0 && len(digits) > 1 {
			low = '1'
		}
		if d := digits[i]; d > low {
			parts = append(parts, digits[:i]+class(low, d-1)+repeated(len(digits)-i-1))
		}
	}
	return "(?:" + strings.Join(parts, "|") + ")"
}

func class(low, high byte) string {
	if low == high {
		return string(low)
	}
	return "[" + string(low) + "-" + string(high) + "]"
}

func repeated(n int) string {
	if n == 0 {
		return ""
	}
	return `\d{` + strconv.Itoa(n) + `}`
}
