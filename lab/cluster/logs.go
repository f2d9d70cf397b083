package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"crowsnest/internal/pause"
	"crowsnest/kube"
	"crowsnest/sources/kubernetes"
)

const (
	// quietFor is how long the answer to a request for a log may be silent. Nothing is
	// followed, so a kubelet that works sends without pause.
	quietFor = 20 * time.Second
	// leastShare is how much of every log is read at least.
	leastShare = 256 << 10
	// triesFor is how long a log is tried again: what takes long to fail will do so again.
	triesFor = 5 * time.Second
	// nodeTries is how many logs of a node fail until the others are not asked for.
	nodeTries = 2
)

var (
	errQuiet  = fmt.Errorf("no answer for %v", quietFor)
	errEnded  = errors.New("reading had ended before")
	errBroken = errors.New("the log broke off")
)

// podLog is the log of one instance of a container.
type podLog struct {
	kubernetes.Recorded

	previous bool
	copied   kubernetes.Copied
}

// folder returns the folder of the container below that of the pods.
func (l *podLog) folder() string {
	return filepath.Join(l.Namespace+"_"+l.Pod+"_"+l.UID, l.Container)
}

// file returns the name of the file in the folder.
func (l *podLog) file() string {
	if l.previous {
		return strconv.Itoa(max(l.Restarts, 1)-1) + ".log"
	}
	if l.Previous {
		return strconv.Itoa(max(l.Restarts, 1)) + ".log"
	}
	return strconv.Itoa(l.Restarts) + ".log"
}

// name names the log for people.
func (l *podLog) name() string { return l.Namespace + "/" + l.Pod + "/" + l.Container }

// what is the kind of the log in reports.
func (l *podLog) what() string {
	if l.previous {
		return "logs of previous instances of"
	}
	return "logs of"
}

// addLogs adds the logs of a container.
func (d *download) addLogs(c kubernetes.Recorded) {
	for _, part := range []string{c.Namespace, c.Pod, c.UID, c.Container} {
		if part == "" || strings.ContainsAny(part, "/_\\\x00") || part == "." || part == ".." {
			d.unseen.add("logs of", fmt.Sprintf("%q", c.Namespace+"/"+c.Pod+"/"+c.Container), "this is not the name of a container", "")
			return
		}
	}
	if c.Labels["app"] == "crowsnest" {
		d.unseen.add("logs of", c.Namespace+"/"+c.Pod+"/"+c.Container, "crowsnest repeats lines of others in its own", "")
		return
	}
	if c.Previous && c.Ended.After(d.Since) {
		if c.Restarts > 1 && c.Began.After(d.Since) {
			d.unseen.add("logs of older instances of", c.Namespace+"/"+c.Pod+"/"+c.Container, "the API has those of the newest two", "")
		}
		d.logs = append(d.logs, &podLog{Recorded: c, previous: true})
	}
	if c.Log {
		d.logs = append(d.logs, &podLog{Recorded: c})
	}
}

// readLogs reads the start of every log, which is all of most logs. What they leave of the bytes is
// for the newest lines of the others, in equal shares.
func (d *download) readLogs(ctx context.Context) {
	d.Progress.AllLogs.Store(int64(len(d.logs)))
	slices.SortStableFunc(d.logs, func(a, b *podLog) int { return cmp.Compare(a.name(), b.name()) })
	start := max(d.MaxBytes/int64(4*max(1, len(d.logs))), leastShare)
	each(len(d.logs), func(i int) { d.read(ctx, d.logs[i], start, 0) })
	left := d.MaxBytes
	var long []*podLog
	for _, l := range d.logs {
		if left -= l.copied.Bytes; l.copied.Full {
			long = append(long, l)
		}
	}
	share := max(left/int64(max(1, len(long))), leastShare)
	each(len(long), func(i int) { d.readNewest(ctx, long[i], share) })
}

// readNewest reads the newest lines of a log, about as many bytes as its share. The API counts lines
// only, so their number follows from the lines at the start of the log.
func (d *download) readNewest(ctx context.Context, l *podLog, share int64) {
	const advice = "the logs have more than --max-bytes; raise it, or use a shorter --since or fewer namespaces"
	most := share + share/4
	tail := max(1, share*l.copied.Lines/max(1, l.copied.Bytes))
	ok := d.read(ctx, l, most, tail)
	if ok && l.copied.Full { // The newest lines are longer than the first ones.
		tail = max(1, min(tail, l.copied.Lines)/2)
		ok = d.read(ctx, l, most, tail)
	}
	switch {
	case !ok: // The reason is noted.
	case l.copied.Full:
		d.unseen.failed("newest lines of", l.name(), advice)
	case !d.Until.IsZero() && l.copied.First.IsZero():
		d.unseen.failed("lines before --until of", l.name(), advice)
	case l.copied.Lines >= tail:
		d.unseen.add("older lines of", l.name(), advice, "")
	}
}

