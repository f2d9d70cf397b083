package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"crowsnest/daemon/loader"
	"crowsnest/internal/kube"
	"crowsnest/rules"
	"crowsnest/rules/namespaces"
	"crowsnest/sources/objects"
)

var now = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// api is a fake API server with one pod for each log.
type api struct {
	mu    sync.Mutex
	pods  []string          // NAMESPACE/NAME, with one container, c
	nodes map[string]string // node by pod; the others run on node-1
	image string
	// answer returns a log, or a status code with a message.
	answer func(pod string, q url.Values) (int, io.ReadCloser)
	asked  []string // logs, in order
	// refuses returns the status of other paths than logs; zero means that they get a response.
	refuses func(path string) int
	down    bool
}

func text(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	}
	answer := func(code int, body io.ReadCloser) (*http.Response, error) {
		return &http.Response{StatusCode: code, Body: body, Request: r}, nil
	}
	path := r.URL.Path
	if rest, ok := strings.CutSuffix(path, "/log"); ok {
		f := strings.Split(rest, "/") // "" api v1 namespaces NS pods POD
		pod := f[4] + "/" + f[6]
		a.asked = append(a.asked, pod)
		code, body := a.answer(pod, r.URL.Query())
		if body == nil {
			body = text("")
		}
		if p, ok := body.(*io.PipeReader); ok {
			context.AfterFunc(r.Context(), func() { _ = p.CloseWithError(r.Context().Err()) })
		}
		return answer(code, body)
	}
	if a.refuses != nil {
		if code := a.refuses(path); code != 0 {
			return answer(code, text(`{"message":"no"}`))
		}
	}
	if !strings.HasSuffix(path, "/pods") {
		return answer(http.StatusOK, text(`{"items":[]}`))
	}
	var items []map[string]any
	for _, pod := range a.pods {
		namespace, name, _ := strings.Cut(pod, "/")
		if path != "/api/v1/pods" && path != "/api/v1/namespaces/"+namespace+"/pods" {
			continue
		}
		node := a.nodes[pod]
		if node == "" {
			node = "node-1"
		}
		status := map[string]any{"name": "c", "containerID": "x", "state": map[string]any{"running": map[string]any{}}}
		if strings.HasPrefix(name, "restarted") {
			status["restartCount"] = 3
			status["lastState"] = map[string]any{"terminated": map[string]any{
				"startedAt": now.Add(-2 * time.Minute).Format(time.RFC3339), "finishedAt": now.Add(-time.Minute).Format(time.RFC3339), "containerID": "y",
			}}
		}
		items = append(items, map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "u"},
			"spec":     map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "c", "image": a.image}}},
			"status":   map[string]any{"containerStatuses": []any{status}},
		})
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, text(string(body)))
}

var shipped = sync.OnceValues(func() (*rules.Set, error) {
	docs, _ := loader.ParseFiles(loader.ShippedWithoutTests())
	set, _ := loader.BuildSet(docs, rules.Options{})
	var err error
	set.Namespaces, err = namespaces.Parse(nil)
	return set, err
})

// download reads the fake API server in a bubble. It returns the content of all files.
func (a *api) download(t *testing.T, change func(*Config)) (s *Snapshot, files map[string]string, err error) {
	t.Helper()
	set, err := shipped()
	require.NoError(t, err)
	cfg := Config{
		Client: kube.New(kube.Options{Transport: a}), Set: set, LikelyNamespace: "default", Since: now.Add(-time.Hour), Now: now,
		MaxBytes: 1 << 30, Dir: t.TempDir(), Title: "cluster", Progress: &Progress{}, All: true,
	}
	if change != nil {
		change(&cfg)
	}
	if s, err = Download(t.Context(), cfg); err != nil {
		return nil, nil, err
	}
	files = map[string]string{}
	return s, files, filepath.WalkDir(cfg.Dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, failed := os.ReadFile(path)
			files[strings.TrimPrefix(path, cfg.Dir+"/")], err = string(data), failed
		}
		return err
	})
}

