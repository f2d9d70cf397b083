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

	"crowsnest/internal/kube"
	"crowsnest/internal/pause"
	"crowsnest/sources/kubernetes"
)

const (
	// quietFor is the time without data after which a request for a log fails. A working kubelet sends without pause,
	// because the requests do not follow the logs.
	quietFor = 20 * time.Second
	// leastShare is the number of bytes that are read of every log, even if MaxBytes is small.
	leastShare = 256 << 10
	// triesFor is the maximum duration of a failed request that is repeated. A request that takes longer to fail
	// probably fails again.
	triesFor = 5 * time.Second
	// nodeTries is the number of consecutive failed logs of a node after which no further log of the node is requested.
	nodeTries = 2
)

var (
	errQuiet  = fmt.Errorf("no answer for %v", quietFor)
	errEnded  = errors.New("the download ended before these were read")
	errBroken = errors.New("the log broke off")
)

type podLog struct {
	kubernetes.RecordedContainer

	previous bool
	copied   kubernetes.CopiedLog
}

func (l *podLog) folder() string {
	return filepath.Join(l.Namespace+"_"+l.Pod+"_"+l.UID, l.Container)
}

func (l *podLog) file() string {
	if l.previous {
		return strconv.Itoa(max(l.Restarts, 1)-1) + ".log"
	}
	if l.Previous {
		return strconv.Itoa(max(l.Restarts, 1)) + ".log"
	}
	return strconv.Itoa(l.Restarts) + ".log"
}

func (l *podLog) name() string { return l.Namespace + "/" + l.Pod + "/" + l.Container }

// logKind returns the kind of the log in the list of data that were not read.
func (l *podLog) logKind() string {
	if l.previous {
		return "logs of previous instances of"
	}
	return "logs of"
}

func (d *download) addLogs(c kubernetes.RecordedContainer) {
	current := &podLog{RecordedContainer: c}
	for _, part := range []string{c.Namespace, c.Pod, c.UID, c.Container} {
		if part == "" || strings.ContainsAny(part, "/_\\\x00") || part == "." || part == ".." {
			d.unseen.addOptional("logs of", fmt.Sprintf("%q", current.name()), "this is not the name of a container", "")
			return
		}
	}
	if c.Labels["app"] == "crowsnest" {
		d.unseen.addOptional("logs of", current.name(), "crowsnest repeats lines of others in its own", "")
		return
	}
	if c.Previous && c.EndedAt.After(d.Since) {
		if c.Restarts > 1 && c.StartedAt.After(d.Since) {
			d.unseen.addOptional("logs of older instances of", current.name(), "the API has those of the newest two", "")
		}
		d.logs = append(d.logs, &podLog{RecordedContainer: c, previous: true})
	}
	if c.Log {
		d.logs = append(d.logs, current)
	}
}

// readLogs first reads the start of every log, which is the whole of most logs. It shares the rest of MaxBytes equally
// among the remaining logs, and reads their newest lines.
func (d *download) readLogs(ctx context.Context) {
	d.Progress.AllLogs.Store(int64(len(d.logs)))
	slices.SortStableFunc(d.logs, func(a, b *podLog) int { return cmp.Compare(a.name(), b.name()) })
	start := max(d.MaxBytes/int64(4*max(1, len(d.logs))), leastShare)
	runConcurrently(len(d.logs), func(i int) { d.readLog(ctx, d.logs[i], start, 0) })
	left := d.MaxBytes
	var long []*podLog
	for _, l := range d.logs {
		if left -= l.copied.Bytes; l.copied.Full {
			long = append(long, l)
		}
	}
	share := max(left/int64(max(1, len(long))), leastShare)
	runConcurrently(len(long), func(i int) { d.readNewest(ctx, long[i], share) })
}

// readNewest reads the newest lines of a log, approximately share bytes. The API can only limit the number of lines, so
// readNewest estimates this number from the size of the lines at the start of the log.
func (d *download) readNewest(ctx context.Context, l *podLog, share int64) {
	const advice = "the logs have more than --max-bytes; raise it, or use a shorter --since or fewer namespaces"
	most := share + share/4
	tail := max(1, share*l.copied.Lines/max(1, l.copied.Bytes))
	ok := d.readLog(ctx, l, most, tail)
	if ok && l.copied.Full { // the newest lines are longer than estimated, so fewer of them are read
		tail = max(1, min(tail, l.copied.Lines)/2)
		ok = d.readLog(ctx, l, most, tail)
	}
	switch {
	case !ok: // the reason is already in NotSeen
	case l.copied.Full:
		d.unseen.addFailed("newest lines of", l.name(), advice)
	case !d.Until.IsZero() && l.copied.FirstLineTime.IsZero():
		d.unseen.addFailed("lines before --until of", l.name(), advice)
	case l.copied.Lines >= tail:
		d.unseen.addOptional("older lines of", l.name(), advice, "")
	}
}

