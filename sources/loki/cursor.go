package loki

import (
	"context"
	"time"

	"crowsnest/internal/pause"
)

const (
	maxSpan    = int64(24 * time.Hour) // longest time range of one query
	minSpan    = second
	raised     = 16 // factor by which the limit may be raised to read many entries with the same time
	maxSplit   = 1000
	growAfter  = 8    // number of successful responses after which a reduced limit is doubled
	probeAfter = 1000 // number of successful responses after which a longer range is tried again

	bigBody  = 64 << 10 // size from which on a response counts as large, in bytes
	minLimit = 100      // smallest limit to which a slow server reduces it
)

// cursor is the progress of one query through a time range.
type cursor struct {
	logql string
	at    int64 // time before which all entries were read
	end   int64

	// limit and split are used while entries of the same time fill a response. limit is the
	// number of entries that is requested next, and split are the remaining queries, one for
	// each stream.
	limit int
	split []string
	many  bool
}

func (c *cursor) isDone() bool { return c.at >= c.end }

// rangeReader reads time ranges step by step. It adapts the size of its requests to the errors that
// it gets. It is not safe for concurrent use.
type rangeReader struct {
	client *client
	cfg    Config
	answer answer

	limit      int   // number of entries that are requested at a time
	maxEntries int   // largest number of entries that the server allows
	span       int64 // time range of one query at the moment
	cap        int64 // longest time range that the server allows
	good       int   // number of successful responses since limit was reduced
	fine       int   // number of successful responses since cap was reduced

	// onEntries is called with the entries of a response to a query for the times from from to to.
	// It must not keep a.
	onEntries func(a *answer, from, to int64)
	// whole makes the asker drop incomplete responses, because entries in their middle may be
	// missing.
	whole bool
	// failed is called for each request that fails.
	failed func(f *failure)
	// onLost is called when the entries at a time cannot be read. It is called again whenever a
	// query reaches these entries. logql selects the entries.
	onLost func(reason, logql string, at int64)
}

// Reasons why entries cannot be read.
const (
	lossTies       = "ties"       // too many entries of one stream have the same time
	lossTooLarge   = "too_large"  // a single entry exceeds maxBody
	lossUnreadable = "unreadable" // Loki sends the entries in an unknown form
	lossGap        = "outage"     // the entries are older than maxBehind, because of an outage
)

// step makes one request and moves the cursor. It calls lose before it skips unread entries.
// After a failure the cursor does not move.
func (r *rangeReader) step(ctx context.Context, c *cursor) *failure {
	if len(c.split) > 0 {
		return r.stepSplit(ctx, c)
	}
	if c.many {
		return r.listStreams(ctx, c)
	}
	q := query{logql: c.logql, from: c.at, to: min(c.end, c.at+r.span), limit: r.limit}
	if c.limit > 0 {
		q.to, q.limit = c.at+1, c.limit
	}
	began := time.Now()
	if f := r.runQuery(ctx, q); f != nil {
		return r.reduceRefused(c, q, f)
	}
	a := &r.answer
	r.raiseLimits(q, a, time.Since(began))
	if a.count < q.limit {
		c.at, c.limit = q.to, 0
		return nil
	}
	last := len(a.entries) - 1 // index of the newest entry in the range
	for last >= 0 && a.entries[last].ts >= q.to {
		last--
	}
	if last >= 0 && a.entries[last].ts > c.at {
		// read the entries of this time again, because there may be more of them
		c.at, c.limit = a.entries[last].ts, 0
		return nil
	}
	switch {
	case a.bad > 0 && q.to-q.from > minSpan: // narrow the range until reading can continue after good entries
		r.span = max((q.to-q.from)/2, minSpan)
		return nil
	case a.bad > 0:
		r.onLost(lossUnreadable, c.logql, c.at)
		c.at, c.limit = q.to, 0
		return nil
	}
	// The response contains only entries with the same time.
	if c.limit = 2 * q.limit; c.limit > r.maxEntries {
		c.limit, c.many = 0, true
	}
	return nil
}

func (r *rangeReader) runQuery(ctx context.Context, q query) *failure {
	f := r.client.sendQuery(ctx, q, &r.answer)
	if f == nil || !r.whole {
		r.onEntries(&r.answer, q.from, q.to)
	}
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	return f
}

func (r *rangeReader) raiseLimits(q query, a *answer, took time.Duration) {
	switch quick := took < r.cfg.Timeout/4; {
	case !quick && q.limit > a.count:
		r.halveRange(q) // a slow round with short requests does not delay fast rounds
	case quick && q.to-q.from >= r.span:
		r.span = min(2*r.span, r.cap)
	}
	if r.fine++; r.fine >= probeAfter {
		r.fine, r.cap = 0, min(2*r.cap, maxSpan)
	}
	if r.good++; r.good >= growAfter && r.limit < min(r.cfg.Limit, r.maxEntries) {
		r.good, r.limit = 0, min(2*r.limit, r.cfg.Limit, r.maxEntries)
	}
}