// unseenIn returns what was not seen, one thing a line, without the journals, which never are.
func unseenIn(s *Snapshot) string {
	var out []string
	for _, u := range s.NotSeen {
		if u.Kind == "journals of nodes" {
			continue
		}
		out = append(out, fmt.Sprint(u, " ", u.Failed))
	}
	return strings.Join(out, "\n")
}

const stamp = "2026-11-20T15:59:00.5Z "

// A log becomes what a container runtime writes, and its labels are those that the daemon
// sets.
func TestDownload(t *testing.T) {
	a := &api{pods: []string{"capi-system/restarted"}, image: "registry.test/capi:v1.9.0", answer: func(_ string, q url.Values) (int, io.ReadCloser) {
		require.Equal(t, "true", q.Get("timestamps"))
		require.Equal(t, "3600", q.Get("sinceSeconds"))
		return 200, text(stamp + "one, previous=" + q.Get("previous") + "\n" + stamp + "cut in the midd")
	}}
	s, files, err := a.download(t, nil)
	require.NoError(t, err)
	require.Equal(t, "logs of older instances of capi-system/restarted/c: the API has those of the newest two false", unseenIn(s))
	const folder = "pods/capi-system_restarted_u/c/"
	const cri = "2026-11-20T15:59:00.5Z stdout F "
	require.Equal(t, cri+"one, previous=true\n"+cri+"cut in the midd\n", files[folder+"2.log"])
	require.Equal(t, cri+"one, previous=\n"+cri+"cut in the midd\n", files[folder+"3.log"])
	require.Contains(t, files["objects/pods.json"], `{"kind":"PodList","apiVersion":"v1","items":[`)
	require.True(t, json.Valid([]byte(files["objects/pods.json"])))
	require.Len(t, files, 3)
	path := filepath.Join(s.dir, folder+"2.log")
	labels, ok := s.Labels(path)
	require.True(t, ok)
	require.Equal(t, map[string]string{
		"namespace": "capi-system", "pod": "restarted", "container": "c", "node_name": "node-1", "image": "registry.test/capi:v1.9.0", "app": "", "workload": "",
	}, map[string]string(labels))
	require.Equal(t, "capi-system/restarted/c/2.log", s.Name(path))
	require.Equal(t, "cluster pods", s.Name(filepath.Join(s.dir, "objects/pods.json")))
	require.Equal(t, "cluster", s.Name(s.dir))
}

// A range that ends earlier has neither later lines nor states, which are those of now.
func TestUntil(t *testing.T) {
	a := &api{pods: []string{"kube-system/a"}, answer: func(string, url.Values) (int, io.ReadCloser) {
		return 200, text(stamp + "one\n" + strings.Replace(stamp, "15:59", "16:00", 1) + "later\n" + stamp + "after it\n")
	}}
	s, files, err := a.download(t, func(c *Config) { c.Until = now })
	require.NoError(t, err)
	require.Equal(t, map[string]string{"pods/kube-system_a_u/c/0.log": "2026-11-20T15:59:00.5Z stdout F one\n"}, files)
	require.Equal(t, "states of objects: the cluster has those of now, and the range ends before false", unseenIn(s))
}

// A disk that takes nothing more ends the reading.
func TestNoSpace(t *testing.T) {
	a := &api{pods: []string{"a/x", "a/y"}, answer: func(string, url.Values) (int, io.ReadCloser) { return 200, text(stamp + "one\n") }}
	s, _, err := a.download(t, func(c *Config) {
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, "pods"), nil, 0o600))
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Err, "not a directory; set TMPDIR to a folder with more space, or lower --max-bytes")
	require.Equal(t, "logs of a/x/c, a/y/c: the download ended before these were read true", unseenIn(s))
}

