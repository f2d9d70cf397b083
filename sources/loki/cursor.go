package loki

import (
	"context"
	"time"

	"crowsnest/internal/pause"
)

const (
	maxSpan   = int64(24 * time.Hour) // time range of one query
	minSpan   = second
	raised    = 16 // maximum factor by which the limit is raised for entries of one time
	maxSplit  = 1000
	growAfter = 8 // good responses until a reduced limit is doubled
	// probeAfter is the number of good responses after which a longer time range is
	// tried.
	probeAfter = 1000

	bigBody  = 64 << 10 // bytes that may take long
	minLimit = 100      // smallest limit, however slow the server is
)

// cursor is the progress of one query through a time range.
type cursor struct {
	logql string
	at    int64 // everything before was read
	end   int64

	// If entries of one time fill a response: limit is the limit tried, split are
	// the remaining queries, one per stream.
	limit int
	split []string
	many  bool
}

func (c *cursor) done() bool { return c.at >= c.end }

// asker reads ranges step by step, and learns from errors how much it can request
// at once. It is not safe for concurrent use.
type asker struct {
	client *client
	cfg    Config
	answer answer

	limit int   // entries per response
	most  int   // the server's maximum of it
	span  int64 // time range of one query
	cap   int64 // the server's maximum of it
	good  int   // responses since limit was reduced
	fine  int   // responses since cap was reduced

	// use is called with the entries between from and to; it must not retain them.
	use func(a *answer, from, to int64)
	// whole drops incomplete responses: they lack entries in between.
	whole bool
	// failed is called for each request that fails.
	failed func(f *failure)
	// lose is called for entries of a time that cannot be read, every time they are
	// encountered. logql selects them.
	lose func(reason, logql string, at int64)
}

func newAsker(cfg Config, tenant string) *asker {
	return &asker{client: newClient(cfg, tenant), cfg: cfg, limit: cfg.Limit, most: raised * cfg.Limit, span: maxSpan, cap: maxSpan}
}

// Reasons why entries cannot be read.
const (
	lossTies       = "ties"       // too many of one stream at one time
	lossTooLarge   = "too_large"  // a single entry exceeds maxBody
	lossUnreadable = "unreadable" // Loki sends them in an unknown form
	lossGap        = "outage"     // older than maxBehind
)

// step makes one request and moves the cursor. It never skips unread entries
// without calling lose. After a failure the cursor stays where it was.
func (r *asker) step(ctx context.Context, c *cursor) *failure {
	if len(c.split) > 0 {
		return r.stepSplit(ctx, c)
	}
	if c.many {
		return r.splitUp(ctx, c)
	}
	q := query{logql: c.logql, from: c.at, to: min(c.end, c.at+r.span), limit: r.limit}
	if c.limit > 0 {
		q.to, q.limit = c.at+1, c.limit
	}
	began := time.Now()
	if f := r.ask(ctx, q); f != nil {
		return r.refused(c, q, f)
	}
	a := &r.answer
	r.learn(q, a, time.Since(began))
	if a.count < q.limit {
		c.at, c.limit = q.to, 0
		return nil
	}
	if last := lastBefore(a, q.to); last > c.at {
		c.at, c.limit = last, 0 // inclusive: more entries may have the same time
		return nil
	}
	if a.bad > 0 {
		return r.unreadable(c, q)
	}
	// Entries of one time fill the response.
	if c.limit = 2 * q.limit; c.limit > r.most {
		c.limit, c.many = 0, true
	}
	return nil
}

// ask makes one request and passes the entries on.
func (r *asker) ask(ctx context.Context, q query) *failure {
	f := r.client.ask(ctx, q, &r.answer)
	if f == nil || !r.whole {
		r.use(&r.answer, q.from, q.to)
	}
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	return f
}

// unreadable narrows the range of a response with many bad entries until it can
// continue after good ones, and finally gives the bad ones up as lost.
func (r *asker) unreadable(c *cursor, q query) *failure {
	if q.to-q.from > minSpan {
		r.span = max((q.to-q.from)/2, minSpan)
		return nil
	}
	r.lose(lossUnreadable, c.logql, c.at)
	c.at, c.limit = q.to, 0
	return nil
}

// lastBefore returns the time of the newest entry before end; zero if there is none.
func lastBefore(a *answer, end int64) int64 {
	for i := len(a.entries) - 1; i >= 0; i-- {
		if a.entries[i].ts < end {
			return a.entries[i].ts
		}
	}
	return 0
}

// learn slowly raises what was reduced.
func (r *asker) learn(q query, a *answer, took time.Duration) {
	switch quick := took < r.cfg.Timeout/4; {
	case !quick && q.limit > a.count:
		r.narrow(q) // so that slow rounds do not delay fast ones
	case quick && q.to-q.from >= r.span:
		r.span = min(2*r.span, r.cap)
	}
	if r.fine++; r.fine >= probeAfter {
		r.fine, r.cap = 0, min(2*r.cap, maxSpan)
	}
	if r.good++; r.good >= growAfter && r.limit < min(r.cfg.Limit, r.most) {
		r.good, r.limit = 0, min(2*r.limit, r.cfg.Limit, r.most)
	}
}

