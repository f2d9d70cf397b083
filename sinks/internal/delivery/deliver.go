package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/sinks"
)

var errNotLeading = errors.New("another crowsnest notifies in place of this one")

type item[T any] struct {
	msg  sinks.Message
	form T
}

func itemMessages[T any](items []item[T]) []sinks.Message {
	out := make([]sinks.Message, len(items))
	for i, it := range items {
		out[i] = it.msg
	}
	return out
}

// nextBatch returns the due messages that fit into one request, and refuses messages that
// Encode cannot encode. A message that the receiver refused before is sent alone. While the
// receiver is down, only a few messages are sent as a probe.
func (l *Loop[T]) nextBatch() []item[T] {
	limit := l.cfg.MaxItems
	if l.IsDown() {
		limit = min(limit, l.cfg.ProbeItems)
	}
	now := l.now()
	for {
		l.mu.Lock()
		due := l.state.Due(now, limit)
		l.mu.Unlock()
		items, bad := l.encode(due, now)
		if len(items) > 0 || !bad {
			return items
		}
	}
}

// encode returns items for as many of the first messages as fit into a request. bad reports
// whether some messages cannot be encoded.
func (l *Loop[T]) encode(due []sinks.Message, now time.Time) (items []item[T], bad bool) {
	size := 0
	for _, m := range due {
		if m.Suspect && len(items) > 0 {
			break
		}
		form, n, err := l.receiver.Encode(m, now)
		if err != nil {
			l.recordRefused(m, Answer{Reason: ReasonInvalid, Err: err})
			bad = true
			continue
		}
		if size += n; size > l.cfg.MaxBytes && len(items) > 0 {
			break
		}
		items = append(items, item[T]{m, form})
		if m.Suspect {
			break
		}
	}
	return items, bad
}

// postponePremature returns the items except the premature ends (see sinks.Message.Premature), which it postpones.
func (l *Loop[T]) postponePremature(items []item[T]) []item[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(items, func(it item[T]) bool {
		if it.msg.Premature {
			l.state.Postpone(it.msg, l.now())
		}
		return it.msg.Premature
	})
}

// deliver sends the items in one request. If the receiver refuses the content of the request, deliver splits the items
// in halves until each bad item is alone and the good ones are accepted. It returns the number of accepted items. The
// answer has an error if the receiver is at fault. If the receiver accepts no item at all, the receiver is at fault,
// not the items.
func (l *Loop[T]) deliver(ctx context.Context, items []item[T]) (taken int, a Answer) {
	var bad []item[T]
	var why Answer
	works := items[0].msg.Suspect // a suspect message was refused alone before, while the receiver accepted others
	for groups := [][]item[T]{items}; len(groups) > 0; groups = groups[1:] {
		g := groups[0]
		a := l.post(ctx, g)
		switch {
		case a.Err == nil:
			taken += len(g)
			continue
		case !a.Refused():
			return taken + a.Taken, a
		}
		if why = a; taken == 0 && !works {
			if works, a = l.acceptsCanary(ctx); a.Err != nil {
				return taken, a
			}
		}
		if len(g) > 1 {
			groups = append(groups, g[:len(g)/2], g[len(g)/2:])
		} else {
			bad = append(bad, g[0])
		}
	}
	if len(bad) > 0 && taken == 0 && !works {
		return 0, why
	}
	for _, it := range bad {
		l.recordRefused(it.msg, why)
	}
	return taken, Answer{}
}

// acceptsCanary sends a message that was accepted before. It returns true if the receiver accepts the message again,
// and false if there is no such message. If the receiver refuses the message, the receiver is at fault, and the answer
// has an error.
func (l *Loop[T]) acceptsCanary(ctx context.Context) (bool, Answer) {
	if !l.cfg.Canary {
		return false, Answer{}
	}
	l.mu.Lock()
	m, ok := l.state.Canary()
	l.mu.Unlock()
	if !ok {
		return false, Answer{}
	}
	form, _, err := l.receiver.Encode(m, l.now())
	if err != nil {
		return false, Answer{}
	}
	a := l.post(ctx, []item[T]{{m, form}})
	return a.Err == nil, a
}

