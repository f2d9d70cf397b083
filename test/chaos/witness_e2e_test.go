//go:build e2e

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/fakeam"
	"crowsnest/test/journald"
	"crowsnest/test/kubelab"
	"crowsnest/test/kubesim"
	"crowsnest/test/wait"
)

// witness is a scene in which every source says something: pod logs, a real journal, and
// the Events and the objects of a real API server. Failures begin in one source and end
// in another.
type witness struct {
	*scene
	lab   *kubelab.Lab
	toAPI *kubelab.Proxy
	token string // file
	pod   *kubesim.Container
	unit  *journald.Server

	api     sync.RWMutex // writers hold it for reading; it is locked while the API server is away
	podLock sync.Mutex
	journal sync.Mutex
}

// A place is a source of the witness that can say that something is lost, or taken.
const (
	inPod    = "Pod"
	inUnit   = "Unit"
	inEvent  = "Event"
	inObject = "Object"
)

// selectors select the streams of a place.
var selectors = map[string]string{
	inPod: `{container="witness"}`, inUnit: `{identifier="witness"}`, inEvent: `{component="events"}`, inObject: `{component="conditions"}`,
}

// saysIn returns the keys of a matcher of what a place says about the ids of a way.
func saysIn(place, word string, way [2]string) string {
	id := `(?P<id>` + strings.ToLower(way[0]+"To"+way[1]) + `-[0-9]+)`
	if place == inObject {
		status := map[string]string{"lost": "False", "taken": "True"}[word]
		return `contains: 'msg="condition" type=Ready status=` + status + `', regex: 'object=` + id + `', field: {kind: Node}`
	}
	return `regex: 'witness ` + word + ` id=` + id + `;'`
}

// ways are the places where a failure begins and where it ends. A state that holds is
// said again, so what an object says, only that object ends.
var ways = [][2]string{
	{inPod, inUnit},
	{inPod, inEvent},
	{inPod, inObject},
	{inUnit, inPod},
	{inUnit, inUnit},
	{inUnit, inEvent},
	{inUnit, inObject},
	{inEvent, inPod},
	{inEvent, inUnit},
	{inEvent, inEvent},
	{inEvent, inObject},
	{inObject, inObject},
}

// witnessPack has one rule for each way, and two that count all lines of a place.
func witnessPack() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pack: {name: witness, version: \"1.0.0\", rules: %d}\ndefaults: {severity: warning, origin: any}\nrules:\n", len(ways)+2)
	for _, w := range ways {
		fmt.Fprintf(&b, "- alert: %sTo%s\n  from: '%s'\n  match: {%s}\n  clear: {from: '%s', %s}\n  for: 2s\n  by: [id]\n  limit: 10000\n",
			w[0], w[1], selectors[w[0]], saysIn(w[0], "lost", w), selectors[w[1]], saysIn(w[1], "taken", w))
	}
	for _, place := range []string{inUnit, inEvent} {
		fmt.Fprintf(&b, "- alert: %sLines\n  from: '%s'\n  match: {regex: 'witness [a-z]+ id=[a-z0-9-]+; of=(?P<id>all)'}\n  by: [id]\n  keep_firing_for: 1h\n  annotations: {lines: \"{{ $value }}\"}\n",
			place, selectors[place])
	}
	return b.String()
}

func newWitness(t *testing.T, seed uint64) *witness {
	t.Helper()
	w := &witness{lab: kubelab.Start(t)}
	w.unit = journald.Start(t, journald.Options{Config: []string{"SystemMaxFileSize=600K", "SystemMaxUse=4G", "SystemKeepFree=1M", "SystemMaxFiles=1000"}})
	w.toAPI = kubelab.NewProxy(t, w.lab.Port)
	w.lab.Namespace("witness")
	w.grant()
	config := w.lab.Kubeconfig(w.toAPI.URL(), w.lab.Token("witness", "crowsnest"))
	w.token = filepath.Join(filepath.Dir(config), "token")
	// The heartbeat ends after four resends, and a process sends it once it knows which sources it can read, at most 15 s
	// after its start: that takes long while the API server starts again, and the next kill may come before.
	w.scene = newScene(t, seed, options{
		writers: 2, load: kubeletLoad(18 * time.Second), pager: true, resend: 15 * time.Second,
		packs: map[string]string{"witness.yaml": witnessPack()},
		sources: fmt.Sprintf("  journal: {dirs: [%q]}\n  events: {kubeconfig: %q, look_back: 1h}\n  objects: {kubeconfig: %q, kinds: [nodes]}\n",
			filepath.Dir(w.unit.Dir), config, config),
	})
	w.pod = kubesim.New(kubesim.Options{Root: w.pods, Namespace: "witness", Pod: "w", Container: "witness", UID: "6b1c9b5e-0000-4000-8000-0000000000ff"})
	t.Cleanup(w.pod.Close)
	return w
}

