package alertmanager

import (
	"context"

	"crowsnest/sinks"
	"crowsnest/sinks/internal/delivery"
)

// deliver sends the items in one request. If the endpoint refuses it for its
// content, deliver bisects it until each bad item stands alone and the good ones
// are accepted. It returns how many were accepted, and an answer with an error if
// the endpoint is at fault.
func (e *endpoint) deliver(ctx context.Context, items []item) (taken int, a answer) {
	var bad []item
	var why answer
	canaryAccepted := items[0].msg.Suspect // it was refused alone while others were not
	for groups := [][]item{items}; len(groups) > 0; groups = groups[1:] {
		g := groups[0]
		a := e.post(ctx, g)
		switch {
		case a.Err == nil:
			e.accept(g, a)
			taken += len(g)
			continue
		case !a.Refused():
			return taken, a
		}
		if why = a; taken == 0 && !canaryAccepted {
			if canaryAccepted, a = e.acceptsCanary(ctx); a.Err != nil {
				return taken, a
			}
		}
		if len(g) == 1 {
			bad = append(bad, g[0])
		} else {
			groups = append(groups, g[:len(g)/2], g[len(g)/2:])
		}
	}
	if len(bad) > 0 && taken == 0 && !canaryAccepted {
		return 0, why // it may refuse everything
	}
	for _, it := range bad {
		e.refuse(it.msg, why)
	}
	return taken, answer{}
}

// acceptsCanary sends something that was taken before. It returns true if that is
// taken again, false if there is no such thing, and an answer with an error if
// it is not: then the fault lies with the endpoint.
func (e *endpoint) acceptsCanary(ctx context.Context) (bool, answer) {
	e.mu.Lock()
	w, ok := e.state.Canary()
	e.mu.Unlock()
	if !ok {
		return false, answer{}
	}
	items, _ := e.encode([]sinks.Message{w}, e.now())
	if len(items) == 0 {
		return false, answer{}
	}
	a := e.post(ctx, items)
	if a.Err == nil {
		e.accept(items, a)
	}
	return a.Err == nil, a
}

// post sends the items as one list.
func (e *endpoint) post(ctx context.Context, items []item) answer {
	body := []byte{'['}
	for i, it := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, it.body...)
	}
	asked := e.now()
	a := e.client.post(ctx, append(body, ']'), e.hedge)
	e.changed = e.heard(a.date, asked, e.now()) || e.changed
	return a
}

func (e *endpoint) accept(items []item, a answer) {
	msgs := messages(items)
	e.mu.Lock()
	now := e.now()
	e.state.Reached(true, now)
	first := e.state.Accepted(msgs, now)
	e.sent += int64(len(items))
	e.up, e.lastErr = true, ""
	e.mu.Unlock()
	e.took(e, msgs, first, a)
}

// refuse records that the endpoint does not accept the message as it is.
func (e *endpoint) refuse(m sinks.Message, a answer) {
	e.mu.Lock()
	first := e.state.Refused(m, e.now())
	e.failed[a.Reason]++
	e.mu.Unlock()
	if first {
		e.log.Error().Str("fingerprint", m.Episode.Fingerprint.String()).Str("alert", delivery.Truncate(m.Episode.Alert, maxValue)).
			Str("reason", a.Reason).Err(a.Err).Msg("an alert was refused; other alerts are not delayed")
	}
	e.took(e, []sinks.Message{m}, nil, a)
}

func messages(items []item) []sinks.Message {
	out := make([]sinks.Message, len(items))
	for i, it := range items {
		out[i] = it.msg
	}
	return out
}
