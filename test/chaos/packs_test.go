package chaos

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/rules"
	"crowsnest/test/daemon"
	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
	"crowsnest/test/wait"
)

// packFiles is how many packs the artifact has. They belong together.
const packFiles = 3

// Where a kill strikes while a new version is fetched and installed: at a request to
// the registry, or at a change of a file in the folder of the copy.
type strike struct {
	name    string
	request *regexp.Regexp // method and path
	nth     int            // of the requests that match; 0: the first
	op      fsnotify.Op
	file    string
}

var strikes = []strike{
	{name: "resolves the tag", request: regexp.MustCompile(`^HEAD .*/manifests/stable$`)},
	{name: "reads the manifest", request: regexp.MustCompile(`^GET .*/manifests/sha256:`)},
	{name: "looks for signatures", request: regexp.MustCompile(`^GET .*/referrers/|/manifests/sha256-`)},
	{name: "reads the first file", request: regexp.MustCompile(`^GET .*/blobs/`)},
	{name: "reads the second file", request: regexp.MustCompile(`^GET .*/blobs/`), nth: 1},
	{name: "reads the third file", request: regexp.MustCompile(`^GET .*/blobs/`), nth: 2},
	{name: "creates the new copy", op: fsnotify.Create, file: "state.tmp"},
	{name: "writes the new copy", op: fsnotify.Write, file: "state.tmp"},
	{name: "keeps the previous copy", op: fsnotify.Create, file: "state.prev"},
	{name: "replaces the copy", op: fsnotify.Create, file: "state"},
}

// A kill while an artifact is fetched and installed leaves the previous version in force
// or the new one, whole, also while the registry is down; afterwards the new one is
// installed.
func TestKillsDuringFetchOfPacks(t *testing.T) {
	t.Parallel()
	for _, k := range strikes {
		t.Run(strings.ReplaceAll(k.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			s := newPackScene(t)
			s.publish(1)
			s.start(10 * time.Second)
			s.inForce("version 1", 1)
			s.publish(2)
			killed := s.killAt(k)
			s.configure(11 * time.Second) // a changed entry is visited at once
			s.d.Signal(syscall.SIGHUP)
			select {
			case <-killed:
			case <-time.After(time.Minute):
				require.Fail(t, "the kill did not strike", s.d.LogEnd())
			}
			_, err := s.d.End(syscall.SIGKILL)
			require.Error(t, err)

			s.registry.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "down", http.StatusServiceUnavailable)
				return true
			})
			s.start(10 * time.Second)
			s.inForce("one of the two versions", 1, 2)
			s.registry.Instead(nil)
			s.configure(11 * time.Second)
			s.d.Signal(syscall.SIGHUP)
			s.inForce("version 2", 2)
		})
	}
}

// packScene is a daemon whose rules are in a registry.
type packScene struct {
	t        *testing.T
	d        *daemon.Daemon
	registry *packregistry.Registry
	key      packregistry.Key
}

func newPackScene(t *testing.T) *packScene {
	addr, err := daemon.FreeAddr()
	require.NoError(t, err)
	s := &packScene{t: t, registry: packregistry.Start(t), key: packregistry.NewKey(t), d: &daemon.Daemon{Binary: binary, Dir: folder(t), Addr: addr}}
	require.NoError(t, os.Mkdir(filepath.Join(s.d.Dir, "pods"), 0o755))
	s.d.Prepare = func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+s.d.Dir) }
	t.Cleanup(func() { _, _ = s.d.End(syscall.SIGKILL) })
	return s
}

// publish publishes a version. Every rule has its number in its name.
func (s *packScene) publish(version int) {
	s.t.Helper()
	var files []rules.File
	for i := range packFiles {
		pack := rulefolder.Pack(fmt.Sprintf("p%d", i), fmt.Sprintf("Rule%dOfVersion%d", i, version), fmt.Sprintf("failure %d of %d", i, version))
		padding := strings.Repeat("# a comment that makes the file longer\n", 5000)
		files = append(files, rules.File{Name: fmt.Sprintf("p%d.yaml", i), Data: []byte(pack + padding)})
	}
	a, err := artifact.New(files, artifact.Info{Title: "packs", Version: fmt.Sprintf("1.%d.0", version)})
	require.NoError(s.t, err)
	ref, err := artifact.ParseReference(s.registry.Host + "/team/packs:" + a.Version)
	require.NoError(s.t, err)
	r, err := artifact.Open(ref, artifact.Options{PlainHTTP: true})
	require.NoError(s.t, err)
	defer r.Close()
	require.NoError(s.t, r.Push(s.t.Context(), a))
	require.NoError(s.t, r.Sign(s.t.Context(), a, s.key.PrivateKey))
	require.NoError(s.t, r.Push(s.t.Context(), a, "stable"))
}

func (s *packScene) configure(interval time.Duration) {
	s.t.Helper()
	require.NoError(s.t, s.d.Configure(fmt.Sprintf(`
rules:
  artifacts: [{reference: "%s/team/packs:stable", public_key_file: %q, plain_http: true, interval: %s}]
sources: {kubelet: {dir: %q}}
sinks: {stdout: {format: json}}
`, s.registry.Host, s.key.Public, interval, filepath.Join(s.d.Dir, "pods"))))
}

func (s *packScene) start(interval time.Duration) {
	s.t.Helper()
	s.configure(interval)
	require.NoError(s.t, s.d.Start())
	require.NoError(s.t, s.d.Ready(s.t.Context(), time.Minute))
}

var versionOfRule = regexp.MustCompile(`Rule(\d)OfVersion(\d)`)

// inForce waits until one of the versions is in force. The rules of two versions must
// never be in force together.
func (s *packScene) inForce(what string, versions ...int) {
	s.t.Helper()
	err := wait.NoError(s.t.Context(), time.Minute, func() error {
		body, err := s.d.Get(s.t.Context(), "/api/v1/rules")
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		number := ""
		for _, m := range versionOfRule.FindAllStringSubmatch(body, -1) {
			require.True(s.t, number == "" || number == m[2], "rules of two versions are in force: %s", body)
			seen[m[1]], number = true, m[2]
		}
		if len(seen) == packFiles && slices.Contains(versions, int(number[0]-'0')) {
			return nil
		}
		return fmt.Errorf("%d rules of version %q are in force", len(seen), number)
	})
	require.NoError(s.t, err, "%s\n%s", what, s.d.LogEnd())
}

// killAt kills the daemon at a point; the channel is closed then.
func (s *packScene) killAt(k strike) <-chan struct{} {
	killed := make(chan struct{})
	kill := sync.OnceFunc(func() {
		s.d.Signal(syscall.SIGKILL)
		close(killed)
	})
	if k.request != nil {
		seen := 0
		var mu sync.Mutex
		s.registry.Instead(func(_ http.ResponseWriter, req *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if !k.request.MatchString(req.Method + " " + req.URL.Path) {
				return false
			}
			if seen++; seen <= k.nth {
				return false
			}
			kill()
			return true
		})
		return killed
	}
	w, err := fsnotify.NewWatcher()
	require.NoError(s.t, err)
	copies, err := filepath.Glob(filepath.Join(s.d.StatePath(), "artifacts", "*"))
	require.NoError(s.t, err)
	require.Len(s.t, copies, 1)
	require.NoError(s.t, w.Add(copies[0]))
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range w.Events {
			if e.Op.Has(k.op) && filepath.Base(e.Name) == k.file {
				kill()
			}
		}
	})
	s.t.Cleanup(func() {
		require.NoError(s.t, w.Close())
		wg.Wait()
	})
	return killed
}
