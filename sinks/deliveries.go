package sinks

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"crowsnest/episodes"
)

// Delivery is the answer of an endpoint to a message about an alert. Equal answers that follow
// directly are merged into it.
type Delivery struct {
	Endpoint string
	Time     time.Time // time of the first of the merged answers
	LastAt   time.Time // time of the last of the merged answers
	Times    int
	Resolved bool   // whether the message was an end
	Code     int    // HTTP status; zero if there is none or nothing was sent
	Error    string // error of the answer; empty if the message was accepted
}

// deliveriesKept is the number of alerts in Deliveries. The other limit is the number of
// answers per alert. The first two answers and the newest ones are kept.
const (
	deliveriesKept  = 4096
	answersKept     = 12
	firstAnswers    = 2
	maxAnswerReason = 512 // largest size of an error text, in bytes
)

// Deliveries holds the answers to the newest alerts. It shows people which receiver was
// notified of which alert. It has no other use, and is not saved. Safe for concurrent use.
type Deliveries struct {
	mu  sync.Mutex
	log *lru.Cache[episodes.Fingerprint, []Delivery]
}

// NewDeliveries returns an empty log of answers.
func NewDeliveries() *Deliveries {
	log, _ := lru.New[episodes.Fingerprint, []Delivery](deliveriesKept) // the size is positive, so there is no error
	return &Deliveries{log: log}
}

// Record adds the answer of an endpoint to msgs. d is the answer, and Record sets its field
// Resolved. d.Time is the time of the answer.
func (l *Deliveries) Record(msgs []Message, d Delivery) {
	d.LastAt, d.Times = d.Time, 1
	d.Error = d.Error[:min(len(d.Error), maxAnswerReason)]
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range msgs {
		d.Resolved = m.Resolved
		list, _ := l.log.Get(m.Episode.Fingerprint)
		l.log.Add(m.Episode.Fingerprint, addOrCount(list, d))
	}
}

// addOrCount adds d to list, or counts d as a repetition of the last answer.
func addOrCount(list []Delivery, d Delivery) []Delivery {
	for i := len(list) - 1; i >= 0; i-- {
		if old := &list[i]; old.Endpoint == d.Endpoint {
			if old.Resolved == d.Resolved && old.Code == d.Code && old.Error == d.Error {
				old.LastAt, old.Times = d.LastAt, old.Times+1
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

// Notified returns the number of answers that accepted the episode that fired at the given
// time. It counts the answers of each endpoint up to the end of the episode.
func (l *Deliveries) Notified(fp episodes.Fingerprint, fired time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, _ := l.log.Peek(fp)
	accepted := func(d *Delivery) bool { return d.Error == "" && !d.LastAt.Before(fired) }
	n := 0
	for i := range list {
		ended := func(d Delivery) bool { return d.Endpoint == list[i].Endpoint && d.Resolved && accepted(&d) }
		if accepted(&list[i]) && !slices.ContainsFunc(list[:i], ended) {
			n++
		}
	}
	return n
}

// Answers returns a copy of the answers to an alert, ordered by the time of the first of the
// merged answers. Some may belong to earlier episodes of the same alert.
func (l *Deliveries) Answers(fp episodes.Fingerprint) []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, _ := l.log.Peek(fp)
	return slices.Clone(list)
}
