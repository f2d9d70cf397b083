package episodes

import (
	"strings"

	"crowsnest/episodes/internal/instant"
	"crowsnest/episodes/internal/intake"
	"crowsnest/episodes/internal/watermark"
	"crowsnest/episodes/internal/window"
	"crowsnest/internal/quota"
	"crowsnest/redact"
)

// armedKeys holds the keys of a rule with `silent` for which lines were read and no episode is open.
type armedKeys struct {
	rs *ruleState
	*quota.Cache[*armedKey]
	n int // number of keys that are armed; disarmed keys are not counted
}

// armedKey is a key with its newest line. An episode opens if no newer line of the key is read within `silent`.
type armedKey struct {
	in              *armedKeys
	key             string
	values          []redact.Text // values of `by`
	who             *intake.Identity
	partialIdentity bool   // whether the key matches every identity; see restored.partialIdentity
	namespace       string // namespace that the source stated for the newest line
	mutes           string // key of the unless lines that apply to this key
	// disarmed is set if silence after this line is not a failure, because the line was muted or refused, or because
	// its pod was deleted. A disarmed key is kept so that an older line does not arm it.
	disarmed bool
	last     window.Hit
	logs     intake.Logs
	due      watermark.Deadline
}

func newArmedKeys(rs *ruleState) *armedKeys {
	a := &armedKeys{rs: rs}
	a.Cache = quota.NewCache(rs, quotaClass(rs.rule), rs.limits.windows, maxOverflowKeys(rs.rule), a.countEvicted)
	return a
}

// accept accepts a line. The newest line of a key ends the open episode of the key and arms the key.
func (a *armedKeys) accept(h *window.Hit, now int64) {
	rs := a.rs
	values, missing := rs.in.KeyOf(&rs.last, h.Values)
	if missing {
		rs.stats.MissingBy++
	}
	if ep := rs.find(); ep != nil {
		if h.T <= ep.newest {
			return
		}
		if h.T+int64(rs.rule.Silent) <= rs.groups.firing.readUpTo(values, rs.in.StreamIdentity, false) {
			ep.stillSilent(h)
			return
		}
		ep.close(ReasonClear, h.T, now, h.Line)
	}
	k := a.find()
	switch {
	case k != nil && h.T <= k.last.T:
		return
	case k == nil && h.T+rs.quietTime() <= rs.groups.steps.readUpTo(values, rs.in.StreamIdentity, false):
		return // an episode that opened after this line would already have expired
	case k == nil:
		in := &rs.in
		k = &armedKey{
			in: a, key: string(in.Key), values: in.Copier.CopyValues(values), who: in.StreamIdentity,
			namespace: strings.Clone(in.Labels["namespace"]), disarmed: true,
		}
		k.due.Subject = k
		k.mutes, _ = rs.unlessLines.joinKey(k.values, k.who)
	}
	rs.in.Borrow(&k.last, h)
	k.logs.CountLog(&rs.in.Origin)
	was := k.disarmed
	k.setDisarmed(a.isExcused(values, h.T))
	if was {
		k.due.Arm(rs.groups.firing.Group) // an armed key may have an earlier deadline than a disarmed key
	}
	a.Add(k.key, rs.in.Tenant, k, 1)
}

// find returns the armed key of the hit, or nil if the hit's key is not known.
func (a *armedKeys) find() *armedKey {
	in := &a.rs.in
	if x := a.Items[string(in.Key)]; x != nil {
		return x.Value
	}
	if in.StreamIdentity == nil {
		return nil
	}
	x := a.Items[in.KeyWithoutIdentity()]
	if x == nil || !x.Value.partialIdentity {
		return nil
	}
	k, party, disarmed := x.Value, x.Tenant(), x.Value.disarmed // adding the key below sets these fields
	a.remove(k)
	k.key, k.who, k.partialIdentity = string(in.Key), in.StreamIdentity, false
	a.addKey(k, party, disarmed)
	return k
}

func (a *armedKeys) addKey(k *armedKey, party string, disarmed bool) {
	k.in, k.disarmed, k.due.Subject = a, true, k
	k.mutes, _ = a.rs.unlessLines.joinKey(k.values, k.who)
	k.setDisarmed(disarmed)
	k.due.Arm(a.rs.groups.firing.Group)
	a.Add(k.key, party, k, 1)
}

// isExcused reports whether silence after a line of the hit's key at t is no failure, because an unless line mutes it,
// or because the pod of the key was deleted after the line.
func (a *armedKeys) isExcused(values []redact.Text, t int64) bool {
	rs := a.rs
	return rs.isMuted(values, t) ||
		rs.departed.Len() > 0 && rs.byPod() && rs.departed.wasDeletedSince(rs.podOfKey(values, rs.in.Labels["namespace"], rs.in.StreamIdentity), t)
}

