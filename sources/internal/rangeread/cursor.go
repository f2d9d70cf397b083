package rangeread

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
	minLimit = 100      // smallest limit that is used with a slow server
)

// cursor is the progress of one query through a time range.
type cursor struct {
	query string
	at    int64 // time before which all entries were read
	end   int64

	// limit and split are used if a response contains only entries with the same time. limit is the number of entries
	// that is requested next, and split are the remaining queries, one for each stream.
	limit int
	split []string
	many  bool
}

func (c *cursor) isDone() bool { return c.at >= c.end }

// rangeReader reads time ranges step by step. It adapts the size of its requests to the errors that
// it gets. It is not safe for concurrent use.
type rangeReader struct {
	client *Client
	cfg    Config
	answer Answer

	limit      int   // number of entries that are requested at a time
	maxEntries int   // largest number of entries that the server allows
	span       int64 // time range of one query at the moment
	cap        int64 // longest time range that the server allows
	good       int   // number of successful responses since limit was reduced
	fine       int   // number of successful responses since cap was reduced

	// onEntries is called with the entries of a response to a query for the range that includes from and excludes to.
	// It must not keep a.
	onEntries func(a *Answer, from, to int64)
	// whole makes the reader drop incomplete responses, because entries in the middle of such a response may be
	// missing.
	whole bool
	// failed is called for each request that fails.
	failed func(f *Failure)
	// onLost is called when the entries at a time cannot be read. It is called again whenever a
	// query reaches these entries. query selects the entries.
	onLost func(reason, query string, at int64)
}

// Reasons why entries cannot be read.
const (
	lossTies       = "ties"       // too many entries of one stream have the same time
	lossTooLarge   = "too_large"  // a single entry exceeds maxBody
	lossUnreadable = "unreadable" // the server sends the entries in an unknown form
	lossGap        = "outage"     // the entries are older than maxBehind, because of an outage
)

// step makes one request and moves the cursor. It calls lose before it skips unread entries.
// After a failure the cursor does not move.
func (r *rangeReader) step(ctx context.Context, c *cursor) *Failure {
	if len(c.split) > 0 {
		return r.stepSplit(ctx, c)
	}
	if c.many {
		return r.listStreams(ctx, c)
	}
	q := Query{Text: c.query, From: c.at, To: min(c.end, c.at+r.span), Limit: r.limit}
	if c.limit > 0 {
		q.To, q.Limit = c.at+1, c.limit
	}
	began := time.Now()
	if f := r.runQuery(ctx, q); f != nil {
		return r.reduceRefused(c, q, f)
	}
	a := &r.answer
	r.raiseLimits(q, a, time.Since(began))
	if a.Count < q.Limit {
		c.at, c.limit = q.To, 0
		return nil
	}
	last := len(a.Entries) - 1 // index of the newest entry in the range
	for last >= 0 && a.Entries[last].Time >= q.To {
		last--
	}
	if last >= 0 && a.Entries[last].Time > c.at {
		// read the entries of this time again, because there may be more of them
		c.at, c.limit = a.Entries[last].Time, 0
		return nil
	}
	switch {
	case a.Bad > 0 && q.To-q.From > minSpan: // narrow the range until reading can continue after good entries
		r.span = max((q.To-q.From)/2, minSpan)
		return nil
	case a.Bad > 0:
		r.onLost(lossUnreadable, c.query, c.at)
		c.at, c.limit = q.To, 0
		return nil
	}
	// The response contains only entries with the same time.
	if c.limit = 2 * q.Limit; c.limit > r.maxEntries {
		c.limit, c.many = 0, true
	}
	return nil
}

func (r *rangeReader) runQuery(ctx context.Context, q Query) *Failure {
	f := r.client.Query(ctx, q, &r.answer)
	if f == nil || !r.whole {
		r.onEntries(&r.answer, q.From, q.To)
	}
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	return f
}

