package rules

import (
	"fmt"
	"time"

	"crowsnest/rules/internal/expr"
	"crowsnest/strictyaml"
)

// Bounds of inline tests.
const (
	maxTestLines = 100_000              // number of lines of one test
	maxTestEnd   = 365 * 24 * time.Hour // time of the last repetition of a line
	// maxTestTime bounds the estimated CPU time of all tests of all loaded packs.
	maxTestTime = 2 * time.Minute
	// estimated CPU times of a line or a checkpoint, of a comparison of two alerts, and of a
	// restart
	lineTime    = 5 * time.Microsecond
	compareTime = 200 * time.Nanosecond
	restartTime = time.Millisecond
)

// checkTests reports packs whose tests together would delay loading too much.
func (b *builder) checkTests() {
	total := time.Duration(0)
	for _, r := range b.rules {
		if r.rule == nil {
			continue
		}
		for i := range r.rule.Tests {
			total += testTime(r.rule, &r.rule.Tests[i])
			if total <= maxTestTime {
				continue
			}
			b.problems = append(b.problems, r.writtenForm().newProblem(r.writtenForm().Keys.Key("tests"), strictyaml.Error, "test-budget",
				fmt.Sprintf("the inline tests up to test %d of rule %s may take %s of CPU time; all packs together are allowed %s",
					i+1, r.alert, total.Round(time.Second), maxTestTime), "repeat lines less often, or load fewer packs"))
			return
		}
	}
}

// testTime returns an upper estimate of the CPU time of a test.
func testTime(r *Rule, t *Test) time.Duration {
	sum := time.Duration(0)
	for i := range t.Input {
		in := &t.Input[i]
		if in.Do != "" {
			sum += restartTime
		}
		size := time.Duration(min(len(in.Text), expr.MaxLine))
		sum += time.Duration(min(in.Repeat, maxTestLines)) * (lineTime + size*(r.MaxLineTime()/expr.MaxLine))
	}
	for i := range t.Expect {
		n := time.Duration(max(len(t.Expect[i].Firing), len(t.Expect[i].Resolved)))
		sum += lineTime + n*n*compareTime
	}
	return sum
}

// TestTime returns an upper estimate of the CPU time of the inline tests of rules.
func TestTime(all []*Rule) time.Duration {
	sum := time.Duration(0)
	for _, r := range all {
		for i := range r.Tests {
			sum += testTime(r, &r.Tests[i])
		}
	}
	return sum
}
