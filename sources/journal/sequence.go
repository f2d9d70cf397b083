package journal

import (
	"path/filepath"

	"crowsnest/sources/journal/internal/journalfile"
)

// sequence counts the entries of all files that number them in one sequence: those of
// the system and of users, archived and active. journald links entry n before it writes
// n+1. So once an entry was seen, a later look at every file sees all before it, and a
// number that is missing then is that of an entry that no file has.
type sequence struct {
	Dir   string `json:"dir"`   // directory of the newest file
	Done  uint64 `json:"done"`  // everything up to here was read, or is lost
	Goal  uint64 `json:"goal"`  // the newest number when the current look at all files began
	Below uint64 `json:"below"` // entries that were read in (Done, Goal]
	Above uint64 `json:"above"` // the same behind Goal
	Last  uint64 `json:"last"`  // the newest number that was read
	// Fresh means that not all files were looked at yet: it is not known what is missing.
	Fresh bool `json:"fresh,omitempty"`
	// From is the time of the first entry to read of a Fresh sequence, in microseconds
	// since 1970; zero means all are read.
	From uint64 `json:"from,omitempty"`
	// The newest entry.
	Boot      journalfile.ID `json:"boot"`
	Monotonic uint64         `json:"monotonic"`
	Realtime  uint64         `json:"realtime"`

	twins []*sequence // sequences of the same journal in other folders
}

// took counts an entry that was read, skipped or found damaged.
func (q *sequence) took(e *journalfile.Entry) {
	q.count(e.Seq, 1)
	q.Last = max(q.Last, e.Seq)
	if e.Boot != q.Boot || e.Monotonic > q.Monotonic {
		q.Boot, q.Monotonic = e.Boot, e.Monotonic
	}
	q.Realtime = max(q.Realtime, e.Realtime)
}

// count counts entries about a number.
func (q *sequence) count(seq, n uint64) {
	switch {
	case seq <= q.Done && !q.Fresh:
	case seq <= q.Goal:
		q.Below += n
	default:
		q.Above += n
	}
}

// looked ends a look at all files. It returns how many entries are missing.
func (q *sequence) looked() (missing uint64) {
	if expected := q.Goal - q.Done; !q.Fresh && expected > q.Below {
		missing = expected - q.Below
	}
	if q.Fresh {
		q.Fresh, q.From, q.Goal, q.Above = false, 0, q.Last, 0
	}
	q.Done, q.Goal, q.Below, q.Above = q.Goal, q.Last, q.Above, 0
	return missing
}

// copied reports whether the entry was read in another folder: when /var becomes
// writable, journald copies the entries there, with other numbers in old releases.
func (q *sequence) copied(e *journalfile.Entry) bool {
	for _, twin := range q.twins {
		if twin.Boot == e.Boot && e.Monotonic <= twin.Monotonic && e.Realtime <= twin.Realtime {
			return true
		}
	}
	return false
}

// pair finds the twins of all sequences.
func pair(all map[journalfile.ID]*sequence) {
	for _, q := range all {
		q.twins = q.twins[:0]
		for _, other := range all {
			if other != q && other.Dir != q.Dir && filepath.Base(other.Dir) == filepath.Base(q.Dir) && other.Last > 0 {
				q.twins = append(q.twins, other)
			}
		}
	}
}