// What cannot be read is named with the reason, and everything else is read.
func TestLogsThatCannotBeRead(t *testing.T) {
	ok := func() (int, io.ReadCloser) { return 200, text(stamp + "fine\n") }
	f := func(want string, takes time.Duration, answer func(pod string, try int) (int, io.ReadCloser)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			tries := map[string]int{}
			a := &api{pods: []string{"a/bad", "a/good", "b/bad"}, nodes: map[string]string{"a/bad": "node-2"}}
			a.answer = func(pod string, _ url.Values) (int, io.ReadCloser) {
				if pod != "a/bad" {
					return ok()
				}
				tries[pod]++
				return answer(pod, tries[pod])
			}
			began := time.Now()
			s, files, err := a.download(t, nil)
			require.NoError(t, err)
			require.NoError(t, s.Err)
			require.Equal(t, want, unseenIn(s))
			require.Less(t, time.Since(began), takes)
			require.Contains(t, files["pods/a_good_u/c/0.log"], "fine")
			require.Contains(t, files["pods/b_bad_u/c/0.log"], "fine")
		})
	}
	refused := func(code int) func(string, int) (int, io.ReadCloser) {
		return func(string, int) (int, io.ReadCloser) { return code, text(`{"message":"broken"}`) }
	}
	f(`logs of a/bad/c: forbidden; a role needs {apiGroups: [""], resources: [pods/log], verbs: [get]} false`, time.Second, refused(403))
	f("logs of a/bad/c: the pod was deleted meanwhile false", time.Second, refused(404))
	f("logs of a/bad/c: the container has not started false", time.Second, refused(400))
	f("logs of a/bad/c: the API server answers 502: broken true", 10*time.Second, refused(502))
	f("", 10*time.Second, func(_ string, try int) (int, io.ReadCloser) {
		if try < maxTries {
			return 429, nil
		}
		return ok()
	})
	f("logs of a/bad/c: the kubelet says: unable to retrieve container logs for containerd://x true", time.Second, func(string, int) (int, io.ReadCloser) {
		return 200, text("unable to retrieve container logs for containerd://x")
	})
	f("logs of a/bad/c: the log broke off: no answer for 20s true", 21*time.Second, func(string, int) (int, io.ReadCloser) {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, stamp+"the last words\n") }()
		return 200, r
	})
	f("logs of a/bad/c: the log broke off: unexpected EOF true", 10*time.Second, func(string, int) (int, io.ReadCloser) {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, stamp+"half"); _ = w.CloseWithError(io.ErrUnexpectedEOF) }()
		return 200, r
	})
}

// Nothing waits for a node, or an API server, that is known not to answer, and what ended
// the reading is said once.
func TestNothingAnswers(t *testing.T) {
	pods := func(namespace string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%s/p%03d", namespace, i))
		}
		return out
	}
	f := func(takes time.Duration, ends, want string, answer func(a *api, pod string) (int, io.ReadCloser)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			a := &api{pods: append(pods("a", 500), pods("b", 3)...), nodes: map[string]string{}}
			for _, pod := range pods("b", 3) {
				a.nodes[pod] = "node-2"
			}
			a.answer = func(pod string, _ url.Values) (int, io.ReadCloser) { return answer(a, pod) }
			began := time.Now()
			s, _, err := a.download(t, nil)
			require.NoError(t, err)
			require.Contains(t, fmt.Sprint(s.Err), ends)
			require.Contains(t, unseenIn(s), want)
			require.Less(t, time.Since(began), takes)
			total := 0
			for _, u := range s.NotSeen {
				total += u.Count
			}
			require.GreaterOrEqual(t, total, 400)
		})
	}
	hang := func() (int, io.ReadCloser) { r, _ := io.Pipe(); return 200, r }
	f(50*time.Second, "<nil>", "other logs of node node-1 cannot be read either true", func(_ *api, pod string) (int, io.ReadCloser) { // one node
		if pod[0] == 'b' {
			return 200, text(stamp + "fine\n")
		}
		return hang()
	})
	n := 0
	f(10*time.Second, "refuses the credentials, which may have expired", errEnded.Error(), func(*api, string) (int, io.ReadCloser) {
		if n++; n > 50 {
			return 401, nil
		}
		return 200, text(stamp + "fine\n")
	})
	m := 0
	f(10*time.Second, "cannot be reached: Get", errEnded.Error(), func(a *api, _ string) (int, io.ReadCloser) {
		m++
		a.down = m > 50
		return 200, text(stamp + "fine\n")
	})
}

