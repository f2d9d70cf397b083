package tail

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubesim"
)

// hangs blocks operations on some paths until the channel is closed.
type hangs struct {
	mu    sync.Mutex
	paths map[string]bool
	until chan struct{}
}

func newHangs() *hangs { return &hangs{paths: map[string]bool{}, until: make(chan struct{})} }

func (h *hangs) add(op, path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paths[op+" "+path] = true
}

func (h *hangs) fault(op, path string) error {
	h.mu.Lock()
	hang := h.paths[op+" "+path]
	h.mu.Unlock()
	if hang {
		<-h.until
	}
	return nil
}

// Any number of hung operations up to the bound stops no other log. A hung log is
// reported, has a watermark of its own, and is read once its operation returns.
func TestHungReadsStopNoOtherLog(t *testing.T) {
	for _, op := range []string{"open", "read", "list"} {
		for _, many := range []int{1, 2, 20} {
			t.Run(fmt.Sprint(many, op), func(t *testing.T) {
				bubble(t, podFinder, func(t *testing.T, l *lab) {
					h := newHangs()
					l.cfg.fault = h.fault
					var good []*kubesim.Container
					var hung, fine numbered
					for i := range many + 20 {
						c := kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprint("pod-", i)})
						t.Cleanup(c.Close)
						if i < many {
							several(c, &hung, 3)
							if op == "list" {
								h.add(op, filepath.Dir(c.Path()))
							} else {
								h.add(op, c.Path())
							}
							continue
						}
						good = append(good, c)
					}
					l.start(nil)
					wait(time.Duration(many/2+2) * time.Second) // two workers are replaced at a time
					for _, c := range good {
						several(c, &fine, 2)
					}
					wait(time.Second)
					require.ElementsMatch(t, fine.want, l.pipe.taken())
					require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
					require.Len(t, l.pipe.lag(), many)
					for _, readUpTo := range l.pipe.lag() {
						require.Zero(t, readUpTo)
					}
					st := l.tailer.Status()
					require.Len(t, st.Unread, many)
					require.Equal(t, int64(many), st.Errors["hung"])
					close(h.until)
					wait(3 * time.Second)
					require.ElementsMatch(t, append(fine.want, hung.want...), l.pipe.taken())
					require.Empty(t, l.tailer.Status().Unread)
					require.Empty(t, l.pipe.lag())
					require.WithinDuration(t, time.Now(), l.pipe.watermarkAt(), time.Second)
					l.stop()
					require.Equal(t, workers+2, l.tailer.gunzips.Free())
				})
			})
		}
	}
}

// A listing of the root that hangs stops no known log, and stopping does not wait for
// hung operations.
func TestStopWithHungOperations(t *testing.T) {
	bubble(t, podFinder, func(t *testing.T, l *lab) {
		h := newHangs()
		l.cfg.fault = h.fault
		var seq numbered
		var cs []*kubesim.Container
		for i := range 5 {
			cs = append(cs, kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: fmt.Sprint("pod-", i)}))
			t.Cleanup(cs[i].Close)
		}
		l.start(nil)
		wait(3 * time.Second)
		h.add("list", l.finder.Root)
		h.add("read", cs[0].Path())
		kubesim.New(kubesim.Options{Root: l.finder.Root, Pod: "new"}).Close()
		cs[0].Write("stdout", "text that hangs")
		wait(3 * time.Second)
		at := l.pipe.watermarkAt()
		for range 20 {
			several(cs[1], &seq, 1)
			wait(time.Second)
		}
		requireLines(t, seq.want, l.pipe.taken())
		require.Equal(t, at, l.pipe.watermarkAt())
		require.Len(t, l.tailer.Status().Unread, 2)
		began := time.Now()
		stopped := l.tailer.files.Load()
		require.Positive(t, stopped)
		l.abandon()
		require.Less(t, time.Since(began), time.Second)
		saved := l.tailer.Positions()
		require.Contains(t, string(saved), "pod-0")
		close(h.until) // the goroutines end late and pass on nothing
		wait(time.Second)
		requireLines(t, seq.want, l.pipe.taken())
		require.JSONEq(t, string(saved), string(l.tailer.Positions()))
		require.LessOrEqual(t, l.tailer.files.Load(), int64(1))
	})
}
