package sinks

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"crowsnest/episodes"
)

// Delivery is an endpoint's answer to one form of an alert. Equal answers in a row
// are merged.
type Delivery struct {
	Endpoint string
	Time     time.Time // time of the first such response
	Last     time.Time // time of the newest such response
	Times    int
	Resolved bool   // the form that was sent
	Code     int    // HTTP status; zero if there is none, or nothing was sent
	Error    string // empty if accepted
}

// Bounds of Deliveries: alerts, and answers per alert, of which the first two and
// the newest are kept.
const (
	deliveriesKept  = 4096
	answersKept     = 12
	firstAnswers    = 2
	maxAnswerReason = 512 // bytes
)

// Deliveries holds the answers to the newest alerts. It shows people who was
// notified of what; nothing depends on it, and it is not saved. Safe for
// concurrent use.
type Deliveries struct {
	mu  sync.Mutex
	log *lru.Cache[episodes.Fingerprint, []Delivery]
}

// NewDeliveries returns a log without answers.
func NewDeliveries() *Deliveries {
	log, _ := lru.New[episodes.Fingerprint, []Delivery](deliveriesKept) // the size is positive
	return &Deliveries{log: log}
}

// Record adds the answer of an endpoint to msgs. d holds all but the form that was
// sent; its Time is the time of the answer.
func (l *Deliveries) Record(msgs []Message, d Delivery) {
	d.Last, d.Times = d.Time, 1
	d.Error = d.Error[:min(len(d.Error), maxAnswerReason)]
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range msgs {
		d.Resolved = m.Resolved
		list, _ := l.log.Get(m.Episode.Fingerprint)
		l.log.Add(m.Episode.Fingerprint, added(list, d))
	}
}

// added returns list with d added, or counts d if it repeats the last answer.
func added(list []Delivery, d Delivery) []Delivery {
	for i := len(list) - 1; i >= 0; i-- {
		if old := &list[i]; old.Endpoint == d.Endpoint {
			if old.Resolved == d.Resolved && old.Code == d.Code && old.Error == d.Error {
				old.Last, old.Times = d.Last, old.Times+1
				return list
			}
			break
		}
	}
	if len(list) < answersKept {
		return append(list, d)
	}
	copy(list[firstAnswers:], list[firstAnswers+1:])
	list[len(list)-1] = d
	return list
}

// Notified returns how many answers accepted an episode that fired at a time: of each
// endpoint, up to the end.
func (l *Deliveries) Notified(fp episodes.Fingerprint, fired time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, _ := l.log.Peek(fp)
	accepted := func(d *Delivery) bool { return d.Error == "" && !d.Last.Before(fired) }
	n := 0
	for i := range list {
		ended := func(d Delivery) bool { return d.Endpoint == list[i].Endpoint && d.Resolved && accepted(&d) }
		if accepted(&list[i]) && !slices.ContainsFunc(list[:i], ended) {
			n++
		}
	}
	return n
}

// Of returns a copy of the answers to an alert, ordered by their first time. Some
// may belong to earlier episodes of the alert.
func (l *Deliveries) Of(fp episodes.Fingerprint) []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, _ := l.log.Peek(fp)
	return append([]Delivery(nil), list...)
}
