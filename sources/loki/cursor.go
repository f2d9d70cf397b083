package loki

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	maxSpan   = int64(24 * time.Hour) // of one query
	minSpan   = second
	raised    = 16 // how many times the limit is raised for entries of one time
	maxSplit  = 1000
	growAfter = 8 // good answers until a lowered limit is doubled
	// probeAfter are the good answers until it is tried whether the server allows
	// more time.
	probeAfter = 1000

	bigBody    = 64 << 10 // bytes that may take long
	leastLimit = 100      // what may be asked for however slow it is
)

// cursor is one query on its way through a range of time.
type cursor struct {
	logql string
	at    int64 // everything before is read
	end   int64

	// Entries of one time that fill an answer: limit is what was tried, split are
	// the queries that are left, one for each stream.
	limit int
	split []string
	many  bool
}

func (c *cursor) done() bool { return c.at >= c.end }

// asker reads ranges step by step, and learns from refusals how much can be
// asked for at once. It is not safe for concurrent use.
type asker struct {
	client *client
	cfg    Config
	answer answer

	limit int   // entries of one answer
	most  int   // what the server allows
	span  int64 // time of one query
	cap   int64 // what the server allows
	good  int   // answers since limit was lowered
	fine  int   // answers since cap was lowered

	// use is called for what was read between from and to; the answer is not kept.
	use func(a *answer, from, to int64)
	// whole leaves out what there is of an answer that is not whole: it lacks
	// entries in between.
	whole bool
	// failed is called for each request that fails.
	failed func(f *failure)
	// lose is called for entries of a time that cannot be read, whenever they are
	// met. logql says which.
	lose func(reason, logql string, at int64)
}

func newAsker(cfg Config, tenant string) *asker {
	return &asker{client: newClient(cfg, tenant), cfg: cfg, limit: cfg.Limit, most: raised * cfg.Limit, span: maxSpan, cap: maxSpan}
}

// Reasons for which entries cannot be read.
const (
	lossTies       = "ties"       // too many of one stream at one time
	lossTooLarge   = "too_large"  // one alone is above maxBody
	lossUnreadable = "unreadable" // Loki sends them in a form that nobody knows
	lossGap        = "outage"     // older than maxBehind
)

// step makes one request and moves the cursor. It never moves over entries that
// were not used, unless it calls lose. A failure leaves it where it was.
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
		c.at, c.limit = last, 0 // inclusive: more may have the same time
		return nil
	}
	if a.bad > 0 {
		return r.unreadable(c, q)
	}
	// One time fills the answer.
	if c.limit = 2 * q.limit; c.limit > r.most {
		c.limit, c.many = 0, true
	}
	return nil
}

// ask makes one request and hands on what comes.
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

// unreadable narrows down what has too many bad entries to go on behind good
// ones, and gives it up at last.
func (r *asker) unreadable(c *cursor, q query) *failure {
	if q.to-q.from > minSpan {
		r.span = max((q.to-q.from)/2, minSpan)
		return nil
	}
	r.lose(lossUnreadable, c.logql, c.at)
	c.at, c.limit = q.to, 0
	return nil
}

// lastBefore returns the time of the newest entry before end; 0: there is none.
func lastBefore(a *answer, end int64) int64 {
	for i := len(a.entries) - 1; i >= 0; i-- {
		if a.entries[i].ts < end {
			return a.entries[i].ts
		}
	}
	return 0
}

// learn takes back what was lowered, slowly.
func (r *asker) learn(q query, a *answer, took time.Duration) {
	switch quick := took < r.cfg.Timeout/4; {
	case !quick && q.limit > a.count:
		r.narrow(q) // so that slow rounds do not hold up fast ones
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

// refused lowers what was too much. It returns nil if that is worth another try
// at once.
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
			r.lower(max(q.limit, 2*leastLimit)) // it takes too long for the connection
		}
	case reasonConnection, reasonServerError:
		r.narrow(q) // the query may have been what broke it
	case reasonRange:
		if r.narrow(q) {
			r.cap, r.fine = r.span, 0
			return nil
		}
	}
	return f
}

// narrow asks for less time at once; false: it is the least already.
func (r *asker) narrow(q query) bool {
	r.span = max(min(r.span, q.to-q.from)/2, minSpan)
	return q.to-q.from > minSpan
}

func (r *asker) lower(limit int) { r.limit, r.good = max(1, min(r.limit, limit)/2), 0 }

// tooLarge asks for fewer entries. One that is too large alone is lost.
func (r *asker) tooLarge(c *cursor, q query, f *failure) *failure {
	a := &r.answer
	switch {
	case a.count == 0 && len(a.body) > 0:
		return f // it is not the entries that are so large
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

// splitUp asks for the streams that have entries of one time.
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

// pass goes on behind the entries of one time.
func (c *cursor) pass() { c.at, c.limit, c.many, c.split = c.at+1, 0, false, nil }

// stepSplit reads the entries of one time and stream.
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

// cutSelector takes a query apart. Braces of selectors of ours stand in quotes
// or at the ends.
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

// place says for people where entries were lost.
func place(logql string, at int64) string {
	selector, _ := cutSelector(logql)
	return time.Unix(0, at).UTC().Format(time.RFC3339Nano) + " " + excerpt(selector)
}

// pace says how long to wait after failures.
type pace struct{ fails int }

// The bounds of a wait. The longest is short, so that what an outage held back is
// read soon after its end.
const (
	firstWait  = 200 * time.Millisecond
	longestOwn = 5 * time.Second
	slowWait   = 30 * time.Second // for what only people put right
)

// after returns how long to wait after one more failure.
func (p *pace) after(f *failure) time.Duration {
	p.fails++
	wait := min(firstWait<<min(p.fails-1, 10), longestOwn)
	if forPeople(f.reason) {
		wait = slowWait
	}
	wait = wait/2 + rand.N(wait/2+1)
	return min(max(wait, f.retryAfter), maxWait)
}

// sleep waits; false: ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
