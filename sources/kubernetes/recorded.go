package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"crowsnest/matcher"
)

// RecordedContainer is a container whose logs are read only once.
type RecordedContainer struct {
	Namespace, Pod, UID, Container, Node string
	// Labels are the labels of the container's stream. The caller owns them.
	Labels matcher.Labels
	// Restarts is the restart count of the newest instance.
	Restarts int
	// Log reports whether the container has an instance, and Previous whether it had an
	// earlier one. Began and Ended are the times of the earlier instance.
	Log, Previous      bool
	StartedAt, EndedAt time.Time
}

// ReadPod returns the containers of a pod. in is the pod as the API returns it.
func ReadPod(in json.RawMessage) ([]RecordedContainer, error) {
	var p pod
	if err := json.Unmarshal(in, &p); err != nil {
		return nil, fmt.Errorf("read a pod: %w", err)
	}
	var out []RecordedContainer
	for _, c := range p.containers() {
		out = append(out, RecordedContainer{
			Namespace: c.pod.namespace, Pod: c.pod.name, UID: c.pod.uid, Container: c.name, Node: c.node, Labels: c.labels,
			Restarts: c.restarts, Log: c.phase != waiting, Previous: !c.previousEnd.IsZero(), StartedAt: c.earlier, EndedAt: c.previousEnd,
		})
	}
	return out, nil
}

// CopiedLog describes the result of CopyLog.
type CopiedLog struct {
	// Bytes and Lines are the numbers of bytes and lines that were written.
	Bytes, Lines int64
	// FirstLineTime is the time of the first line; zero if there is none.
	FirstLineTime time.Time
	// Full reports whether the log is longer than the allowed size.
	Full bool
	// Message is the first line without a timestamp. The kubelet writes such a line instead of
	// a log that it cannot read.
	Message string
}

// WriteError is an error of the writer that was passed to CopyLog.
type WriteError struct{ Err error }

// Error returns the text of the cause.
func (e *WriteError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// CopyLog reads log, a response of the API with timestamps, and writes it in the format of a
// container runtime. It stops at the time until, unless that is zero, and after about most
// bytes. The lines that were read before an error are written too.
func CopyLog(w io.Writer, log io.Reader, until time.Time, most int64) (out CopiedLog, err error) {
	var l lines
	buf, read := make([]byte, 64<<10), int64(0)
	for past := false; err == nil && !past; {
		var n int
		n, err = log.Read(buf)
		l.addBytes(buf[:n])
		read += int64(n)
		if errors.Is(err, io.EOF) {
			l.endLine()
		}
		if i := slices.IndexFunc(l.fresh, func(line seenLine) bool { return !until.IsZero() && line.at > until.UnixNano() }); i >= 0 {
			past, l.block, l.fresh = true, firstLines(l.block, i), l.fresh[:i]
		}
		if out.Full = max(read, out.Bytes) > most && !past && !errors.Is(err, io.EOF); out.Full {
			return out, nil
		}
		if len(l.fresh) > 0 && out.FirstLineTime.IsZero() {
			out.FirstLineTime = time.Unix(0, l.fresh[0].at).UTC()
		}
		if _, failed := w.Write(l.block); failed != nil {
			return out, &WriteError{failed}
		}
		out.Bytes, out.Lines, out.Message = out.Bytes+int64(len(l.block)), out.Lines+int64(len(l.fresh)), l.stray
		l.block, l.fresh = l.block[:0], l.fresh[:0]
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out, err
}

func firstLines(block []byte, n int) []byte {
	end := 0
	for range n {
		end += bytes.IndexByte(block[end:], '\n') + 1
	}
	return block[:end]
}