// refused reduces what was too much. It returns nil if the request should be repeated
// immediately.
func (r *asker) refused(c *cursor, q query, f *failure) *failure {
	switch f.reason {
	case reasonLimit:
		most := f.allowed
		if most <= 0 || most >= q.limit {
			most = q.limit / 2
		}
		if most < 1 {
			return f
		}
		r.most, r.limit = most, min(r.limit, most)
		if c.limit > 0 {
			c.limit, c.many = 0, true
		}
		return nil
	case reasonTooLarge:
		return r.tooLarge(c, q, f)
	case reasonBroken, reasonTimeout:
		if !r.narrow(q) || len(r.answer.body) > bigBody {
			r.lower(max(q.limit, 2*minLimit)) // the response takes too long for the connection
		}
	case reasonConnection, reasonServerError:
		r.narrow(q) // the query may have broken the connection
	case reasonRange:
		if r.narrow(q) {
			r.cap, r.fine = r.span, 0
			return nil
		}
	}
	return f
}

// narrow halves the time range of queries; false: it is already the minimum.
func (r *asker) narrow(q query) bool {
	r.span = max(min(r.span, q.to-q.from)/2, minSpan)
	return q.to-q.from > minSpan
}

func (r *asker) lower(limit int) { r.limit, r.good = max(1, min(r.limit, limit)/2), 0 }

// tooLarge reduces the limit. A single entry that is too large is lost.
func (r *asker) tooLarge(c *cursor, q query, f *failure) *failure {
	a := &r.answer
	switch {
	case a.count == 0 && len(a.body) > 0:
		return f // the size does not come from the entries
	case c.limit > 0:
		c.limit, c.many = 0, true
	case q.limit > 1:
		r.lower(q.limit)
	case a.cut < c.at || a.cut >= q.to:
		return f
	default:
		r.lose(lossTooLarge, c.logql, a.cut)
		c.at = a.cut + 1
	}
	return nil
}

// splitUp lists the streams that have entries at one time.
func (r *asker) splitUp(ctx context.Context, c *cursor) *failure {
	selector, pipeline := cutSelector(c.logql)
	streams, f := r.client.listStreams(ctx, selector, c.at, maxSplit)
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	switch {
	case f != nil && f.reason != reasonRefused && f.reason != reasonTooLarge && f.reason != reasonMalformed:
		return f
	case len(streams) == 0:
		r.lose(lossTies, c.logql, c.at)
		c.pass()
		return nil
	}
	c.many = false
	for _, s := range streams {
		c.split = append(c.split, s+pipeline)
	}
	return nil
}

// pass continues after the entries of one time.
func (c *cursor) pass() { c.at, c.limit, c.many, c.split = c.at+1, 0, false, nil }

// stepSplit reads the entries of one time in one stream.
func (r *asker) stepSplit(ctx context.Context, c *cursor) *failure {
	q := query{logql: c.split[0], from: c.at, to: c.at + 1, limit: min(r.cfg.Limit, r.most)}
	f := r.ask(ctx, q)
	switch {
	case f != nil && f.reason == reasonLimit && q.limit > 1:
		return r.refused(c, q, f)
	case f != nil && f.reason != reasonTooLarge && f.reason != reasonQuery && f.reason != reasonSyntax && f.reason != reasonRefused:
		return f
	case f != nil || r.answer.count >= q.limit:
		r.lose(lossTies, q.logql, c.at)
	}
	if c.split = c.split[1:]; len(c.split) == 0 {
		c.pass()
	}
	return nil
}

// cutSelector splits a query. Braces in our selectors occur only in quotes or at the
// ends.
func cutSelector(logql string) (selector, pipeline string) {
	quoted := false
	for i := 0; i < len(logql); i++ {
		switch logql[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case '}':
			if !quoted {
				return logql[:i+1], logql[i+1:]
			}
		}
	}
	return logql, ""
}

// lossPlace describes where entries were lost.
func lossPlace(logql string, at int64) string {
	selector, _ := cutSelector(logql)
	return time.Unix(0, at).UTC().Format(time.RFC3339Nano) + " " + excerpt(selector)
}

// pace computes how long to wait after failures.
type pace struct{ fails int }

// Limits of a wait. The longest is short, so that entries are read soon after the end
// of an outage.
const (
	firstWait  = 200 * time.Millisecond
	longestOwn = 5 * time.Second
	slowWait   = 30 * time.Second // wait after a failure that only an operator can fix
)

// after returns how long to wait after another failure.
func (p *pace) after(f *failure) time.Duration {
	p.fails++
	wait := pause.Backoff(firstWait, longestOwn, p.fails)
	if needsOperator(f.reason) {
		wait = pause.Jitter(slowWait)
	}
	return min(max(wait, f.retryAfter), maxWait)
}
