package configmaps

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"crowsnest/internal/kube"
	"crowsnest/rules"
)

const (
	// maxConfigMaps is the number of ConfigMaps of one namespace that are read.
	maxConfigMaps = 50
	// changeBurst is the number of ConfigMaps that a namespace may change at once. After that, it may change one in
	// each interval. Each change makes every process load the rules again.
	changeBurst = 20
	changeEvery = 15 * time.Second
	// maxBytes is the maximum size of the packs of all namespaces together.
	maxBytes = 16 << 20
	// resync is the interval after which all ConfigMaps are read again. Content that had no room may have room then.
	resync = 10 * time.Minute
)

// Options are the dependencies of a Watcher.
type Options struct {
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Cluster is the name of the cluster of the ConfigMaps. Empty means that it is not known.
	Cluster string
	// Transport replaces the network in tests.
	Transport http.RoundTripper
	// WritesEvents reports whether this process may write Events now.
	WritesEvents func() bool
}

// Watcher watches the ConfigMaps and remembers their files. It is safe for concurrent use.
type Watcher struct {
	client *kube.Client
	watch  *kube.Watcher
	opt    Options
	listed chan struct{} // closed when the first list is complete

	mu         sync.Mutex
	namespaces map[string]*namespace
	version    uint64           // number of changes of what Files returns
	list       uint64           // number of the current list
	failure    string           // reason why the ConfigMaps cannot be read; empty if they can be read
	failedAt   time.Time        // start of the failure
	eventError string           // reason why the last Event could not be written; empty if it could
	events     map[string]int64 // number of written Events, by reason
}

// namespace holds the ConfigMaps of one namespace.
type namespace struct {
	maps    map[string]*configMap // ConfigMaps; the key is the name
	bytes   int                   // total size of the packs in maps, in bytes
	limiter *rate.Limiter         // limits how often their content changes
	ignored bool                  // whether there are more ConfigMaps than maxConfigMaps
	list    uint64                // newest list with more ConfigMaps of the namespace than maxConfigMaps
}

// configMap is one ConfigMap.
type configMap struct {
	object  objectMeta
	current *content // content that the loader gets; nil if it has not got any yet
	fresh   *content // newer content that waits until the rate of the namespace allows it; nil if there is none
	list    uint64   // number of the newest list that contained the ConfigMap
	report  report
}

// content is the content of one version of a ConfigMap.
type content struct {
	files  []rules.File // sorted by name
	unread string       // reason why the files were not read; empty if they were read
}

func (c *content) equal(o *content) bool {
	return o != nil && c.unread == o.unread && slices.EqualFunc(c.files, o.files, func(a, b rules.File) bool {
		return a.Name == b.Name && string(a.Data) == string(b.Data)
	})
}

// objectMeta is the metadata of a ConfigMap.
type objectMeta struct {
	Name      string    `json:"name"`
	Namespace string    `json:"namespace"`
	UID       string    `json:"uid"`
	Version   string    `json:"resourceVersion"`
	Created   time.Time `json:"creationTimestamp"`
}

// New returns a watcher. It does no I/O.
func New(cfg Settings, opt Options) *Watcher {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	w := &Watcher{
		client: kube.New(kube.Options{Kubeconfig: cfg.Kubeconfig, Transport: opt.Transport}), opt: opt, listed: make(chan struct{}),
		namespaces: map[string]*namespace{}, events: map[string]int64{reasonRefused: 0, reasonAccepted: 0},
	}
	w.watch = &kube.Watcher{
		Client: w.client, Path: "/api/v1/configmaps", Query: url.Values{"labelSelector": {cfg.Selector}},
		Clock: opt.Now, Handler: (*handler)(w), Resync: resync,
	}
	return w
}

// Run watches the ConfigMaps and writes Events until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var writing sync.WaitGroup
	writing.Go(func() { w.writeEvents(ctx) })
	w.watch.Run(ctx)
	writing.Wait()
	w.client.Close()
}

// Listed is closed when all ConfigMaps were read once.
func (w *Watcher) Listed() <-chan struct{} { return w.listed }

