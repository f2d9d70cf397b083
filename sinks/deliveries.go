package sinks

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"crowsnest/episodes"
)

// Delivery is what an endpoint answered when it was told an alert, in one form
// and with one outcome, once or several times in a row.
type Delivery struct {
	Endpoint string
	Time     time.Time // of the first such answer
	Last     time.Time // of the newest
	Times    int
	Resolved bool   // how it was told
	Code     int    // HTTP status; 0: there is none, or it was not sent
	Error    string // "": it was taken
}

// Bounds of Deliveries: alerts, and answers of each, of which the first two are
// kept and the newest.
const (
	deliveriesKept  = 4096
	answersKept     = 12
	firstAnswers    = 2
	maxAnswerReason = 512 // bytes
)

// Deliveries are the answers to the newest alerts. They are for people who ask
// who was told what; nothing depends on them, and they are not saved. Safe for
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

// Record notes the answer of an endpoint to some words. d says all but how each
// was told; its Time is the time of the answer.
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

// added adds an answer to a list, or counts it where it is the same again.
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

// Of returns a copy of the answers to an alert, in order of their first time.
// Answers to earlier episodes of the same alert may be among them.
func (l *Deliveries) Of(fp episodes.Fingerprint) []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, _ := l.log.Peek(fp)
	return append([]Delivery(nil), list...)
}
