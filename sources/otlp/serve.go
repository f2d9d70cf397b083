package otlp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"crowsnest/internal/httpserve"
	"crowsnest/internal/pause"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
)

// Limits of the listener.
const (
	maxConns    = 512
	maxWorkers  = 1               // largest number of requests that are decoded at the same time, because that takes many times their size
	maxKept     = mib             // largest buffer of a worker that is kept for the next request
	bodyTimeout = 2 * time.Second // longest wait of a request for the memory of its body
	turnTimeout = 5 * time.Second // longest wait of a request for a worker
	saveTimeout = 10 * time.Second
	listenRetry = time.Second
	tickEvery   = time.Second
)

// Path is the path to which collectors send log records.
const Path = "/v1/logs"

// Reasons why requests are refused, as they appear in metrics.
const (
	refusedAuth      = "auth"
	refusedMalformed = "malformed" // the request cannot be decoded
	refusedPartial   = "partial"   // the connection ended, or was too slow, before the whole request had arrived
	refusedSize      = "too_large"
	refusedSenders   = "too_many_senders"
	refusedRate      = "rate"
	refusedBusy      = "busy"    // there is currently no memory for the request
	refusedUnsaved   = "unsaved" // the state could not be saved in time
	refusedStandby   = "standby" // another process leads
	refusedUnknown   = "unknown" // no OTLP request for logs, or an unknown encoding
)

func refusalReasons() []string {
	return []string{refusedAuth, refusedMalformed, refusedPartial, refusedSize, refusedSenders, refusedRate, refusedBusy, refusedUnsaved, refusedStandby, refusedUnknown}
}

// refusal says why a request is refused, with the HTTP status of the answer. Collectors send a request again after 429
// and 503, and drop it after every other status.
type refusal struct {
	status int
	reason string
	err    error
	after  time.Duration // time after which the request may be sent again; zero means a second
}

// isRetried reports whether the collector sends the request again.
func (f *refusal) isRetried() bool {
	return f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests
}

// grpcCode returns the code of a google.rpc.Status.
func (f *refusal) grpcCode() uint64 {
	switch f.status {
	case http.StatusUnauthorized:
		return 16
	case http.StatusTooManyRequests:
		return 8
	case http.StatusServiceUnavailable:
		return 14
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return 12
	}
	return 3
}

// Run listens until ctx ends, and then completes the requests that are being handled. If it cannot listen, it reports
// that in Status and tries again. It returns nil.
func (s *Source) Run(ctx context.Context, p sources.Pipeline) error {
	s.withLock(func() { s.beganAt = s.cfg.Clock() })
	h := &handler{s: s, p: p, stopping: ctx.Done()}
	e := httpserve.Endpoint{
		Section: "sources.otlp", Address: s.cfg.ListenAddress, WebConfigFile: s.cfg.WebConfigFile, MaxConns: maxConns, Handler: h,
		Opened: func() { s.withLock(func() { s.status.Up, s.status.Opened, s.status.Error = true, true, "" }) },
	}
	var wg sync.WaitGroup
	wg.Go(func() { h.maintain(ctx) })
	for ctx.Err() == nil {
		err := e.Serve(ctx)
		s.withLock(func() {
			if s.status.Up = false; err != nil {
				s.status.Error = err.Error()
			}
		})
		if err != nil {
			pause.Sleep(ctx, listenRetry, nil)
		}
	}
	wg.Wait()
	return nil
}

// handler serves the requests of collectors.
type handler struct {
	s        *Source
	p        sources.Pipeline
	stopping <-chan struct{}
}

// ServeHTTP answers a request after its records are saved.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	enc, why := protobuf, (*refusal)(nil)
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == jsonEncoding.contentType {
		enc = jsonEncoding
	} else if kind != protobuf.contentType {
		why = &refusal{status: http.StatusUnsupportedMediaType, reason: refusedUnknown, err: fmt.Errorf("the content type %q is unknown; send %s or %s", shorten(kind), protobuf.contentType, jsonEncoding.contentType)}
	}
	var refused refusedRecords
	if why = cmp.Or(h.checkRequest(r), why); why == nil {
		refused, why = h.handle(w, r, enc)
	}
	w.Header().Set("Content-Type", enc.contentType)
	if why == nil {
		_, _ = w.Write(enc.success(refused)) // the collector may have disconnected
		return
	}
	h.s.noteRefusal(why, r.RemoteAddr)
	if why.isRetried() {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(why.after.Seconds())))))
	}
	w.WriteHeader(why.status)
	_, _ = w.Write(enc.failure(why))
}

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), 100)], "") }

