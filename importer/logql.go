package importer

import (
	"slices"
	"strconv"
	"time"
)

// The syntax tree has only what can be translated. The parser refuses everything else by name:
// Loki's own parser would add several hundred modules.

// alertQuery is a query as an alert uses it: the value of an aggregation compared with a number.
type alertQuery struct {
	count *countQuery
	op    string // "" for no comparison
	limit float64
}

// countQuery is a number of lines.
type countQuery struct {
	at       int
	function string // count_over_time, rate or absent_over_time
	lines    lineQuery
	window   time.Duration
	by       []string
	summed   bool    // the counts of streams are added
	distinct string  // counts the values of this label instead of lines
	factor   float64 // the value is multiplied by it
}

// lineQuery selects lines.
type lineQuery struct {
	selector string
	stages   []stage
}

// stage is one stage of a pipeline.
type stage struct {
	at   int
	kind string // a symbol of a line filter, json, logfmt, pattern, regexp, filter or drop
	text []string
	// names maps labels that json and logfmt extract to the expressions of their fields.
	names  map[string]string
	filter *labelFilter
}

// labelFilter is a condition on labels.
type labelFilter struct {
	at     int
	join   string // and, or; "" for a comparison
	parts  []*labelFilter
	name   string
	op     string
	value  string
	number bool // value is a number
}

type queryParser struct {
	query  string
	tokens []token
	depth  int
}

// Bounds on a query: its bytes, nested parentheses, and the stages of its pipeline.
const (
	maxQuery      = 64 << 10
	maxQueryDepth = 64
	maxStages     = 100
)

// parseAlert parses the query of an alert.
func parseAlert(query string) (*alertQuery, error) {
	if len(query) > maxQuery {
		return nil, queryErrorf(0, "the query has %d bytes, more than %d", len(query), maxQuery)
	}
	tokens, err := lexLogQL(query)
	if err != nil {
		return nil, err
	}
	p := &queryParser{query: query, tokens: tokens}
	q, err := p.comparison()
	if err == nil && p.next().kind != tokenEnd {
		err = p.unexpected("the end of the query")
	}
	return q, err
}

func (p *queryParser) next() token { return p.tokens[0] }

