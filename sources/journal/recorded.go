package journal

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"crowsnest/matcher"
	"crowsnest/sources/journal/internal/journalfile"
)

// maxLogs is the largest number of logs of a recorded file. The entries of all further streams form one log.
const maxLogs = 512

// RecordedFile is a journal file to which nothing is written any more, as in a support bundle.
type RecordedFile struct {
	Logs    []Log  // logs in the order of their first entries
	Entries uint64 // number of entries of all logs
	Damaged uint64 // number of unreadable entries
}

// Log is one stream of a file.
type Log struct {
	Labels matcher.Labels // labels that a Source would give the stream

	key  string
	rest map[string]bool // keys of all other logs; set if this log holds the entries of all further streams
}

// ReadRecorded finds the logs in a file. It returns an error if r is not a journal.
func ReadRecorded(r io.ReaderAt) (RecordedFile, error) {
	var out RecordedFile
	known := map[string]bool{}
	var rest *Log
	err := eachEntry(r, &out, func(l *lines, _ *journalfile.Entry) bool {
		out.Entries++
		switch {
		case known[string(l.key)]:
		case len(known) < maxLogs:
			known[string(l.key)] = true
			out.Logs = append(out.Logs, Log{Labels: l.labels(), key: string(l.key)})
		case rest == nil:
			rest = &Log{Labels: matcher.Labels{"job": job, "node": string(l.host)}, rest: known}
		}
		return true
	})
	if rest != nil {
		out.Logs = append(out.Logs, *rest)
	}
	return out, err
}

func eachEntry(r io.ReaderAt, into *RecordedFile, f func(*lines, *journalfile.Entry) bool) error {
	file, err := journalfile.Open(r, maxValue)
	if err != nil {
		return err
	}
	file.Final = true
	var e journalfile.Entry
	var l lines
	for {
		err := file.Next(&e)
		var d *journalfile.Damage
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &d):
			into.Damaged += d.LostEntries
			continue
		}
		if l.readFields(file, &e); l.message == nil && l.damaged {
			into.Damaged++
			continue
		}
		l.setKey(l.isForeign())
		if !f(&l, &e) {
			return nil
		}
	}
}

// Lines returns the entries of the log as lines of Docker's JSON format, which keeps exact
// times and messages of several lines. The caller must close the reader.
func (l Log) Lines(r io.ReaderAt) io.ReadCloser {
	pr, pw := io.Pipe()
	go func() {
		buf := slices.Grow([]byte(nil), 64<<10)
		err := eachEntry(r, new(RecordedFile), func(own *lines, e *journalfile.Entry) bool {
			if own.message == nil || l.rest == nil && string(own.key) != l.key || l.rest[string(own.key)] {
				return true
			}
			buf = append(append(buf, dockerLine(own.message, e.Realtime)...), '\n')
			if len(buf) < 48<<10 {
				return true
			}
			_, err := pw.Write(buf)
			buf = buf[:0]
			return err == nil
		})
		if err == nil {
			_, err = pw.Write(buf)
		}
		_ = pw.CloseWithError(err)
	}()
	return pr
}

func dockerLine(message []byte, realtime uint64) []byte {
	b, _ := json.Marshal(struct { // strings and a time before the year 3112 can always be encoded
		Log    string    `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}{strings.TrimRight(string(message), "\n") + "\n", "stdout", time.UnixMicro(int64(realtime)).UTC()}) //nolint:gosec // the value is below 1<<55
	return b
}