func (w *witness) grant() {
	w.lab.ServiceAccount("witness", "crowsnest")
	w.lab.Grant("witness", "crowsnest", "",
		kubelab.Rule{Groups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}},
		kubelab.Rule{Groups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
}

// say writes a line in a place and returns its time, which is exact for pods and Events.
func (w *witness) say(place, word, id string) (time.Time, error) {
	text := fmt.Sprintf("witness %s id=%s; of=all", word, id)
	now := time.Now()
	switch place {
	case inPod:
		w.podLock.Lock()
		defer w.podLock.Unlock()
		now, _ = time.Parse(time.RFC3339Nano, w.pod.Stamp())
		w.pod.Raw(now.UTC().Format(time.RFC3339Nano) + " stdout F " + text + "\n")
		return now, w.pod.Err
	case inUnit:
		w.journal.Lock()
		defer w.journal.Unlock()
		err := w.unit.Send(journald.Field{Name: "MESSAGE", Value: text}, journald.Field{Name: "SYSLOG_IDENTIFIER", Value: "witness"})
		w.led.count("UnitLines all", plant{first: now, last: now, slack: 2 * time.Second})
		return now, err
	case inEvent:
		now = now.Truncate(time.Microsecond)
		w.led.count("EventLines all", plant{first: now, last: now, slack: time.Second})
		return now, w.request(http.MethodPost, "/apis/events.k8s.io/v1/namespaces/witness/events", kubelab.Object{
			"metadata":  kubelab.Object{"namespace": "witness", "name": id + "-" + word},
			"eventTime": now.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), "type": "Warning", "reason": "Witness", "action": "Say",
			"regarding":           kubelab.Object{"kind": "Pod", "namespace": "witness", "name": id},
			"reportingController": "witness", "reportingInstance": "w", "note": text,
		})
	}
	status := kubelab.Object{"conditions": []kubelab.Object{{
		"type": "Ready", "reason": "Witness", "status": map[string]string{"lost": "False", "taken": "True"}[word],
		"lastTransitionTime": now.UTC().Format(time.RFC3339), "lastHeartbeatTime": now.UTC().Format(time.RFC3339),
	}}}
	if code, _ := w.lab.Try(http.MethodGet, "/api/v1/nodes/"+id, nil); code == http.StatusOK {
		return now, w.request(http.MethodPatch, "/api/v1/nodes/"+id+"/status", kubelab.Object{"status": status})
	}
	return now, w.request(http.MethodPost, "/api/v1/nodes", kubelab.Object{"metadata": kubelab.Object{"name": id}, "status": status})
}

// request sends a request to the API, which must succeed.
func (w *witness) request(method, path string, in any) error {
	code, text := w.lab.Try(method, path, in)
	if code/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, code, text)
	}
	return nil
}

// slackOf is how much later than the cause the time of a line may be: journald notes when it
// received an entry, and a state has the time at which it was proved.
func slackOf(place string) time.Duration {
	switch place {
	case inUnit:
		return time.Second
	case inObject:
		return 40 * time.Second
	}
	return 0
}

// failures lets failures begin and end on one way, until ctx ends and the last one that
// ends has ended. Some end before they can fire, some later, some never.
func (w *witness) failures(ctx context.Context, way [2]string, seed uint64, every time.Duration) error {
	f := &failing{witness: w, from: way[0], to: way[1], rng: rand.New(rand.NewPCG(seed, 7))}
	for ctx.Err() == nil || len(f.later) > 0 {
		if ctx.Err() == nil {
			if err := f.begin(); err != nil {
				return err
			}
		}
		if err := f.end(); err != nil {
			return err
		}
		wait.Pause(context.Background(), every/2+upTo(f.rng, every))
	}
	return nil
}

// failing is one way of a witness with the failures that are yet to end.
type failing struct {
	*witness
	from, to string
	rng      *rand.Rand
	n        int
	later    []recovery
}

func (f *failing) alert() string { return f.from + "To" + f.to }

// begin begins a failure, and ends some at once.
func (f *failing) begin() error {
	f.n++
	id := fmt.Sprintf("%s-%d", strings.ToLower(f.alert()), f.n)
	kind := f.rng.IntN(3)
	if kind == 0 && f.to == inObject { // a state is proved later than it began
		kind = 1
	}
	f.api.RLock()
	defer f.api.RUnlock()
	at, err := f.say(f.from, "lost", id)
	if err != nil {
		return err
	}
	f.led.plant(f.alert(), id, plant{first: at, last: at, never: kind == 0, slack: max(slackOf(f.from), slackOf(f.to))})
	switch kind {
	case 0:
		wait.Pause(context.Background(), 200*time.Millisecond)
		_, err = f.say(f.to, "taken", id)
	case 1:
		f.later = append(f.later, recovery{at: time.Now().Add(18 * time.Second), id: id})
	}
	return err
}