func (l *Loop[T]) post(ctx context.Context, items []item[T]) Answer {
	if !l.isLeading() { // another process may have become the leader in the meantime
		return Answer{Reason: ReasonConnection, Err: errNotLeading}
	}
	forms := make([]T, len(items))
	for i, it := range items {
		forms[i] = it.form
	}
	a := l.receiver.Deliver(ctx, forms)
	if a.Err == nil {
		l.recordAccepted(itemMessages(items), a)
	} else if a.Taken > 0 {
		l.recordAccepted(itemMessages(items[:a.Taken]), Answer{})
	}
	return a
}

func (l *Loop[T]) recordAccepted(msgs []sinks.Message, a Answer) {
	l.recordAnswer(msgs, a)
	now := l.now()
	l.mu.Lock()
	l.state.Reached(true, now)
	began := l.state.Accepted(msgs, now)
	l.sent += int64(len(msgs))
	l.up, l.lastErr = true, ""
	l.mu.Unlock()
	if l.cfg.OnAccepted != nil && slices.ContainsFunc(msgs, func(m sinks.Message) bool { return m.New }) {
		l.cfg.OnAccepted()
	}
	if l.cfg.OnFirstAccepted != nil {
		l.cfg.OnFirstAccepted(began)
	}
}

func (l *Loop[T]) recordAnswer(msgs []sinks.Message, a Answer) {
	d := sinks.Delivery{Endpoint: l.cfg.Endpoint, Time: l.now(), Code: a.Code}
	if a.Err != nil {
		d.Error = a.Err.Error()
	}
	l.Record(msgs, d)
}

func (l *Loop[T]) recordRefused(m sinks.Message, a Answer) {
	l.mu.Lock()
	first := l.state.Refused(m, l.now())
	l.failed[a.Reason]++
	l.mu.Unlock()
	l.recordAnswer([]sinks.Message{m}, a)
	if first {
		l.Log.Error().Str("fingerprint", m.Episode.Fingerprint.String()).Str("alert", Truncate(m.Episode.Alert, MaxValue)).
			Str("reason", a.Reason).Err(a.Err).Msg("an alert was refused; other alerts are not delayed")
	}
}

// Missed records that the receiver accepted only the first taken messages, and calls Fail for
// the rest. Only hooks may call it.
func (l *Loop[T]) Missed(msgs []sinks.Message, taken int, a Answer) {
	l.Fail(a, len(msgs)-taken)
	l.recordAnswer(msgs[taken:min(len(msgs), taken+l.cfg.ProbeItems)], a)
}

// Fail records a failure of the receiver that affects n messages, and sets the time of the next
// try. Only hooks may call it.
func (l *Loop[T]) Fail(a Answer, n int) {
	now := l.now()
	l.failures++
	l.retryAt, l.dated = now.Add(max(pause.Backoff(l.cfg.FirstRetry, l.cfg.MaxRetry, l.failures), a.RetryAfter)), a.RetryAfter > 0
	l.retry.Store(false)
	l.hung = a.Reason == ReasonTimeout || l.hung && a.Code == 0
	if l.downSince.IsZero() {
		l.downSince = now
		l.Log.Warn().Str("reason", a.Reason).Err(a.Err).Int("alerts", n).Msg("the receiver does not accept alerts; retrying")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Reached(false, now)
	l.up, l.lastErr = false, a.Err.Error()
	l.failed[a.Reason] += int64(n)
}

func (l *Loop[T]) recordRecovery() {
	now := l.now()
	l.Log.Info().Dur("after", now.Sub(l.downSince)).Msg("the receiver accepts alerts again")
	if l.hung && l.cfg.StaleFor > 0 {
		l.staleAt = now.Add(l.cfg.StaleFor)
	}
	l.downSince, l.retryAt, l.hung = time.Time{}, time.Time{}, false
	l.failures = 0
}