// checkRequest checks what can be checked without the body.
func (h *handler) checkRequest(r *http.Request) *refusal {
	s := h.s
	if r.URL.Path != Path {
		return &refusal{status: http.StatusNotFound, reason: refusedUnknown, err: errors.New("this address accepts only logs, at " + Path + "; remove this exporter from the pipelines of traces and metrics")}
	}
	if r.Method != http.MethodPost {
		return &refusal{status: http.StatusMethodNotAllowed, reason: refusedUnknown, err: errors.New("send logs with POST")}
	}
	switch ok, err := s.token.Accepts(httpserve.BearerToken(r)); {
	case err != nil:
		return &refusal{status: http.StatusServiceUnavailable, reason: refusedAuth, err: err}
	case !ok:
		return &refusal{status: http.StatusUnauthorized, reason: refusedAuth, err: errors.New("not authorized: present the token of sources.otlp.bearer_token_file; set the extension bearertokenauth as the auth of the collector's exporter")}
	}
	if s.cfg.Leads != nil {
		if leads, leader := s.cfg.Leads(); !leads {
			return &refusal{status: http.StatusServiceUnavailable, reason: refusedStandby, err: errors.New("this process is not the leader; " + cmp.Or(leader, "there is no leader yet"))}
		}
	}
	if missing := -s.limit.Tokens(); missing > 0 {
		after := time.Duration(missing / float64(s.limit.Limit()) * float64(time.Second))
		return &refusal{status: http.StatusTooManyRequests, reason: refusedRate, after: after, err: fmt.Errorf("more than %d MiB per second arrive; raise sources.otlp.max_rate_mib, or send less", s.cfg.MaxRate)}
	}
	return nil
}

// handle accepts the records of a request, and waits until they are saved.
func (h *handler) handle(w http.ResponseWriter, r *http.Request, enc *encoding) (refusedRecords, *refusal) {
	number, refused, why := h.acceptBody(w, r, enc)
	if why == nil {
		why = h.awaitSaved(r.Context(), number)
	}
	return refused, why
}

// acceptBody reads a body and accepts its records. It returns the number of the request.
func (h *handler) acceptBody(w http.ResponseWriter, r *http.Request, enc *encoding) (uint64, refusedRecords, *refusal) {
	body, release, why := h.s.readBody(w, r)
	if why != nil {
		return 0, refusedRecords{}, why
	}
	defer release()
	var wk *worker
	select {
	case wk = <-h.s.workers:
	case <-time.After(turnTimeout):
		return 0, refusedRecords{}, busy()
	case <-r.Context().Done():
		return 0, refusedRecords{}, &refusal{status: http.StatusServiceUnavailable, reason: refusedBusy, err: errors.New("the collector closed the connection")}
	}
	defer func() {
		wk.trim()
		h.s.workers <- wk
	}()
	request, why := wk.decompress(body, r.Header.Get("Content-Encoding"), h.s.cfg.MaxBody)
	if why != nil {
		return 0, refusedRecords{}, why
	}
	h.s.limit.ReserveN(time.Now(), len(request)) // what exceeds the rate delays later requests
	return h.accept(wk, request, enc)
}

func tooLarge(limit int) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, reason: refusedSize, err: fmt.Errorf("the request has more than %d MiB; lower send_batch_max_size of the collector, or raise sources.otlp.max_body_mib", limit)}
}

func busy() *refusal {
	return &refusal{status: http.StatusServiceUnavailable, reason: refusedBusy, err: errors.New("too many requests at a time; send again")}
}

// readBody reads a body as it was sent. The caller must call release.
func (s *Source) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), why *refusal) {
	limit := int64(s.cfg.MaxBody) * mib
	if r.ContentLength > limit {
		return nil, nil, tooLarge(s.cfg.MaxBody)
	}
	weight := limit
	if r.ContentLength >= 0 {
		weight = r.ContentLength + 1<<10
	}
	ctx, cancel := context.WithTimeout(r.Context(), bodyTimeout)
	defer cancel()
	if s.bodyRoom.Acquire(ctx, weight) != nil {
		return nil, nil, busy()
	}
	release = func() { s.bodyRoom.Release(weight) }
	body, err := readUpTo(http.MaxBytesReader(w, r.Body, limit), make([]byte, 0, max(r.ContentLength, 0)+1), int(limit))
	if err != nil {
		release()
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, nil, tooLarge(s.cfg.MaxBody)
		}
		return nil, nil, &refusal{status: http.StatusServiceUnavailable, reason: refusedPartial, err: fmt.Errorf("read request: %w; send again", err)}
	}
	return body, release, nil
}