// What short logs leave of --max-bytes is for the long ones, of which the newest lines count.
func TestMaxBytes(t *testing.T) {
	sizes := map[string]int{"a/short": 1 << 10, "a/long": 2 << 20, "a/longest": 20 << 20}
	line := strings.Repeat("x", 1000-len(stamp)-1) + "\n"
	a := &api{pods: []string{"a/short", "a/long", "a/longest"}}
	var sent atomic.Int64
	a.answer = func(pod string, q url.Values) (int, io.ReadCloser) {
		lines := sizes[pod] / 1000
		first := 0
		if tail, err := strconv.Atoi(q.Get("tailLines")); err == nil {
			first = max(0, lines-tail)
		}
		var b strings.Builder
		for i := first; i < lines; i++ {
			b.WriteString(now.Add(time.Duration(i-lines)*time.Millisecond).Format("2006-01-02T15:04:05.000Z") + " " + line)
		}
		return 200, countedReader{text(b.String()), &sent}
	}
	s, files, err := a.download(t, func(c *Config) { c.MaxBytes = 6 << 20 })
	require.NoError(t, err)
	require.Less(t, sent.Load(), int64(7<<20), "bytes that were downloaded")
	require.Equal(t, "older lines of a/longest/c: the logs have more than --max-bytes; raise it, or use a shorter --since or fewer namespaces false", unseenIn(s))
	total := 0
	for name, data := range files {
		if strings.HasPrefix(name, "pods/") {
			total += len(data)
		}
	}
	require.Less(t, total, 7<<20)
	require.Greater(t, len(files["pods/a_long_u/c/0.log"]), 2<<20-1000)
	longest := files["pods/a_longest_u/c/0.log"]
	require.Greater(t, len(longest), 2<<20)
	require.Contains(t, longest[len(longest)-1100:], "15:59:59.999Z", "the newest line")
}

// countedReader counts the bytes that are read.
type countedReader struct {
	io.ReadCloser
	n *atomic.Int64
}

