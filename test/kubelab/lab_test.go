package kubelab

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 11, 20, 16, 0, 0, 0, time.UTC)

// TestKubelet pins the behaviour of the kubelet that followers depend on.
func TestKubelet(t *testing.T) {
	k := NewKubelet(t)
	f := func(query, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		k.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/containerLogs/ns/pod/c?"+query, nil))
		require.Equal(t, want, w.Body.String())
	}
	f("", "container \"c\" in pod \"pod\" is waiting to start: ContainerCreating\n")
	c := k.Start("ns", "pod", "c")
	f("previous=true", "previous terminated container not found\n")
	c.Log(start, "one")
	c.Part(start.Add(1500*time.Millisecond), "two, ")
	c.Log(start.Add(1600*time.Millisecond), "and its end")
	c.Log(start.Add(1500*time.Millisecond), "a step back")
	f("", "one\ntwo, and its end\na step back\n")
	f("timestamps=true", "2026-11-20T16:00:00.000000000Z one\n2026-11-20T16:00:01.500000000Z two, and its end\n2026-11-20T16:00:01.500000000Z a step back\n")
	f("sinceTime=2026-11-20T16:00:01Z", "two, and its end\na step back\n")
	f("tailLines=1", "a step back\n")
	f("tailLines=0", "")
	f("limitBytes=6", "one\ntw")
	c.Rotate()
	c.Log(start.Add(2*time.Second), "new file")
	f("", "new file\n")
	c.Exit()
	f("follow=true", "new file\n")
	k.Start("ns", "pod", "c")
	f("previous=true", "new file\n")
	f("", "")
	k.Break(500)
	f("", "broken by the test\n")
}

// TestKubeletFollows: a follower reads the rest of a rotated file, and ends
// with the instance.
func TestKubeletFollows(t *testing.T) {
	k := NewKubelet(t)
	c := k.Start("ns", "pod", "c")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer w.Close()
		req := httptest.NewRequest(http.MethodGet, "/containerLogs/ns/pod/c?follow=true", nil).WithContext(ctx)
		k.ServeHTTP(&piped{w: w}, req)
	}()
	want := func(s string) {
		t.Helper()
		b := make([]byte, len(s))
		_, err := io.ReadFull(r, b)
		require.NoError(t, err)
		require.Equal(t, s, string(b))
	}
	c.Log(start, "one")
	want("one\n")
	c.Log(start, "two")
	c.Rotate()
	c.Log(start, "three")
	want("two\nthree\n")
	c.Log(start, "last")
	c.Exit()
	rest, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "last\n", string(rest))
	<-done
}

type piped struct {
	w      io.Writer
	header http.Header
}

func (p *piped) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}
func (p *piped) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p *piped) WriteHeader(int)             {}
func (p *piped) Flush()                      {}

// TestLab uses pods, tokens, roles and logs through the real API.
func TestLab(t *testing.T) {
	l := Start(t)
	k := NewKubelet(t)
	l.Node("node-1", k.Port())
	l.Namespace("demo")
	l.ServiceAccount("demo", "reader")
	l.Pod(PodSpec{Namespace: "demo", Name: "p", Node: "node-1", Containers: []string{"c"}, Owner: "ReplicaSet/p-abc"})
	c := k.Start("demo", "p", "c")
	l.SetStatus("demo", "p", ContainerStatus{Name: "c"})
	c.Log(start, "hello")
	const path = "/api/v1/namespaces/demo/pods/p/log"
	as := func(token string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, l.URL+path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := l.client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var b bytes.Buffer
		_, err = b.ReadFrom(res.Body)
		require.NoError(t, err)
		return res.StatusCode, b.String()
	}
	code, _ := as("nonsense")
	require.Equal(t, http.StatusUnauthorized, code)
	token := l.Token("demo", "reader")
	code, _ = as(token)
	require.Equal(t, http.StatusForbidden, code)
	l.Grant("demo", "reader", "", Rule{Groups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}})
	require.Eventually(t, func() bool { code, _ := as(token); return code == http.StatusOK }, 30*time.Second, 50*time.Millisecond)
	code, text := as(token)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "hello\n", text)
	l.DeletePod("demo", "p")
	code, _ = as(token)
	require.Equal(t, http.StatusNotFound, code)
}
