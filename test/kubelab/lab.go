// Package kubelab runs a real Kubernetes API on loopback for tests: etcd and
// kube-apiserver, with nodes whose kubelet is a small HTTPS server of this
// package that serves container logs like the real one. Pods are API objects
// only; a test writes their logs, ends their containers, rotates their files,
// and breaks connections with proxies.
//
// A test is skipped with a message if its programs are missing. Everything ends
// with its test, and with the process if that is killed.
package kubelab

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"crowsnest/test/servers"
)

const (
	readyWithin = 120 * time.Second // the machine may be busy
	askEvery    = 100 * time.Millisecond
)

// Admin is the token of a member of system:masters.
const Admin = "admin-token"

// Options of a Lab. The zero value is suitable for most tests.
type Options struct {
	// APIServerArgs are additional arguments of kube-apiserver.
	APIServerArgs []string
}

// Lab is a control plane. Its methods fail the test, so call them from the
// goroutine of the test.
type Lab struct {
	// Port is that of the API on 127.0.0.1, URL its address.
	Port int
	URL  string
	// CA is the certificate of the API server, in PEM.
	CA []byte
	// Dir holds its files.
	Dir string

	t         testing.TB
	store     string // the address of etcd
	etcd, api *process
	client    *http.Client
}

// Start starts etcd and kube-apiserver and waits until the API is ready. They
// end with the test.
func Start(t testing.TB, opts ...Options) *Lab {
	t.Helper()
	var opt Options
	if len(opts) > 0 {
		opt = opts[0]
	}
	etcd, api := servers.Program(t, "etcd"), servers.Program(t, "kube-apiserver")
	l := &Lab{Port: servers.FreePort(t), Dir: t.TempDir(), t: t}
	l.URL = "https://127.0.0.1:" + strconv.Itoa(l.Port)
	l.write("tokens.csv", []byte(Admin+",admin,1,system:masters\n"))
	l.write("sa.key", newKey(t))
	store, peer := servers.FreePort(t), servers.FreePort(t)
	storeURL, peerURL := "http://127.0.0.1:"+strconv.Itoa(store), "http://127.0.0.1:"+strconv.Itoa(peer)
	l.etcd = newProcess(t, l.Dir, etcd, "--data-dir", l.file("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", storeURL, "--advertise-client-urls", storeURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL)
	l.api = newProcess(t, l.Dir, api, append([]string{
		"--etcd-servers", storeURL, "--secure-port", strconv.Itoa(l.Port), "--bind-address", "127.0.0.1", "--cert-dir", l.file("certs"),
		"--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.96.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", l.file("sa.key"),
		"--service-account-signing-key-file", l.file("sa.key"), "--authorization-mode", "Node,RBAC",
		"--token-auth-file", l.file("tokens.csv"), "--kubelet-preferred-address-types", "InternalIP",
	}, opt.APIServerArgs...)...)
	l.store = storeURL
	l.etcd.start()
	l.StartAPI()
	return l
}

// StartAPI starts the API server again after StopAPI, and waits until it is
// ready.
func (l *Lab) StartAPI() {
	l.t.Helper()
	l.api.start()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if l.ready(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			l.t.Fatalf("kube-apiserver is not ready after %s\n%s", readyWithin, l.api.log())
		case <-l.api.Done():
			l.t.Fatalf("kube-apiserver ended: %v\n%s", l.api.Wait(), l.api.log())
		case <-l.etcd.Done():
			l.t.Fatalf("etcd ended: %v\n%s", l.etcd.Wait(), l.etcd.log())
		case <-tick.C:
		}
	}
}

// StopAPI kills the API server. The stored objects remain.
func (l *Lab) StopAPI() { l.api.kill() }

// Compact forgets all former versions of objects, as the API server does every five
// minutes: a watch from one of them gets 410.
func (l *Lab) Compact() {
	l.t.Helper()
	ask := func(path, body string) (answer struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	},
	) {
		l.t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		res, err := client.Post(l.store+"/v3/kv/"+path, "application/json", strings.NewReader(body))
		if err != nil {
			l.t.Fatalf("etcd %s: %v", path, err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
			l.t.Fatalf("etcd %s: %s %v", path, res.Status, err)
		}
		return answer
	}
	now := ask("range", `{"key":"AA=="}`).Header.Revision
	ask("compaction", `{"revision":"`+now+`","physical":true}`)
}

func (l *Lab) ready(ctx context.Context) bool {
	if l.client == nil {
		pem, err := os.ReadFile(filepath.Join(l.file("certs"), "apiserver.crt"))
		if err != nil {
			return false
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return false
		}
		l.CA = pem
		l.client = &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true, // tests check for leaked goroutines
			TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	res, err := l.send(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

func (l *Lab) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+Admin)
	switch method {
	case http.MethodPatch:
		req.Header.Set("Content-Type", "application/merge-patch+json")
	default:
		req.Header.Set("Content-Type", "application/json")
	}
	return l.client.Do(req)
}

// Object is an API object as JSON.
type Object = map[string]any

// Try sends a request as admin and returns the status code and the body.
func (l *Lab) Try(method, path string, in any) (code int, answer []byte) {
	l.t.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			l.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	res, err := l.send(ctx, method, path, body)
	if err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	if answer, err = io.ReadAll(res.Body); err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, answer
}

// Do is Try, but must succeed; it decodes the response.
func (l *Lab) Do(method, path string, in any) Object {
	l.t.Helper()
	code, answer := l.Try(method, path, in)
	if code/100 != 2 {
		l.t.Fatalf("%s %s: %d: %.500s", method, path, code, answer)
	}
	out := Object{}
	if err := json.Unmarshal(answer, &out); err != nil {
		l.t.Fatalf("%s %s: %v", method, path, err)
	}
	return out
}

// Kubeconfig writes a kubeconfig for the token and returns its path. server is
// the address, such as that of a Proxy; "" means the API itself. The token is
// in the file "token" in the same folder, where it can be renewed.
func (l *Lab) Kubeconfig(server, token string) string {
	l.t.Helper()
	if server == "" {
		server = l.URL
	}
	ca := filepath.Join(l.file("certs"), "apiserver.crt")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: lab
clusters: [{name: lab, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: user, user: {tokenFile: token}}]
contexts: [{name: lab, context: {cluster: lab, user: user}}]
`, server, ca)
	path := filepath.Join(l.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "token"), []byte(token), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

func (l *Lab) file(name string) string { return filepath.Join(l.Dir, name) }

func (l *Lab) write(name string, data []byte) {
	l.t.Helper()
	if err := os.WriteFile(l.file(name), data, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// newKey creates the signing key of service account tokens.
func newKey(t testing.TB) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}
