package kubelab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// stampForm is the time format of container runtimes.
const stampForm = "2006-01-02T15:04:05.000000000Z07:00"

// pollEvery is the interval for reading the end of a followed file.
const pollEvery = 15 * time.Millisecond

// logOptions are the options of a request.
type logOptions struct {
	follow, previous, timestamps bool
	since                        time.Time
	tail, limit                  int64 // -1: all
}

func readOptions(q url.Values) (o logOptions, err error) {
	o = logOptions{follow: q.Get("follow") == "true", previous: q.Get("previous") == "true", timestamps: q.Get("timestamps") == "true", tail: -1, limit: -1}
	if s := q.Get("sinceTime"); s != "" {
		if o.since, err = time.Parse(time.RFC3339, s); err != nil {
			return o, err
		}
	}
	if s := q.Get("sinceSeconds"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return o, err
		}
		o.since = time.Now().Add(-time.Duration(n) * time.Second)
	}
	if s := q.Get("tailLines"); s != "" {
		if o.tail, err = strconv.ParseInt(s, 10, 64); err != nil {
			return o, err
		}
	}
	if s := q.Get("limitBytes"); s != "" {
		o.limit, err = strconv.ParseInt(s, 10, 64)
	}
	return o, err
}

// serve answers a request for this container's log.
func (c *Container) serve(w http.ResponseWriter, r *http.Request) {
	o, err := readOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n, _ := c.instance()
	if o.previous {
		n--
	}
	f, err := os.Open(c.path(n))
	if err != nil {
		http.Error(w, "previous terminated container not found", http.StatusBadRequest)
		return
	}
	w.Header().Set("Transfer-Encoding", "chunked")
	l := &logReader{c: c, n: n, o: o, f: f, w: w, flush: w.(http.Flusher).Flush}
	defer l.close()
	if c.hanging() {
		defer func() { <-r.Context().Done() }()
	}
	if err := l.run(r.Context()); err != nil && r.Context().Err() == nil {
		fmt.Fprintf(w, "%v", err) // like the kubelet
	}
}

// logReader reads one instance's log like k8s.io/cri-client/pkg/logs.
type logReader struct {
	c     *Container
	n     int
	o     logOptions
	f     *os.File
	r     *bufio.Reader
	w     io.Writer
	flush func()
	open  bool   // the newest line continues
	rest  string // an incomplete line
	sent  int64
}

func (l *logReader) close() { l.f.Close() }

var errLimit = errors.New("limit")

func (l *logReader) run(ctx context.Context) error {
	if err := l.skipTail(); err != nil {
		return err
	}
	l.r = bufio.NewReader(l.f)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		n, running := l.c.instance()
		follow := l.o.follow && running && n == l.n // checked before reading, so that everything written before the exit is read
		moved := l.moved()
		if err := l.toEnd(); err != nil {
			if errors.Is(err, errLimit) {
				return nil
			}
			return err
		}
		switch {
		case moved: // the rotated file is read to its end
			if err := l.reopen(); err != nil {
				return err
			}
			continue
		case !follow:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// skipTail moves to the requested lines at the end.
func (l *logReader) skipTail() error {
	if l.o.tail < 0 {
		return nil
	}
	data, err := io.ReadAll(l.f)
	if err != nil {
		return err
	}
	at := len(data)
	for n := int64(0); at > 0; at-- {
		if data[at-1] == '\n' {
			if n++; n > l.o.tail {
				break
			}
		}
	}
	_, err = l.f.Seek(int64(at), io.SeekStart)
	return err
}

// moved reports whether the path is a different file now.
func (l *logReader) moved() bool {
	now, err := os.Stat(l.c.path(l.n))
	if err != nil {
		return false
	}
	own, err := l.f.Stat()
	return err == nil && !os.SameFile(now, own)
}

func (l *logReader) reopen() error {
	f, err := os.Open(l.c.path(l.n))
	if err != nil {
		return err
	}
	l.f.Close()
	l.f, l.rest = f, ""
	l.r.Reset(f)
	return nil
}

func (l *logReader) toEnd() error {
	for {
		line, err := l.r.ReadString('\n')
		if err != nil {
			l.rest += line
			l.flush()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		line, l.rest = l.rest+line, ""
		if err := l.line(strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
}

func (l *logReader) line(line string) error {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 4 {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, f[0])
	if err != nil {
		return err
	}
	if at.Before(l.o.since) {
		return nil
	}
	out := f[3]
	if l.o.timestamps && !l.open {
		out = f[0] + " " + out
	}
	if l.open = f[2] == "P"; !l.open {
		out += "\n"
	}
	if l.o.limit >= 0 && l.sent+int64(len(out)) > l.o.limit {
		out = out[:l.o.limit-l.sent]
		_, _ = io.WriteString(l.w, out)
		return errLimit
	}
	l.sent += int64(len(out))
	_, err = io.WriteString(l.w, out)
	return err
}