// reduceRefused reduces the limit or the range after a failure. It returns nil if the request
// should be repeated immediately.
func (r *rangeReader) reduceRefused(c *cursor, q query, f *failure) *failure {
	switch f.reason {
	case reasonLimit:
		most := f.allowed
		if most <= 0 || most >= q.limit {
			most = q.limit / 2
		}
		if most < 1 {
			return f
		}
		r.maxEntries, r.limit = most, min(r.limit, most)
		if c.limit > 0 {
			c.limit, c.many = 0, true
		}
		return nil
	case reasonTooLarge:
		return r.tooLarge(c, q, f)
	case reasonBroken, reasonTimeout:
		if !r.halveRange(q) || len(r.answer.body) > bigBody {
			r.lowerLimit(max(q.limit, 2*minLimit)) // the response is too large for the speed of the connection
		}
	case reasonConnection, reasonServerError:
		r.halveRange(q) // the query may have broken the connection
	case reasonRange:
		if r.halveRange(q) {
			r.cap, r.fine = r.span, 0
			return nil
		}
	}
	return f
}

func (r *rangeReader) halveRange(q query) bool {
	r.span = max(min(r.span, q.to-q.from)/2, minSpan)
	return q.to-q.from > minSpan
}

func (r *rangeReader) lowerLimit(limit int) { r.limit, r.good = max(1, min(r.limit, limit)/2), 0 }

// tooLarge reduces the limit after a response that was too large. If a single entry is too
// large, it is lost.
func (r *rangeReader) tooLarge(c *cursor, q query, f *failure) *failure {
	a := &r.answer
	switch {
	case a.count == 0 && len(a.body) > 0:
		return f // the entries are not the reason for the size
	case c.limit > 0:
		c.limit, c.many = 0, true
	case q.limit > 1:
		r.lowerLimit(q.limit)
	case a.cut < c.at || a.cut >= q.to:
		return f
	default:
		r.onLost(lossTooLarge, c.logql, a.cut)
		c.at = a.cut + 1
	}
	return nil
}

func (r *rangeReader) listStreams(ctx context.Context, c *cursor) *failure {
	selector, pipeline := cutSelector(c.logql)
	streams, f := r.client.listStreams(ctx, selector, c.at, maxSplit)
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	switch {
	case f != nil && f.reason != reasonRefused && f.reason != reasonTooLarge && f.reason != reasonMalformed:
		return f
	case len(streams) == 0:
		r.onLost(lossTies, c.logql, c.at)
		c.passTime()
		return nil
	}
	c.many = false
	for _, s := range streams {
		c.split = append(c.split, s+pipeline)
	}
	return nil
}

func (c *cursor) passTime() { c.at, c.limit, c.many, c.split = c.at+1, 0, false, nil }

func (r *rangeReader) stepSplit(ctx context.Context, c *cursor) *failure {
	q := query{logql: c.split[0], from: c.at, to: c.at + 1, limit: min(r.cfg.Limit, r.maxEntries)}
	f := r.runQuery(ctx, q)
	switch {
	case f != nil && f.reason == reasonLimit && q.limit > 1:
		return r.reduceRefused(c, q, f)
	case f != nil && f.reason != reasonTooLarge && f.reason != reasonQuery && f.reason != reasonSyntax && f.reason != reasonRefused:
		return f
	case f != nil || r.answer.count >= q.limit:
		r.onLost(lossTies, q.logql, c.at)
	}
	if c.split = c.split[1:]; len(c.split) == 0 {
		c.passTime()
	}
	return nil
}

// cutSelector splits a query into its selector and its pipeline. It relies on the form of our
// queries, in which braces enclose the selector, and other braces are inside quotes.
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

func lossPlace(logql string, t int64) string {
	selector, _ := cutSelector(logql)
	return time.Unix(0, t).UTC().Format(time.RFC3339Nano) + " " + shortenMessage(selector)
}

// pace computes the time to wait after failures of requests.
type pace struct{ fails int }

// Limits of the time to wait. The longest is short, so reading resumes soon after an outage.
const (
	firstWait  = 200 * time.Millisecond
	longestOwn = 5 * time.Second
	slowWait   = 30 * time.Second // time to wait after a failure that only an operator can fix
)

func (p *pace) delayAfter(f *failure) time.Duration {
	p.fails++
	wait := pause.Backoff(firstWait, longestOwn, p.fails)
	if needsOperator(f.reason) {
		wait = pause.Jitter(slowWait)
	}
	return min(max(wait, f.retryAfter), maxWait)
}