func (p *queryParser) take() token {
	t := p.tokens[0]
	if t.kind != tokenEnd {
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept removes a symbol or keyword if it comes next.
func (p *queryParser) accept(values ...string) (token, bool) {
	t := p.next()
	if (t.kind == tokenSymbol || t.kind == tokenWord) && slices.Contains(values, t.value) {
		return p.take(), true
	}
	return token{}, false
}

func (p *queryParser) expect(value string) error {
	if _, ok := p.accept(value); !ok {
		return p.unexpected("`" + value + "`")
	}
	return nil
}

func (p *queryParser) unexpected(want string) error {
	return queryErrorf(p.next().at, "%s comes where %s is expected", p.next(), want)
}

func (p *queryParser) name() (string, error) {
	if t := p.next(); t.kind == tokenWord {
		return p.take().value, nil
	}
	return "", p.unexpected("a name")
}

func (p *queryParser) text() (string, error) {
	if t := p.next(); t.kind == tokenText {
		return p.take().value, nil
	}
	return "", p.unexpected("a text in quotes")
}

var flipped = map[string]string{">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}

// comparison is a number of lines, compared with a number on either side.
func (p *queryParser) comparison() (*alertQuery, error) {
	if n, ok, err := p.number(); err != nil || ok {
		op, compared := p.accept(">", "<", ">=", "<=", "==", "!=")
		if err == nil && !compared {
			err = p.unexpected("a comparison")
		}
		if err != nil {
			return nil, err
		}
		c, err := p.product()
		return &alertQuery{count: c, op: flipped[op.value], limit: n}, err
	}
	c, err := p.product()
	if err != nil {
		return nil, err
	}
	q := &alertQuery{count: c}
	op, ok := p.accept(">", "<", ">=", "<=", "==", "!=")
	if !ok {
		return q, p.refuseOperators()
	}
	if t, ok := p.accept("bool"); ok {
		return nil, queryErrorf(t.at, "`bool` makes every value an alert")
	}
	n, ok, err := p.number()
	if err == nil && !ok {
		err = queryErrorf(p.next().at, "it compares two queries, and a rule compares a count with a number")
	}
	q.op, q.limit = op.value, n
	if err == nil {
		err = p.refuseOperators()
	}
	return q, err
}

// refuseOperators explains operators that join queries.
func (p *queryParser) refuseOperators() error {
	if t, ok := p.accept("and", "or", "unless", "+", "-", "%", "^", "/", "*"); ok {
		return queryErrorf(t.at, "`%s` joins two queries, and a rule has one: it cannot compare what they return", t.value)
	}
	return nil
}

func (p *queryParser) number() (float64, bool, error) {
	sign := 1.0
	tokens := p.tokens
	if _, ok := p.accept("-"); ok {
		sign = -1
	}
	t := p.next()
	if t.kind != tokenNumber {
		p.tokens = tokens
		return 0, false, nil
	}
	p.take()
	v, err := strconv.ParseFloat(t.value, 64)
	if err != nil {
		return 0, false, queryErrorf(t.at, "%s is too large", t)
	}
	return sign * v, true, nil
}

// product is a number of lines, multiplied with or divided by numbers.
func (p *queryParser) product() (*countQuery, error) {
	c, err := p.aggregation()
	if err != nil {
		return nil, err
	}
	for {
		t, ok := p.accept("*", "/")
		if !ok {
			return c, nil
		}
		n, ok, err := p.number()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, queryErrorf(t.at, "`%s` joins two queries, and a rule has one: it cannot compare what they return", t.value)
		case n <= 0:
			return nil, queryErrorf(t.at, "`%s` needs a positive number", t.value)
		case t.value == "*":
			c.factor *= n
		default:
			c.factor /= n
		}
	}
}

// aggregation is sum, count, or a function of a range.
func (p *queryParser) aggregation() (*countQuery, error) {
	if p.depth++; p.depth > maxQueryDepth {
		return nil, queryErrorf(p.next().at, "the query is nested more than %d deep", maxQueryDepth)
	}
	defer func() { p.depth-- }()
	t := p.next()
	if _, ok := p.accept("("); ok {
		c, err := p.product()
		if err == nil {
			err = p.expect(")")
		}
		return c, err
	}
	switch {
	case t.value == "{" && t.kind == tokenSymbol:
		return nil, queryErrorf(t.at, "the query returns lines, and an alert needs a number: count_over_time")
	case t.kind != tokenWord:
		return nil, p.unexpected("a function")
	}
	switch t.value {
	case "sum", "count":
		p.take()
		return p.vector(t)
	case "count_over_time", "rate", "absent_over_time":
		p.take()
		return p.overTime(t)
	}
	if len(p.tokens) > 1 && p.tokens[1].value != "(" {
		return nil, queryErrorf(t.at, "%s", metric(t.value))
	}
	return nil, queryErrorf(t.at, "%s", whyNot(t.value))
}

// metric explains a query that is PromQL.
func metric(name string) string {
	return "`" + shorten(name) + "` is a metric: the query is PromQL, and crowsnest reads logs"
}

// whyNot explains why a function cannot be translated.
func whyNot(function string) string {
	switch function {
	case "bytes_rate", "bytes_over_time":
		return "`" + function + "` counts bytes, and a rule counts lines"
	case "sum_over_time", "avg_over_time", "max_over_time", "min_over_time", "quantile_over_time", "stddev_over_time", "stdvar_over_time", "first_over_time", "last_over_time", "rate_counter":
		return "`" + function + "` computes with values of the lines, and a rule counts lines"
	case "topk", "bottomk", "approx_topk", "sort", "sort_desc", "avg", "max", "min", "stddev", "stdvar":
		return "`" + function + "` compares the counts of several keys, and each key of a rule is on its own"
	case "increase", "irate", "delta", "idelta", "deriv", "histogram_quantile", "predict_linear", "changes", "resets", "absent", "time", "clamp_max", "clamp_min", "abs", "present_over_time":
		return "`" + function + "` is a function of PromQL, and crowsnest reads logs"
	case "label_replace", "vector":
		return "`" + function + "` makes labels or values that no line has"
	}
	return "`" + shorten(function) + "` is not a function that can be translated; use count_over_time, rate, absent_over_time, sum or count"
}

func (p *queryParser) vector(function token) (*countQuery, error) {
	by, grouped, err := p.grouping()
	if err != nil {
		return nil, err
	}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	inner, err := p.product()
	if err != nil {
		return nil, err
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	if !grouped {
		if by, _, err = p.grouping(); err != nil {
			return nil, err
		}
	}
	if inner.function == "absent_over_time" || inner.factor != 1 || inner.distinct != "" {
		return nil, queryErrorf(function.at, "`%s` of this query cannot be translated", function.value)
	}
	if function.value == "sum" {
		if inner.summed {
			for _, name := range by {
				if !slices.Contains(inner.by, name) {
					return nil, queryErrorf(function.at, "`sum by (%s)` has a label that the inner query removes", name)
				}
			}
		}
		inner.by, inner.summed = by, true
		return inner, nil
	}
	return distinctOf(function, inner, by)
}

// distinctOf translates count by (a) (sum by (a, b) (...)): how many values b has.
func distinctOf(function token, inner *countQuery, by []string) (*countQuery, error) {
	rest := slices.DeleteFunc(slices.Clone(inner.by), func(n string) bool { return slices.Contains(by, n) })
	if !inner.summed || len(rest) != 1 || len(inner.by) != len(by)+1 || inner.function != "count_over_time" {
		return nil, queryErrorf(function.at, "`count` can be translated if it counts the values of one label: count by (a) (sum by (a, b) (count_over_time(...)))")
	}
	inner.by, inner.distinct = by, rest[0]
	return inner, nil
}

func (p *queryParser) grouping() (names []string, ok bool, err error) {
	t, ok := p.accept("by", "without")
	if !ok {
		return nil, false, nil
	}
	if t.value == "without" {
		return nil, false, queryErrorf(t.at, "`without` keeps labels that the query does not name, and a rule names its key; use `by`")
	}
	if err := p.expect("("); err != nil {
		return nil, false, err
	}
	for {
		if _, ok := p.accept(")"); ok {
			return names, true, nil
		}
		name, err := p.name()
		if err != nil {
			return nil, false, err
		}
		names = append(names, name)
		if _, ok := p.accept(","); !ok && p.next().value != ")" {
			return nil, false, p.unexpected("`,` or `)`")
		}
	}
}

// overTime is a function of the lines of a range.
func (p *queryParser) overTime(function token) (*countQuery, error) {
	c := &countQuery{at: function.at, function: function.value, factor: 1}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	opened := 0
	for _, ok := p.accept("("); ok && opened < maxQueryDepth; _, ok = p.accept("(") {
		opened++
	}
	if t := p.next(); t.kind == tokenWord {
		return nil, queryErrorf(t.at, "%s", metric(t.value))
	}
	var err error
	if c.lines.selector, err = p.selector(); err != nil {
		return nil, err
	}
	for c.window == 0 || opened > 0 || p.next().value != ")" {
		switch t := p.next(); {
		case t.value == "[" && t.kind == tokenSymbol && c.window == 0:
			c.window, err = p.window()
		case t.value == ")" && opened > 0:
			opened--
			p.take()
		case t.value == "offset" && t.kind == tokenWord:
			return nil, queryErrorf(t.at, "`offset` looks at the past, and a rule at the lines as they come")
		default:
			err = p.stage(&c.lines)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	if by, ok, err := p.grouping(); err != nil || ok {
		if err == nil && function.value != "absent_over_time" {
			c.by, c.summed = by, true
		}
		return c, err
	}
	return c, nil
}