// end ends the failures that are due. The API keeps only the newest state of an object:
// a former one that nobody could read, because the API was away, is not told.
func (f *failing) end() error {
	for len(f.later) > 0 && time.Now().After(f.later[0].at) {
		switch {
		case f.from != inObject || f.told(f.later[0].id):
		case time.Since(f.later[0].at) > 3*time.Minute:
			return fmt.Errorf("%s %s did not fire", f.alert(), f.later[0].id)
		default:
			return nil
		}
		f.api.RLock()
		at, err := f.say(f.to, "taken", f.later[0].id)
		f.api.RUnlock()
		if err != nil {
			return err
		}
		f.led.recover(f.alert(), f.later[0].id, at)
		f.later = f.later[1:]
	}
	return nil
}

func (f *failing) told(id string) bool {
	return slices.ContainsFunc(f.good.AM.Accepted(f.alert()), func(a fakeam.Accepted) bool { return a.Alert.Labels["id"] == id })
}

// step executes a step of the plan.
func (w *witness) step(st step) {
	switch st.kind {
	case "api":
		w.api.Lock()
		defer w.api.Unlock()
		w.lab.StopAPI()
		pause(st.down)
		w.lab.StartAPI()
	case "watch":
		w.breakWatch(st)
	case "journal":
		w.journal.Lock()
		defer w.journal.Unlock()
		if st.which%3 > 0 {
			w.unit.Rotate()
			return
		}
		w.unit.Sync() // what it received is in its files
		w.unit.Kill()
		w.unit.Launch()
	default:
		w.do(st)
	}
}

// breakWatch breaks the connection to the API, or what is needed to continue on it.
func (w *witness) breakWatch(st step) {
	switch st.which % 4 {
	case 0:
		w.toAPI.Cut()
	case 1: // the version that was read is too old
		w.toAPI.Down(true)
		pause(st.down)
		w.lab.Compact()
		w.toAPI.Down(false)
	case 2:
		w.toAPI.Hang(true)
		pause(st.down)
		w.toAPI.Hang(false)
	case 3: // the token ends, and is replaced
		w.api.Lock()
		defer w.api.Unlock()
		w.lab.Do(http.MethodDelete, "/api/v1/namespaces/witness/serviceaccounts/crowsnest", nil)
		w.lab.StopAPI() // it remembers tokens
		w.lab.StartAPI()
		pause(st.down)
		w.lab.ServiceAccount("witness", "crowsnest")
		require.NoError(w.t, os.WriteFile(w.token, []byte(w.lab.Token("witness", "crowsnest")), 0o600))
	}
}

// Pod logs, a journal, Events and objects are read at once, while everything fails: the
// daemon, journald, the API server, the connection to it and the token. Each line is
// counted once, and each failure that begins in one source and ends in another is told
// as it was.
func TestWitnessKilled(t *testing.T) {
	m := mix{
		kill: 9, term: 3, stop: 2, rotate: 4, restart: 1, peer: 3, api: 3, watch: 6, journal: 9,
		gap: 2 * time.Second, down: 4 * time.Second,
	}
	if long {
		m = mix{
			kill: 100, term: 10, stop: 5, rotate: 25, restart: 4, peer: 15, hup: 5, api: 12, watch: 30, journal: 60,
			gap: 2 * time.Second, down: 6 * time.Second,
		}
	}
	n := seed(t)
	w := newWitness(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := make(chan error, len(ways))
	for i, way := range ways {
		go func() { errs <- w.failures(ctx, way, n*100+uint64(i), 2*time.Second) }()
	}
	w.p.start()
	w.p.ready()
	for i, st := range m.plan(n) {
		pause(st.after)
		t.Logf("%s step %d: %v", stamp(time.Now()), i, st)
		w.step(st)
	}
	w.p.ready()
	cancel()
	for range ways {
		require.NoError(t, <-errs)
	}
	good, bad := w.settle(120*time.Second, nil)
	w.judge(good, bad, nil)
	w.report(good, bad)
	t.Logf("lines counted: %v", w.led.lines)
	for _, way := range ways {
		t.Logf("latency of %sTo%s: %s", way[0], way[1], percentiles(w.latency(way[0]+"To"+way[1]+" ", good)))
	}
}

// latency returns the sorted times from a line to the accepted alert on one way. They
// contain the 2 s for which the rule waits.
func (w *witness) latency(prefix string, got map[string]*heard) (out []time.Duration) {
	for key, p := range w.led.plants {
		if h := got[key]; strings.HasPrefix(key, prefix) && h != nil && !h.firing.IsZero() {
			out = append(out, h.firing.Sub(p.first))
		}
	}
	slices.Sort(out)
	return out
}