func (r *rangeReader) raiseLimits(q Query, a *Answer, took time.Duration) {
	switch quick := took < r.cfg.Timeout/4; {
	case !quick && q.Limit > a.Count:
		r.halveRange(q) // shorter requests of a slow round do not delay fast rounds
	case quick && q.To-q.From >= r.span:
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
func (r *rangeReader) reduceRefused(c *cursor, q Query, f *Failure) *Failure {
	switch f.Reason {
	case ReasonLimit:
		most := f.Allowed
		if most <= 0 || most >= q.Limit {
			most = q.Limit / 2
		}
		if most < 1 {
			return f
		}
		r.maxEntries, r.limit = most, min(r.limit, most)
		if c.limit > 0 {
			c.limit, c.many = 0, true
		}
		return nil
	case ReasonTooLarge:
		return r.tooLarge(c, q, f)
	case ReasonBroken, ReasonTimeout:
		if !r.halveRange(q) || len(r.answer.Body) > bigBody {
			r.lowerLimit(max(q.Limit, 2*minLimit)) // the response is too large for the speed of the connection
		}
	case ReasonConnection, ReasonServerError:
		r.halveRange(q) // the query may have broken the connection
	case ReasonRange:
		if r.halveRange(q) {
			r.cap, r.fine = r.span, 0
			return nil
		}
	}
	return f
}

func (r *rangeReader) halveRange(q Query) bool {
	r.span = max(min(r.span, q.To-q.From)/2, minSpan)
	return q.To-q.From > minSpan
}

func (r *rangeReader) lowerLimit(limit int) { r.limit, r.good = max(1, min(r.limit, limit)/2), 0 }

// tooLarge reduces the limit after a response that was too large. If a single entry is too large, it is lost.
func (r *rangeReader) tooLarge(c *cursor, q Query, f *Failure) *Failure {
	a := &r.answer
	switch {
	case a.Count == 0 && len(a.Body) > 0:
		return f // the entries are not the reason for the size
	case c.limit > 0:
		c.limit, c.many = 0, true
	case q.Limit > 1:
		r.lowerLimit(q.Limit)
	case a.Cut < c.at || a.Cut >= q.To:
		return f
	default:
		r.onLost(lossTooLarge, c.query, a.Cut)
		c.at = a.Cut + 1
	}
	return nil
}

func (r *rangeReader) listStreams(ctx context.Context, c *cursor) *Failure {
	selector, pipeline := cutSelector(c.query)
	streams, f := r.client.listStreams(ctx, selector, c.at, maxSplit)
	if f != nil && ctx.Err() == nil {
		r.failed(f)
	}
	switch {
	case f != nil && f.Reason != ReasonRefused && f.Reason != ReasonTooLarge && f.Reason != ReasonMalformed:
		return f
	case len(streams) == 0:
		r.onLost(lossTies, c.query, c.at)
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

func (r *rangeReader) stepSplit(ctx context.Context, c *cursor) *Failure {
	q := Query{Text: c.split[0], From: c.at, To: c.at + 1, Limit: min(r.cfg.Limit, r.maxEntries)}
	f := r.runQuery(ctx, q)
	switch {
	case f != nil && f.Reason == ReasonLimit && q.Limit > 1:
		return r.reduceRefused(c, q, f)
	case f != nil && f.Reason != ReasonTooLarge && f.Reason != ReasonQuery && f.Reason != ReasonSyntax && f.Reason != ReasonRefused:
		return f
	case f != nil || r.answer.Count >= q.Limit:
		r.onLost(lossTies, q.Text, c.at)
	}
	if c.split = c.split[1:]; len(c.split) == 0 {
		c.passTime()
	}
	return nil
}

// cutSelector splits a query into its selector and its pipeline. It relies on the form of our
// queries, in which braces enclose the selector, and other braces are inside quotes.
func cutSelector(query string) (selector, pipeline string) {
	quoted := false
	for i := 0; i < len(query); i++ {
		switch query[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case '}':
			if !quoted {
				return query[:i+1], query[i+1:]
			}
		}
	}
	return query, ""
}

func lossPlace(query string, t int64) string {
	selector, _ := cutSelector(query)
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

func (p *pace) delayAfter(f *Failure) time.Duration {
	p.fails++
	wait := pause.Backoff(firstWait, longestOwn, p.fails)
	if needsOperator(f.Reason) {
		wait = pause.Jitter(slowWait)
	}
	return min(max(wait, f.RetryAfter), maxWait)
}
