package journal

import (
	"path/filepath"

	"crowsnest/sources/journal/internal/journalfile"
)

// sequence counts the entries of all files that share one sequence of numbers. These are the files of the system and of
// users, archived and active. journald links entry n before it writes entry n+1. Therefore, after an entry was read, a
// round that then reads all files finds every earlier entry. If the number of an entry is still missing after this
// round, no file has the entry.
type sequence struct {
	Dir           string `json:"dir"`   // directory of the newest file of the sequence
	DoneUpTo      uint64 `json:"done"`  // number up to which every entry was read or lost
	Goal          uint64 `json:"goal"`  // newest number when the current round over all files began
	ReadBelowGoal uint64 `json:"below"` // number of entries in (DoneUpTo, Goal] that were read
	ReadAboveGoal uint64 `json:"above"` // number of entries after Goal that were read
	LastRead      uint64 `json:"last"`  // newest number that was read
	// Fresh is set until all files were read once. Before that it is unknown which entries are missing.
	Fresh bool `json:"fresh,omitempty"`
	// StartTime is the time of the oldest entry to read while Fresh is set, in microseconds since
	// 1970. Zero means that all entries are read.
	StartTime uint64 `json:"from,omitempty"`
	// Boot, Monotonic and Realtime are the boot ID and the times of the newest entry.
	Boot      journalfile.ID `json:"boot"`
	Monotonic uint64         `json:"monotonic"`
	Realtime  uint64         `json:"realtime"`

	twins []*sequence // sequences of the same journal in other directories
}

func (q *sequence) countEntry(e *journalfile.Entry) {
	q.count(e.Seq, 1)
	q.LastRead = max(q.LastRead, e.Seq)
	if e.Boot != q.Boot || e.Monotonic > q.Monotonic {
		q.Boot, q.Monotonic = e.Boot, e.Monotonic
	}
	q.Realtime = max(q.Realtime, e.Realtime)
}

// count counts n entries that were read or lost. Their numbers are close to seq.
func (q *sequence) count(seq, n uint64) {
	switch {
	case seq <= q.DoneUpTo && !q.Fresh:
	case seq <= q.Goal:
		q.ReadBelowGoal += n
	default:
		q.ReadAboveGoal += n
	}
}

// endRound ends a round, in which all files were read. It returns the number of missing entries.
func (q *sequence) endRound() (missing uint64) {
	if expected := q.Goal - q.DoneUpTo; !q.Fresh && expected > q.ReadBelowGoal {
		missing = expected - q.ReadBelowGoal
	}
	if q.Fresh {
		q.Fresh, q.StartTime, q.Goal, q.ReadAboveGoal = false, 0, q.LastRead, 0
	}
	q.DoneUpTo, q.Goal, q.ReadBelowGoal, q.ReadAboveGoal = q.Goal, q.LastRead, q.ReadAboveGoal, 0
	return missing
}

// isCopy reports whether the entry was already read in another directory. When /var becomes
// writable, journald copies the entries there. Old releases give the copies other numbers.
func (q *sequence) isCopy(e *journalfile.Entry) bool {
	for _, twin := range q.twins {
		if twin.Boot == e.Boot && e.Monotonic <= twin.Monotonic && e.Realtime <= twin.Realtime {
			return true
		}
	}
	return false
}

func pairTwins(all map[journalfile.ID]*sequence) {
	for _, q := range all {
		q.twins = q.twins[:0]
		for _, other := range all {
			if other != q && other.Dir != q.Dir && filepath.Base(other.Dir) == filepath.Base(q.Dir) && other.LastRead > 0 {
				q.twins = append(q.twins, other)
			}
		}
	}
}