// readUpTo appends to buf what r returns, but not more than limit+1 bytes in total. The buffer never grows beyond that
// size.
func readUpTo(r io.Reader, buf []byte, limit int) ([]byte, error) {
	for len(buf) <= limit {
		if len(buf) == cap(buf) {
			larger := make([]byte, len(buf), min(max(2*cap(buf), 4<<10), limit+1))
			copy(larger, buf)
			buf = larger
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// decompress returns the request in a body. It is valid until the next call.
func (wk *worker) decompress(body []byte, encoding string, limit int) ([]byte, *refusal) {
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
	default:
		return nil, &refusal{status: http.StatusUnsupportedMediaType, reason: refusedUnknown, err: fmt.Errorf("the content encoding %q is unknown; set compression of the collector's exporter to gzip or none", shorten(encoding))}
	}
	damaged := func(err error) *refusal {
		return &refusal{status: http.StatusBadRequest, reason: refusedMalformed, err: fmt.Errorf("decompress request: %w", err)}
	}
	if err := wk.zip.Reset(bytes.NewReader(body)); err != nil {
		return nil, damaged(err)
	}
	var err error
	wk.buf, err = readUpTo(&wk.zip, wk.buf[:0], limit*mib)
	switch {
	case err != nil:
		return nil, damaged(err)
	case len(wk.buf) > limit*mib:
		return nil, tooLarge(limit)
	}
	return wk.buf, nil
}

// awaitSaved waits until a request is on the disk.
func (h *handler) awaitSaved(ctx context.Context, number uint64) *refusal {
	timeout := time.NewTimer(saveTimeout)
	defer timeout.Stop()
	for {
		var done bool
		var changed <-chan struct{}
		h.s.withLock(func() { done, changed = h.s.saved >= number, h.s.savedChanged })
		if done {
			return nil
		}
		unsaved := func(text string) *refusal {
			return &refusal{status: http.StatusServiceUnavailable, reason: refusedUnsaved, err: errors.New(text)}
		}
		select {
		case <-changed:
		case <-h.stopping:
			return unsaved("this process stops; send again")
		case <-ctx.Done():
			return unsaved("the collector closed the connection")
		case <-timeout.C:
			return unsaved("the records are not saved yet; send again, and check the disk of storage.path of crowsnest")
		}
	}
}

// success returns the answer to a request whose records are saved, an ExportLogsServiceResponse.
func (e *encoding) success(refused refusedRecords) []byte {
	switch {
	case e == jsonEncoding && refused.count == 0:
		return []byte("{}")
	case e == jsonEncoding:
		b, _ := json.Marshal(map[string]any{"partialSuccess": map[string]string{
			"rejectedLogRecords": strconv.Itoa(refused.count), "errorMessage": refused.text(),
		}}) // strings can always be encoded
		return b
	case refused.count == 0:
		return nil
	}
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(refused.count))
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), refused.text())
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
}

// failure returns the answer to a refused request, a google.rpc.Status.
func (e *encoding) failure(why *refusal) []byte {
	if e == jsonEncoding {
		b, _ := json.Marshal(map[string]any{"code": why.grpcCode(), "message": why.err.Error()}) // strings and numbers can always be encoded
		return b
	}
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), why.grpcCode())
	return protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), strings.ToValidUTF8(why.err.Error(), "?"))
}

// maintain advances the watermarks and forgets senders, once a second until ctx ends.
func (h *handler) maintain(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.advance()
			h.forget()
		}
	}
}

func (h *handler) advance() {
	s, now := h.s, h.s.cfg.Clock()
	moved := map[string]time.Time{}
	settled := false
	s.withLock(func() {
		if settled = s.awaitsUnknown && now.Sub(s.beganAt) >= s.cfg.Lateness; settled {
			s.awaitsUnknown = false
		}
		for name, x := range s.senders {
			x.followClock(now)
			if x.advance(now, s.cfg.Lateness) {
				moved[s.memberName(name)] = x.proven
			}
		}
	})
	if settled {
		h.p.RemoveMember(s.unknownMember())
	}
	for member, t := range moved {
		h.p.AdvanceWatermark(member, t)
	}
}

func (h *handler) forget() {
	for _, name := range h.s.expired(h.s.cfg.Clock()) {
		h.s.withLock(func() { delete(h.s.senders, name) })
		h.p.RemoveMember(h.s.memberName(name))
		h.saveSource(func() {})
	}
}

// saveSource changes the saved state of the source and makes the pipeline save it. It calls change under the checkpoint
// lock, with mu held.
func (h *handler) saveSource(change func()) {
	h.p.Ingest(func(*rules.Set) []matcher.Hit { return nil }, func() { h.s.withLock(change) })
}
