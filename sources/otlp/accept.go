package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzip"
	resources "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"crowsnest/internal/text"
	"crowsnest/matcher"
)

// worker has the memory to decode one request.
type worker struct {
	zip   gzip.Reader
	buf   []byte // request after decompression
	lines lines
}

// trim frees large memory after a request.
func (wk *worker) trim() {
	if cap(wk.buf) > maxKept {
		wk.buf = nil
	}
	if l := &wk.lines; cap(l.text) > maxKept || cap(l.fields) > maxKept/64 {
		wk.lines = lines{}
	}
}

// refusedRecords are the records of a request that are lost, because they cannot be read.
type refusedRecords struct {
	count  int
	newest error
	sender string
}

func (x refusedRecords) text() string {
	return fmt.Sprintf("%s refused, such as one of %s: %v", text.Plural(x.count, "record"), x.sender, x.newest)
}

const largeRecord = 64 << 10 // size of a record from which on its memory is freed

// accept accepts the records of a request. It returns the number of the request. A malformed request has no effect.
func (h *handler) accept(wk *worker, request []byte, enc *encoding) (uint64, refusedRecords, *refusal) {
	if why := h.checkSenders(request, enc); why != nil {
		return 0, refusedRecords{}, why
	}
	in := &batch{h: h, wk: wk, enc: enc, now: h.s.cfg.Clock(), newest: map[string]time.Time{}}
	defer in.endResource() // also after a panic
	err := enc.visit(request, visitor{resource: in.startResource, record: in.acceptRecord})
	in.endResource()
	if err != nil {
		return 0, refusedRecords{}, &refusal{status: http.StatusBadRequest, reason: refusedMalformed, err: err}
	}
	s := h.s
	var number uint64
	h.saveSource(func() {
		for name, t := range in.newest {
			if x := s.senders[name]; x != nil {
				x.accept(t, in.now)
			}
		}
		s.status.Lines += in.lines
		s.status.Evaluated += in.lines
		s.status.Bytes += in.bytes
		s.status.Truncated += in.truncated
		s.status.Errors[untimed] += in.untimed
		s.accepted++
		number = s.accepted
	})
	s.recordLoss(in.refused.count, in.refused.sender, in.refused.newest)
	return number, in.refused, nil
}

// Limits of a request, because each resource and each record costs time even if it is empty.
const (
	maxResources = 10_000
	maxRecords   = 250_000
)

// checkSenders checks the form of a request, and adds its senders.
func (h *handler) checkSenders(request []byte, enc *encoding) *refusal {
	var why *refusal
	count := func(n *int, most int, noun string) error {
		if *n++; *n > most {
			why = &refusal{status: http.StatusRequestEntityTooLarge, reason: refusedSize, err: fmt.Errorf("the request has more than %d %ss; lower send_batch_max_size of the collector", most, noun)}
			return why.err
		}
		return nil
	}
	var resourceCount, recordCount int
	err := enc.visit(request, visitor{
		resource: func(encoded []byte) error {
			if err := count(&resourceCount, maxResources, "resource"); err != nil {
				return err
			}
			o, err := h.readResource(encoded, enc)
			if err != nil {
				return err
			}
			known, added := h.s.knows(o.sender)
			if added {
				h.p.AddMember(h.s.memberName(o.sender))
				h.saveSource(func() {})
			}
			if !known {
				why = &refusal{status: http.StatusTooManyRequests, reason: refusedSenders, after: time.Minute, err: fmt.Errorf("%d senders are known already; raise sources.otlp.max_senders", h.s.cfg.MaxSenders)}
				return why.err
			}
			return nil
		},
		record: func([]byte) error { return count(&recordCount, maxRecords, "record") },
	})
	if err != nil && why == nil {
		return &refusal{status: http.StatusBadRequest, reason: refusedMalformed, err: err}
	}
	return why
}

func (h *handler) readResource(encoded []byte, enc *encoding) (origin, error) {
	if len(encoded) > maxResource {
		return origin{}, fmt.Errorf("a resource has %d bytes, and at most %d are allowed; remove attributes from it", len(encoded), maxResource)
	}
	var r resources.Resource
	if err := enc.unmarshal(encoded, &r); err != nil {
		return origin{}, fmt.Errorf("read a resource: %w", err)
	}
	return newOrigin(r.GetAttributes(), h.s.cfg.Labels), nil
}

// untimed counts records without a time, in addition to the reasons for refusals.
const untimed = "no_time"

// batch is a request whose records are being accepted.
type batch struct {
	h   *handler
	wk  *worker
	enc *encoding
	now time.Time

	stream *stream // locked stream of the current resource; nil if there is none
	sender string
	newest map[string]time.Time // time of the newest record of a sender; the key is the sender

	lines, bytes, truncated, untimed int64
	refused                          refusedRecords
}

func (in *batch) startResource(encoded []byte) error {
	in.endResource()
	o, err := in.h.readResource(encoded, in.enc)
	if err != nil {
		return err
	}
	in.sender, in.stream = o.sender, in.h.s.stream(o.labels)
	in.stream.mu.Lock()
	return nil
}

func (in *batch) endResource() {
	if in.stream != nil {
		in.stream.mu.Unlock()
		in.stream = nil
	}
}

// acceptRecord passes a record to the pipeline. A record that cannot be read is refused alone.
func (in *batch) acceptRecord(encoded []byte) error {
	if in.stream.selfWritten {
		return nil
	}
	l := &in.wk.lines
	if len(encoded) > largeRecord {
		defer proto.Reset(&l.record)
	}
	if err := l.read(encoded, in.enc); err != nil {
		in.refused = refusedRecords{in.refused.count + 1, err, in.sender}
		return nil
	}
	rec, own := l.convert(in.now)
	in.h.p.Match(in.stream.s, rec, func() {})
	in.lines++
	in.bytes += int64(len(rec.Text))
	if len(rec.Text) > matcher.MaxLine {
		in.truncated++
	}
	if !own {
		in.untimed++
	}
	if t, known := in.newest[in.sender]; !known || rec.Time.After(t) {
		in.newest[in.sender] = rec.Time
	}
	return nil
}

// read decodes a record.
func (l *lines) read(encoded []byte, enc *encoding) error {
	if len(encoded) > maxRecord {
		return fmt.Errorf("a record has %d bytes, and at most %d are allowed; lower max_log_size of the collector's receiver", len(encoded), maxRecord)
	}
	proto.Reset(&l.record)
	if err := enc.unmarshal(encoded, &l.record); err != nil {
		return errors.New("a record cannot be decoded, because it is damaged, nested too deeply or not in UTF-8; check the encoding of the collector's receiver")
	}
	return nil
}
