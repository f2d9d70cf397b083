package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxFrame bounds the bytes of one message: that of the lines of a replay, with escapes.
const maxFrame = 8 << 20

// frames reads messages, one a line, and answers those that are none with an error: the
// library would end the session. It ends when in has ended and all calls are answered, which
// the library would cancel. The SDK reads it from one goroutine.
type frames struct {
	in   *bufio.Reader
	out  *output
	rest []byte // unread bytes of the current message
}

// Read implements io.Reader. It returns whole messages in order.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		line, err := f.line()
		if errors.Is(err, errLong) {
			f.refuse(jsonrpc.CodeInvalidRequest, err)
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			f.take(line)
		}
		if err != nil && len(f.rest) == 0 {
			f.out.drain()
			return 0, err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// take passes a message on, or refuses it.
func (f *frames) take(line []byte) {
	if line[0] == '[' {
		f.refuse(jsonrpc.CodeInvalidRequest, errors.New("batches are not supported; send one message a line"))
		return
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		f.refuse(jsonrpc.CodeParseError, fmt.Errorf("not a message of JSON-RPC 2.0: %w", err))
		return
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		f.out.expect(1)
	}
	f.rest = append(line, '\n')
}

var errLong = fmt.Errorf("the message has more than %d MiB; send fewer lines, or name a file", maxFrame>>20)

// line returns the next line. The error errLong means that it was too long and is skipped.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for long := false; ; {
		part, err := f.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxFrame; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLong
		default:
			return line, err
		}
	}
}

func (f *frames) refuse(code int64, err error) {
	_ = writeJSON(f.out, map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": clean(err.Error(), maxError)}})
}

// output is standard output: each Write is one message. It is safe for concurrent use.
type output struct {
	mu       sync.Mutex
	out      io.Writer
	open     int           // calls without an answer
	answered chan struct{} // closed when open becomes 0; nil if nobody waits
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	n, err := o.out.Write(p)
	o.mu.Unlock()
	if m, bad := jsonrpc.DecodeMessage(p); bad == nil {
		if r, ok := m.(*jsonrpc.Response); ok && r.ID.IsValid() {
			o.expect(-1)
		}
	}
	return n, err
}

// Close implements io.Closer; the output stays open.
func (o *output) Close() error { return nil }

// expect adds to the calls without an answer.
func (o *output) expect(calls int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open += calls; o.open <= 0 && o.answered != nil {
		close(o.answered)
		o.answered = nil
	}
}

// drain returns when all calls are answered, at the latest when each has had its time.
func (o *output) drain() {
	o.mu.Lock()
	if o.open <= 0 {
		o.mu.Unlock()
		return
	}
	o.answered = make(chan struct{})
	wait := o.answered
	o.mu.Unlock()
	late := time.NewTimer(2 * maxCall)
	defer late.Stop()
	select {
	case <-wait:
	case <-late.C:
	}
}