// IsListed reports whether all ConfigMaps were read once.
func (w *Watcher) IsListed() bool {
	select {
	case <-w.listed:
		return true
	default:
		return false
	}
}

// Failure returns the reason why the ConfigMaps cannot be read, and since when. It returns "" if they can be read.
func (w *Watcher) Failure() (why string, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failure, w.failedAt
}

// HasChanged reports whether Files would now return another result than the call that returned version.
func (w *Watcher) HasChanged(version uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.opt.Now()
	for c, n := range w.eachConfigMap() {
		if c.fresh != nil && n.limiter.TokensAt(now) >= 1 {
			return true
		}
	}
	return w.version != version
}

// Files returns the files of all ConfigMaps, the oldest ConfigMap first, and a number that increases with each change.
// Changes of a namespace beyond its rate are in the result of a later call.
func (w *Watcher) Files() (version uint64, files []rules.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.opt.Now()
	var all []*configMap
	for c, n := range w.eachConfigMap() {
		if c.fresh != nil && n.limiter.AllowN(now, 1) {
			c.current, c.fresh, c.report.judged = c.fresh, nil, false
			w.version++
		}
		if c.current != nil {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *configMap) int {
		return cmp.Or(a.object.Created.Compare(b.object.Created), cmp.Compare(a.object.Namespace, b.object.Namespace), cmp.Compare(a.object.Name, b.object.Name))
	})
	for _, c := range all {
		for _, f := range c.current.files {
			f.Unread, f.Cluster = c.current.unread, w.opt.Cluster
			files = append(files, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.namespaces)) {
		if w.namespaces[name].ignored {
			files = append(files, rules.File{
				Name: rules.OwnedPrefix + name + "/...", Namespace: name,
				Unread: fmt.Sprintf("namespace %s has more than %d ConfigMaps with rules, and the others are ignored; put several packs into one ConfigMap", name, maxConfigMaps),
			})
		}
	}
	return w.version, files
}

// eachConfigMap iterates over all ConfigMaps and their namespaces. The caller holds mu.
func (w *Watcher) eachConfigMap() iter.Seq2[*configMap, *namespace] {
	return func(yield func(*configMap, *namespace) bool) {
		for _, n := range w.namespaces {
			for _, c := range n.maps {
				if !yield(c, n) {
					return
				}
			}
		}
	}
}

// handler receives the ConfigMaps from the API server.
type handler Watcher

func (h *handler) lock() (w *Watcher, unlock func()) {
	w = (*Watcher)(h)
	w.mu.Lock()
	return w, w.mu.Unlock
}

func (h *handler) Listing() {
	w, unlock := h.lock()
	defer unlock()
	w.list++
}

func (h *handler) Listed(context.Context) {
	w, unlock := h.lock()
	defer unlock()
	for c := range w.eachConfigMap() {
		if c.list != w.list {
			w.remove(&c.object)
		}
	}
	for _, n := range w.namespaces {
		if n.ignored && n.list != w.list {
			n.ignored = false
			w.version++
		}
	}
	maps.DeleteFunc(w.namespaces, func(_ string, n *namespace) bool {
		return len(n.maps) == 0 && n.limiter.TokensAt(w.opt.Now()) >= changeBurst
	})
	if !w.IsListed() {
		w.version++
		close(w.listed)
	}
}

func (h *handler) Changed(object json.RawMessage) error {
	var in struct {
		Metadata objectMeta        `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	if err := json.Unmarshal(object, &in); err != nil {
		return fmt.Errorf("read a ConfigMap: %w", err)
	}
	w, unlock := h.lock()
	defer unlock()
	m := in.Metadata
	n := w.namespaces[m.Namespace]
	if n == nil {
		n = &namespace{maps: map[string]*configMap{}, limiter: rate.NewLimiter(rate.Every(changeEvery), changeBurst)}
		w.namespaces[m.Namespace] = n
	}
	c := n.maps[m.Name]
	if c == nil {
		if len(n.maps) >= maxConfigMaps {
			if n.list = w.list; !n.ignored {
				n.ignored = true
				w.version++
			}
			return nil
		}
		c = &configMap{}
		n.maps[m.Name] = c
	}
	if c.object.UID != m.UID {
		c.report = report{}
	}
	c.object, c.list = m, w.list
	fresh := w.readContent(&m, in.Data, n.bytes-c.size())
	n.bytes -= c.size()
	switch {
	case fresh.equal(c.current):
		c.fresh = nil
	case !w.IsListed(): // the first list is no change
		c.current, c.fresh = fresh, nil
	default:
		c.fresh = fresh
	}
	n.bytes += c.size()
	return nil
}

func (h *handler) Deleted(_ context.Context, object json.RawMessage) error {
	var in struct {
		Metadata objectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(object, &in); err != nil {
		return fmt.Errorf("read a deleted ConfigMap: %w", err)
	}
	w, unlock := h.lock()
	defer unlock()
	w.remove(&in.Metadata)
	return nil
}

func (h *handler) Passed() {
	w, unlock := h.lock()
	defer unlock()
	w.failure, w.failedAt = "", time.Time{}
}

func (h *handler) Failed(err error, lasting bool) {
	if !lasting {
		return
	}
	w, unlock := h.lock()
	defer unlock()
	if w.failedAt.IsZero() {
		w.failedAt = w.opt.Now()
	}
	w.failure = kube.ExplainError(err, "the service account may not read ConfigMaps: grant get, list and watch of configmaps in all namespaces", "the ConfigMaps with rules cannot be read")
}

// remove forgets a ConfigMap. The caller holds mu.
func (w *Watcher) remove(m *objectMeta) {
	n := w.namespaces[m.Namespace]
	if n == nil || n.maps[m.Name] == nil {
		return
	}
	c := n.maps[m.Name]
	n.bytes -= c.size()
	delete(n.maps, m.Name)
	if c.current != nil {
		w.version++
	}
}

// readContent returns the packs of a ConfigMap. If there is no room for them, the content has only their names. others
// is the size of the other packs of the namespace. The caller holds mu.
func (w *Watcher) readContent(m *objectMeta, data map[string]string, others int) *content {
	out := &content{}
	prefix := rules.OwnedPrefix + m.Namespace + "/" + m.Name
	size, total := 0, 0
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !strings.HasPrefix(key, ".") && (strings.HasSuffix(key, ".yaml") || strings.HasSuffix(key, ".yml")) {
			size += len(data[key])
			out.files = append(out.files, rules.File{Name: prefix + "/" + key, Namespace: m.Namespace, Data: []byte(data[key])})
		}
	}
	for _, n := range w.namespaces {
		total += n.bytes
	}
	switch {
	case len(out.files) == 0:
		out.files = []rules.File{{Name: prefix, Namespace: m.Namespace}}
		out.unread = "the ConfigMap has no key that ends in .yaml; name a key such as rules.yaml"
	case len(out.files) > rules.MaxOwnedFiles:
		out.files = out.files[:1]
		out.unread = fmt.Sprintf("the ConfigMap has more than %d packs; put several rules into one pack", rules.MaxOwnedFiles)
	case size+others > rules.MaxOwnedBytes:
		out.unread = fmt.Sprintf("with this ConfigMap of %d KiB, the packs of namespace %s have more than %d KiB; remove rules or tests", size>>10, m.Namespace, rules.MaxOwnedBytes>>10)
	case size+total > maxBytes:
		out.unread = fmt.Sprintf("the packs of all namespaces have more than %d MiB together; remove rules or tests", maxBytes>>20)
	}
	if out.unread != "" {
		for i := range out.files {
			out.files[i].Data = nil
		}
	}
	return out
}

// size returns the size of the packs that are kept, in bytes.
func (c *configMap) size() (n int) {
	for _, x := range []*content{c.current, c.fresh} {
		if x != nil {
			for _, f := range x.files {
				n += len(f.Data)
			}
		}
	}
	return n
}