func (r countedReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// A log without an end ends.
func TestEndlessLog(t *testing.T) {
	a := &api{pods: []string{"a/endless", "a/x"}}
	a.answer = func(pod string, _ url.Values) (int, io.ReadCloser) {
		if pod == "a/x" {
			return 200, text(stamp + "fine\n")
		}
		return 200, io.NopCloser(io.MultiReader(strings.NewReader(stamp), endless{}))
	}
	s, files, err := a.download(t, func(c *Config) { c.MaxBytes = 1 << 20 })
	require.NoError(t, err)
	require.Contains(t, unseenIn(s), "newest lines of a/endless/c: the logs have more than --max-bytes")
	require.Contains(t, files["pods/a_x_u/c/0.log"], "fine")
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// Without the right to list the pods of all namespaces, those are read that may be.
func TestRights(t *testing.T) {
	pods := []string{"default/a", "kube-system/a", "shop/a", "team/a"}
	f := func(may []string, namespaces bool, change func(*Config), read, want string) {
		t.Helper()
		a := &api{pods: pods, answer: func(string, url.Values) (int, io.ReadCloser) { return 200, text(stamp + "fine\n") }}
		a.refuses = func(path string) int {
			for _, namespace := range may {
				if strings.HasPrefix(path, "/api/v1/namespaces/"+namespace+"/") || namespace == "*" && path == "/api/v1/pods" {
					return 0
				}
			}
			if strings.HasSuffix(path, "/pods") {
				return 403
			}
			return 0
		}
		if !namespaces {
			inner := a.refuses
			a.refuses = func(path string) int {
				if path == "/api/v1/namespaces" {
					return 403
				}
				return inner(path)
			}
		}
		s, _, err := a.download(t, change)
		if read == "" {
			require.ErrorContains(t, err, want)
			return
		}
		require.NoError(t, err)
		slices.Sort(a.asked)
		require.Equal(t, read, strings.Join(a.asked, " "))
		if want == "" {
			require.NotContains(t, unseenIn(s), "pods")
		}
		require.Contains(t, unseenIn(s), want)
	}
	one := func(names ...string) func(*Config) {
		return func(c *Config) { c.All, c.Namespaces = false, names }
	}
	chosen := func(c *Config) { c.All = false }
	f([]string{"*"}, true, nil, "default/a kube-system/a shop/a team/a", "")
	f([]string{"*"}, true, chosen, "kube-system/a", "")
	f([]string{"default", "kube-system", "shop"}, false, chosen, "default/a kube-system/a", "pods and logs of other namespaces: forbidden; a role needs a ClusterRole with")
	f([]string{"team"}, false, func(c *Config) { c.LikelyNamespace = "team" }, "team/a", "pods and logs of other namespaces")
	f([]string{"shop"}, false, chosen, "", "cannot be listed: forbidden; a role needs {")
	f([]string{"shop", "team"}, false, one("shop", "team"), "shop/a team/a", "")
	f([]string{"shop"}, false, one("shop", "team"), "shop/a", "pods and logs of namespace team: forbidden; a role needs {")
	f([]string{"*"}, true, func(c *Config) { c.Until = now.Add(-30 * time.Second) }, "default/a kube-system/a shop/a team/a", "")
}

// No name of a pod leads out of the folder.
func TestHostileNames(t *testing.T) {
	a := &api{pods: []string{"kube-system/..", "kube-system/../../../etc", `kube-system/a_b`}}
	a.answer = func(string, url.Values) (int, io.ReadCloser) { return 200, text(stamp + "x\n") }
	s, files, err := a.download(t, nil)
	require.NoError(t, err)
	require.Empty(t, a.asked)
	require.Contains(t, unseenIn(s), `logs of "kube-system/../../../etc/c", "kube-system/../c", "kube-system/a_b/c": this is not the name of a container`)
	require.Len(t, files, 1)
}

// A component is known where a rule names it, but not where a rule would take anything.
func TestKnown(t *testing.T) {
	f := func(namespace, pod, container, image string, want bool) {
		t.Helper()
		a := &api{pods: []string{namespace + "/" + pod}, image: image, answer: func(string, url.Values) (int, io.ReadCloser) { return 200, text("") }}
		s, _, err := a.download(t, func(c *Config) { c.All = false })
		require.NoError(t, err)
		require.Equal(t, want, len(s.Namespaces) == 1)
	}
	f("kube-system", "x", "c", "x:1", true)
	f("shop", "web-0", "c", "shop/web:1", false)
	f("pipelines", "move", "c", "registry.test/clusterctl:v1.9", true)
	f("team", "cluster-autoscaler-5f6d8b7c9-w2k4n", "c", "x:1", true)
}

// The shipped role is what is asked for.
func TestShippedRole(t *testing.T) {
	data, err := os.ReadFile("../../deploy/scan-role.yaml")
	require.NoError(t, err)
	role, _, _ := strings.Cut(string(data), "\n---\n")
	var of struct {
		Rules []struct {
			Groups    []string `json:"apiGroups"`
			Resources []string `json:"resources"`
			Verbs     []string `json:"verbs"`
		} `json:"rules"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(role), &of))
	var got []string
	for _, r := range of.Rules {
		for _, resource := range r.Resources {
			got = append(got, fmt.Sprintf("%s %v", strings.TrimSuffix(resource+"."+r.Groups[0], "."), r.Verbs))
		}
	}
	want := []string{"events [list]", "pods/log [get]"}
	for _, kind := range objects.DefaultKinds() {
		want = append(want, kind+" [list]")
	}
	require.ElementsMatch(t, want, got)
}