// readLog reads at most most bytes of one log and, if tail is not 0, at most tail lines. After an error that may be
// temporary, it repeats the request. It reports whether the log was read.
func (d *download) readLog(ctx context.Context, l *podLog, most, tail int64) bool {
	d.Progress.Bytes.Add(-l.copied.Bytes)
	if l.copied == (kubernetes.CopiedLog{}) {
		defer d.Progress.Logs.Add(1)
	}
	if ctx.Err() != nil {
		d.missLog(l, errEnded.Error())
		return false
	}
	if why := d.gates.whyClosed(l); why != "" {
		d.missLog(l, why)
		return false
	}
	began := time.Now()
	for try := 1; ; try++ {
		var err error
		l.copied, err = d.fetchLog(ctx, l, most, tail)
		if err == nil && l.copied.Message != "" {
			d.missLog(l, "the kubelet says: "+l.copied.Message)
		}
		if err == nil || ctx.Err() != nil || try == maxTries || time.Since(began) > triesFor || !isTemporary(err) || !pause.Sleep(ctx, retryDelay(err, try), nil) {
			d.gates.noteOutcome(l, err)
			d.noteUnread(ctx, l, err)
			return err == nil
		}
	}
}

func (d *download) fetchLog(ctx context.Context, l *podLog, most, tail int64) (kubernetes.CopiedLog, error) {
	q := url.Values{"container": {l.Container}, "timestamps": {"true"}}
	if l.previous {
		q.Set("previous", "true")
	}
	if tail > 0 {
		q.Set("tailLines", strconv.FormatInt(tail, 10))
	}
	if !d.Since.IsZero() { // the node computes the time from its own clock
		q.Set("sinceSeconds", strconv.Itoa(max(1, int(math.Ceil(d.Now.Sub(d.Since).Seconds())))))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(quietFor, func() { cancel(errQuiet) })
	defer quiet.Stop()
	body, err := d.Client.OpenLog(ctx, "/api/v1/namespaces/"+l.Namespace+"/pods/"+l.Pod+"/log", q)
	if err != nil {
		return kubernetes.CopiedLog{}, cmp.Or(context.Cause(ctx), err)
	}
	defer body.Close()
	folder := filepath.Join(d.Dir, "pods", l.folder())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return kubernetes.CopiedLog{}, &kubernetes.WriteError{Err: err}
	}
	f, err := os.OpenFile(filepath.Join(folder, l.file()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return kubernetes.CopiedLog{}, &kubernetes.WriteError{Err: err}
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

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// noteUnread records why a log, or the end of it, was not read, and whether the same failure affects other logs. It
// does nothing if err is nil.
func (d *download) noteUnread(ctx context.Context, l *podLog, err error) {
	switch code := kube.StatusCode(err); {
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
		d.unseen.addOptional(l.logKind(), l.name(), "the pod was deleted meanwhile", "")
	case code == http.StatusBadRequest && l.previous:
		d.unseen.addOptional(l.logKind(), l.name(), "the node no longer has them", "")
	case code == http.StatusBadRequest:
		d.unseen.addOptional(l.logKind(), l.name(), "the container has not started", "")
	case code == http.StatusUnauthorized, code == 0 && !errors.Is(err, errQuiet) && !errors.Is(err, errBroken):
		d.stop(explainError(err))
		d.missLog(l, errEnded.Error())
	case d.gates.isHung():
		d.stop(fmt.Errorf("the API server does not answer: %w", err))
		d.missLog(l, errEnded.Error())
	default:
		d.missLog(l, err.Error())
	}
}

func isWrite(err error) bool {
	_, ok := errors.AsType[*kubernetes.WriteError](err)
	return ok
}

func (d *download) missLog(l *podLog, why string) {
	if why == forbidden {
		d.unseen.addOptional(l.logKind(), l.name(), why, roleRule("pods/log", "get"))
	} else {
		d.unseen.addFailed(l.logKind(), l.name(), why)
	}
}

// gates count failed requests, so that further requests which would also fail are not made. They are safe for
// concurrent use.
type gates struct {
	mu    sync.Mutex
	nodes map[string]int // number of consecutive failures, by node
	quiet int            // number of consecutive requests without a response, for all nodes together
}

// whyClosed returns the reason why a log must not be requested. It returns "" if it may be requested.
func (g *gates) whyClosed(l *podLog) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[l.Node] >= nodeTries {
		return "other logs of node " + l.Node + " cannot be read either"
	}
	return ""
}

func (g *gates) noteOutcome(l *podLog, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes == nil {
		g.nodes = map[string]int{}
	}
	code := kube.StatusCode(err)
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

// isHung reports whether so many consecutive requests got no response that further requests would probably get none.
func (g *gates) isHung() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.quiet >= 2*atOnce
}
