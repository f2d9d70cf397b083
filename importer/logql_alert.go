package importer

import (
	"math"
	"slices"
	"strings"
	"time"
)

// maxCount is the largest count of the language, and maxDistinct with distinct.
const (
	maxCount    = 10_000
	maxDistinct = 256
)

// alertOf translates a query into the conditions of a rule.
func alertOf(query string, r *rule) error {
	q, err := parseAlert(query)
	if err != nil {
		return err
	}
	c := q.count
	r.from, r.match, err = linesOf(&c.lines, r.warn)
	if err != nil {
		return err
	}
	if c.function == "absent_over_time" {
		return q.absent(r)
	}
	n, err := q.least()
	if err != nil {
		return err
	}
	r.by = slices.Clone(c.by)
	if !c.summed {
		r.by = []string{"namespace", "pod", "container"}
		r.warn("the query counts in each stream; the rule counts by namespace, pod and container")
	}
	if i := slices.IndexFunc(r.by, isReserved); i >= 0 {
		return queryErrorf(c.at, "the alert is grouped by %s, a name that every alert of crowsnest has for itself", r.by[i])
	}
	r.keep = c.window // one line keeps the value up for as long
	if n > 1 {
		r.count, r.within = n, c.window
	}
	if c.distinct != "" {
		if n < 2 {
			return queryErrorf(c.at, "it counts the values of %s, and one suffices: leave them out of the query", c.distinct)
		}
		r.distinct = c.distinct
	}
	return nil
}

// isReserved reports whether every alert has its own label of this name.
func isReserved(name string) bool {
	return slices.Contains([]string{"alertname", "severity", "resolves", "overflow"}, name)
}

// absent translates absent_over_time.
func (q *alertQuery) absent(r *rule) error {
	if q.op != "" && !(q.op == "==" && q.limit == 1) && !(q.op == ">" && q.limit < 1 && q.limit >= 0) && !(q.op == ">=" && q.limit <= 1 && q.limit > 0) {
		return queryErrorf(q.count.at, "the value of absent_over_time is 1, and the query demands another one")
	}
	r.silent = q.count.window
	r.warn("the alert starts once the lines stop: lines that never came since crowsnest started raise no alert")
	return nil
}

// least returns how many lines satisfy the comparison at least.
func (q *alertQuery) least() (int, error) {
	c := q.count
	per := c.factor
	if c.function == "rate" {
		per /= c.window.Seconds()
	}
	limit := q.limit / per
	if round := math.Round(limit); math.Abs(limit-round) < 1e-9*max(1, math.Abs(limit)) {
		limit = round
	}
	n := 1.0
	switch q.op {
	case "", ">=":
		n = math.Ceil(limit)
	case ">":
		n = math.Floor(limit) + 1
	case "!=":
		if q.limit != 0 {
			return 0, queryErrorf(c.at, "it alerts on every number of lines but %g; a rule counts upwards", q.limit)
		}
	case "==":
		if q.limit == 0 {
			return 0, queryErrorf(c.at, "it never alerts: a query without lines has no value; use absent_over_time")
		}
		return 0, queryErrorf(c.at, "it alerts on exactly %g lines; a rule counts upwards", q.limit)
	default:
		return 0, queryErrorf(c.at, "it alerts while fewer lines come, and not if none comes: a query without lines has no value. A rule counts upwards; for lines that stop, use absent_over_time")
	}
	highest := maxCount
	if c.distinct != "" {
		highest = maxDistinct
	}
	if n > float64(highest) || math.IsNaN(n) {
		return 0, queryErrorf(c.at, "it counts %.0f lines or values, and a rule at most %d", n, highest)
	}
	return max(1, int(n)), nil
}

// pending translates the time for which the query must be true.
func (r *rule) pending(d time.Duration) {
	if d <= 0 {
		return
	}
	if r.silent > 0 {
		r.silent += d
		return
	}
	r.wait = d
	if r.count > 1 {
		r.warn("`for`: the ruler demands at each evaluation that the count is reached; the rule demands that it is reached again within %s each time", duration(r.keep))
	}
}

// severityOf translates a label for the severity. known is false if it is another word.
func severityOf(label string) (severity string, known bool) {
	switch strings.ToLower(label) {
	case "critical", "page", "fatal", "emergency", "disaster", "p1", "sev1", "crit":
		return "critical", true
	case "warning", "warn", "ticket", "high", "error", "major", "medium", "p2", "p3", "sev2":
		return "warning", true
	case "info", "information", "notice", "low", "none", "minor", "p4", "p5":
		return "info", true
	}
	return "warning", false
}