// stillSilent adds a late line to an open episode. The key was silent for too long after that line too, so the episode
// continues.
func (ep *episode) stillSilent(h *window.Hit) {
	rs := ep.rs
	ep.newest, ep.lastID = h.T, h.ID
	ep.lines++
	ep.showTrigger(&window.Trigger{T: h.T, ShownHit: h, Line: h})
	ep.logs.CountLog(&rs.in.Origin)
	rs.slots.Touch(&ep.slot, rs.in.Tenant)
	rs.journal.markContinued(ep)
}

func (k *armedKey) setDisarmed(disarmed bool) {
	if disarmed == k.disarmed {
		return
	}
	if k.disarmed = disarmed; disarmed {
		k.in.n--
	} else {
		k.in.n++
	}
}

func (a *armedKeys) remove(k *armedKey) {
	a.Delete(k.key)
	k.setDisarmed(true)
	k.due.Disarm()
}

// applyUnless applies an unless line at t with this key to the armed keys.
func (a *armedKeys) applyUnless(key string, values []redact.Text, t int64) {
	a.muteSharing(key, t, false)
	if a.rs.in.StreamIdentity != nil {
		any, _ := a.rs.unlessLines.joinKey(values, nil)
		a.muteSharing(any, t, true)
	}
}

func (a *armedKeys) muteSharing(key string, t int64, loose bool) {
	within := int64(a.rs.rule.Unless.Within)
	apply := func(k *armedKey) {
		if !k.disarmed && t > k.last.T-within && (k.partialIdentity || !loose) {
			k.setDisarmed(true)
		}
	}
	if a.rs.unlessLines.ofKey {
		if x := a.Items[key]; x != nil {
			apply(x.Value)
		}
		return
	}
	for _, x := range a.Items {
		if x.Value.mutes == key {
			apply(x.Value)
		}
	}
}

// countEvicted counts an armed key that was evicted, because the engine can no longer notice its silence.
func (a *armedKeys) countEvicted(_ string, k *armedKey, party string) {
	if !k.disarmed {
		a.rs.limits.countLost(a.rs, party, EvictedArmed)
	}
	k.setDisarmed(true)
	k.due.Disarm()
}

func (a *armedKeys) removeAll() {
	for _, x := range a.Items {
		x.Value.due.Disarm()
	}
	a.Purge()
}

// Due returns the time at which the silence becomes a failure, or at which a disarmed key is forgotten.
func (k *armedKey) Due() int64 {
	if k.disarmed {
		return k.last.T + k.in.rs.quietTime()
	}
	return k.last.T + int64(k.in.rs.rule.Silent)
}

// conclude opens the episode of a key that was silent.
func (k *armedKey) conclude(now int64) {
	a := k.in
	x := a.Items[k.key]
	if x == nil || x.Value != k {
		return // the key was evicted after its deadline was reached
	}
	rs, party, failed := a.rs, x.Tenant(), !k.disarmed
	a.remove(k)
	if !failed {
		return
	}
	starts := k.last.T + int64(rs.rule.Silent)
	if l, full := rs.findPlace(party, now); full {
		rs.overflow.countRefused(k.key, starts, l, now)
		a.addKey(k, party, true) // silence is no failure until the next line of the key
		return
	}
	ep := &episode{
		rs: rs, key: k.key, values: k.values, who: k.who, namespace: k.namespace, openedTenant: party, restored: restored{partialIdentity: k.partialIdentity},
		state: StatePending, starts: starts, newest: k.last.T, windowStart: starts, completedAt: starts, lines: 1, lastID: k.last.ID,
		last: k.last.WithoutRecord(), first: k.last.Line, logs: k.logs,
	}
	ep.sequence = window.Hits{&ep.last}
	ep.computeLabels()
	ep.history.addEvent(Event{Time: instant.ToTime(k.last.T), Kind: EventLast})
	ep.noteOpened(&window.Trigger{T: starts}, now)
	ep.add(party)
	ep.fire(now)
	ep.conclude(now) // the episode may already have expired
}

// keepDisarmed keeps the key of an ended episode in the disarmed state, so that only a newer line arms it.
func (a *armedKeys) keepDisarmed(ep *episode, party string) {
	if ep.endTime() <= a.rs.groups.steps.readUpTo(ep.values, ep.who, ep.partialIdentity) {
		return // the episode has expired, and an older line cannot open another one
	}
	ep.rs.in.Copy(&ep.last)
	k := &armedKey{key: ep.key, values: ep.values, who: ep.who, partialIdentity: ep.partialIdentity, namespace: ep.namespace, last: ep.last.WithoutRecord(), logs: ep.logs}
	k.last.T = ep.newest
	a.addKey(k, party, true)
}