// read reads one log, of which at most so many bytes and, if tail is not 0, lines. It tries
// again what may be temporary. It reports whether the log was read.
func (d *download) read(ctx context.Context, l *podLog, most, tail int64) bool {
	d.Progress.Bytes.Add(-l.copied.Bytes)
	if l.copied == (kubernetes.Copied{}) {
		defer d.Progress.Logs.Add(1)
	}
	if ctx.Err() != nil {
		d.missLog(l, errEnded.Error())
		return false
	}
	if why := d.gates.closed(l); why != "" {
		d.missLog(l, why)
		return false
	}
	began := time.Now()
	for try := 1; ; try++ {
		var err error
		l.copied, err = d.fetch(ctx, l, most, tail)
		if err == nil && l.copied.Message != "" {
			d.missLog(l, "the kubelet says: "+l.copied.Message)
		}
		if err == nil || ctx.Err() != nil || try == maxTries || time.Since(began) > triesFor || !temporary(err) || !pause.Sleep(ctx, waitOf(err, try), nil) {
			d.gates.passed(l, err)
			d.lose(ctx, l, err)
			return err == nil
		}
	}
}

// fetch requests one log and writes its file.
func (d *download) fetch(ctx context.Context, l *podLog, most, tail int64) (kubernetes.Copied, error) {
	q := url.Values{"container": {l.Container}, "timestamps": {"true"}}
	if l.previous {
		q.Set("previous", "true")
	}
	if tail > 0 {
		q.Set("tailLines", strconv.FormatInt(tail, 10))
	}
	if !d.Since.IsZero() { // Since is a time of the node's clock
		q.Set("sinceSeconds", strconv.Itoa(max(1, int(math.Ceil(d.Now.Sub(d.Since).Seconds())))))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { cancel(errQuiet) })
	defer quiet.Stop()
	body, err := d.Client.Logs(ctx, "/api/v1/namespaces/"+l.Namespace+"/pods/"+l.Pod+"/log", q)
	if err != nil {
		return kubernetes.Copied{}, cmp.Or(context.Cause(ctx), err)
	}
	defer body.Close()
	folder := filepath.Join(d.Dir, "pods", l.folder())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return kubernetes.Copied{}, &kubernetes.WriteError{Err: err}
	}
	f, err := os.OpenFile(filepath.Join(folder, l.file()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return kubernetes.Copied{}, &kubernetes.WriteError{Err: err}
	}
	copied, err := kubernetes.CopyLog(f, readFunc(func(b []byte) (int, error) {
		n, err := body.Read(b)
		quiet.Reset(quietFor)
		d.Progress.Bytes.Add(int64(n))
		return n, err
	}), d.Until, most)
	if err != nil && !isWrite(err) {
		err = fmt.Errorf("%w: %w", errBroken, cmp.Or(context.Cause(ctx), err))
	}
	if failed := f.Close(); failed != nil && err == nil {
		err = &kubernetes.WriteError{Err: failed}
	}
	return copied, err
}

// readFunc is an io.Reader.
type readFunc func([]byte) (int, error)

// Read calls the function.
func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// lose notes why a log, or its end, was not read, and what that means for others. It does
// nothing without an error.
func (d *download) lose(ctx context.Context, l *podLog, err error) {
	switch code := kube.Code(err); {
	case err == nil:
	case ctx.Err() != nil:
		d.missLog(l, errEnded.Error())
	case isWrite(err) && errors.Is(err, syscall.ENAMETOOLONG):
		d.missLog(l, err.Error())
	case isWrite(err):
		d.stop(fmt.Errorf("write a log: %w; set TMPDIR to a folder with more space, or lower --max-bytes", err))
		d.missLog(l, errEnded.Error())
	case code == http.StatusForbidden:
		d.missLog(l, forbidden)
	case code == http.StatusNotFound:
		d.unseen.add(l.what(), l.name(), "the pod was deleted meanwhile", "")
	case code == http.StatusBadRequest && l.previous:
		d.unseen.add(l.what(), l.name(), "the node no longer has them", "")
	case code == http.StatusBadRequest:
		d.unseen.add(l.what(), l.name(), "the container has not started", "")
	case code == http.StatusUnauthorized, code == 0 && !errors.Is(err, errQuiet) && !errors.Is(err, errBroken):
		d.stop(explain(err))
		d.missLog(l, errEnded.Error())
	case d.gates.hung():
		d.stop(fmt.Errorf("the API server does not answer: %w", err))
		d.missLog(l, errEnded.Error())
	default:
		d.missLog(l, err.Error())
	}
}

// isWrite reports whether err is one of the disk.
func isWrite(err error) bool {
	_, ok := errors.AsType[*kubernetes.WriteError](err)
	return ok
}

// missLog notes a log that should have been read.
func (d *download) missLog(l *podLog, why string) {
	if why == forbidden {
		d.unseen.add(l.what(), l.name(), why, ruleOf("pods/log", "get"))
	} else {
		d.unseen.failed(l.what(), l.name(), why)
	}
}

// gates remember what need not be tried again. They are safe for concurrent use.
type gates struct {
	mu    sync.Mutex
	nodes map[string]int // failures without a success between them
	quiet int            // the same of all requests
}

// closed returns why a log is not requested, or "" if it is.
func (g *gates) closed(l *podLog) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[l.Node] >= nodeTries {
		return "other logs of node " + l.Node + " cannot be read either"
	}
	return ""
}

// passed notes the outcome of a request.
func (g *gates) passed(l *podLog, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes == nil {
		g.nodes = map[string]int{}
	}
	code := kube.Code(err)
	switch {
	case errors.Is(err, errQuiet):
		g.quiet++
		g.nodes[l.Node]++
	case code >= http.StatusInternalServerError:
		g.nodes[l.Node]++
	case code != 0 || err == nil:
		g.quiet = 0
		delete(g.nodes, l.Node)
	}
}

// hung reports whether nothing was answered for so long that nothing will be.
func (g *gates) hung() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.quiet >= 2*atOnce
}
