package kubelab

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Kubelet serves the logs of containers over HTTPS like the kubelet of a node:
// /containerLogs/NAMESPACE/POD/CONTAINER with follow, previous, timestamps,
// sinceTime, sinceSeconds, tailLines and limitBytes. It is safe for concurrent
// use.
type Kubelet struct {
	dir string
	srv *httptest.Server

	mu         sync.Mutex
	containers map[string]*Container
	requests   []string
	broken     int // status code of every answer; 0: none
}

// NewKubelet returns a kubelet that ends with the test.
func NewKubelet(t testing.TB) *Kubelet {
	t.Helper()
	k := &Kubelet{dir: t.TempDir(), containers: map[string]*Container{}}
	k.srv = httptest.NewUnstartedServer(k)
	k.srv.StartTLS()
	t.Cleanup(func() {
		k.srv.CloseClientConnections()
		k.srv.Close()
	})
	return k
}

// Port returns the port of the kubelet on 127.0.0.1.
func (k *Kubelet) Port() int { return k.srv.Listener.Addr().(*net.TCPAddr).Port }

// Requests returns the queries of all requests for logs, in order.
func (k *Kubelet) Requests() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]string(nil), k.requests...)
}

// Break answers all further requests with this status; 0 ends it.
func (k *Kubelet) Break(code int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = code
}

// ServeHTTP answers one request for a log.
func (k *Kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ns, pod, name string
	if n, _ := fmt.Sscanf(splitPath(r.URL.Path), "/containerLogs %s %s %s", &ns, &pod, &name); n != 3 {
		http.NotFound(w, r)
		return
	}
	k.mu.Lock()
	k.requests = append(k.requests, r.URL.RawQuery)
	c, broken := k.containers[key(ns, pod, name)], k.broken
	k.mu.Unlock()
	switch {
	case broken != 0:
		http.Error(w, "broken by the test", broken)
	case c == nil:
		http.Error(w, fmt.Sprintf("container %q in pod %q is waiting to start: ContainerCreating", name, pod), http.StatusBadRequest)
	default:
		c.serve(w, r)
	}
}

// splitPath separates the words for Sscanf by spaces.
func splitPath(path string) string {
	b := []byte(path)
	for i := 1; i < len(b); i++ {
		if b[i] == '/' {
			b[i] = ' '
		}
	}
	return string(b)
}

func key(ns, pod, container string) string { return ns + "/" + pod + "/" + container }

// Start starts the first or next instance of a container, with a new log.
func (k *Kubelet) Start(ns, pod, container string) *Container {
	k.mu.Lock()
	c := k.containers[key(ns, pod, container)]
	if c == nil {
		c = &Container{dir: filepath.Join(k.dir, ns+"_"+pod+"_uid", container), n: -1}
		k.containers[key(ns, pod, container)] = c
	}
	k.mu.Unlock()
	c.next()
	return c
}

// Forget removes a container and its logs, as when its pod is deleted.
func (k *Kubelet) Forget(ns, pod, container string) {
	k.mu.Lock()
	c := k.containers[key(ns, pod, container)]
	delete(k.containers, key(ns, pod, container))
	k.mu.Unlock()
	if c != nil {
		c.Exit()
		_ = os.RemoveAll(c.dir)
	}
}

// Container writes the logs of the successive instances of a container. It is
// safe for concurrent use. It panics on write errors, because it is for tests.
type Container struct {
	dir string

	mu      sync.Mutex
	n       int // of the newest instance, from 0
	running bool
	f       *os.File
	rotated int
	hangs   bool
}

func (c *Container) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.f != nil {
		c.f.Close()
	}
	c.n++
	c.running = true
	must(os.MkdirAll(c.dir, 0o755))
	c.f = create(c.path(c.n))
}

func (c *Container) path(n int) string { return filepath.Join(c.dir, strconv.Itoa(n)+".log") }

// Hang makes further answers wait behind what was written, for as long as the client does.
func (c *Container) Hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = true
}

func (c *Container) hanging() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hangs
}

// Restarts returns the number of the instance, from 0.
func (c *Container) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Log writes a line with its time.
func (c *Container) Log(at time.Time, line string) { c.write(at, "stderr", "F", line) }

// Stdout writes a line with its time to stdout.
func (c *Container) Stdout(at time.Time, line string) { c.write(at, "stdout", "F", line) }

// Part writes a partial line.
func (c *Container) Part(at time.Time, part string) { c.write(at, "stderr", "P", part) }

func (c *Container) write(at time.Time, stream, tag, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.f.WriteString(at.UTC().Format(stampForm) + " " + stream + " " + tag + " " + text + "\n")
	must(err)
}

// Exit ends the running instance.
func (c *Container) Exit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

// Rotate renames the file and creates a new one, like the kubelet and the
// runtime.
func (c *Container) Rotate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rotated++
	must(os.Rename(c.path(c.n), fmt.Sprintf("%s.20261120-%06d", c.path(c.n), c.rotated)))
	old := c.f
	c.f = create(c.path(c.n))
	old.Close()
}

// instance returns the newest instance and whether it is running.
func (c *Container) instance() (n int, running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.running
}

func create(path string) *os.File {
	f, err := os.Create(path)
	must(err)
	return f
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
