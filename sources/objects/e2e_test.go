//go:build e2e

package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/test/kubelab"
	"crowsnest/test/wait"
)

const patience = 90 * time.Second

// role returns the rules that allow to read kinds and nothing else.
func role(kinds []string) (out []kubelab.Rule) {
	for _, name := range kinds {
		out = append(out, kubelab.Rule{Groups: []string{kind(name).group()}, Resources: []string{kind(name).resource()}, Verbs: []string{"list", "watch"}})
	}
	return out
}

// define creates a kind without a schema and waits until it is served.
func define(t *testing.T, l *kubelab.Lab, k kind, name string) {
	t.Helper()
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kubelab.Object{
		"metadata": kubelab.Object{"name": string(k), "annotations": kubelab.Object{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": kubelab.Object{
			"group": k.group(), "scope": "Namespaced",
			"names": kubelab.Object{"kind": name, "listKind": name + "List", "plural": k.resource(), "singular": strings.ToLower(name)},
			"versions": []kubelab.Object{{
				"name": "v1beta1", "served": true, "storage": true,
				"schema": kubelab.Object{"openAPIV3Schema": kubelab.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	})
	require.True(t, wait.Until(patience, func() bool {
		code, _ := l.Try(http.MethodGet, "/apis/"+k.group()+"/v1beta1/"+k.resource(), nil)
		return code == http.StatusOK
	}), "%s is not served", k)
}

// real runs a source against a real API server, as an account that may read the default
// kinds.
func real(t *testing.T, l *kubelab.Lab, cfg Config) (*Source, *pipe) {
	t.Helper()
	l.ServiceAccount("default", "crowsnest")
	l.Grant("default", "crowsnest", "", role(DefaultKinds())...)
	cfg.Kubeconfig = l.Kubeconfig("", l.Token("default", "crowsnest"))
	s, p := New(cfg), &pipe{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, p) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s, p
}

// has waits until a line with a text was written, and returns it with its time.
func (p *pipe) has(t *testing.T, within time.Duration, text string) (found string, at time.Time) {
	t.Helper()
	require.True(t, wait.Until(within, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, l := range p.lines {
			if strings.Contains(l, text) {
				found, at = l, p.times[i]
				return true
			}
		}
		return false
	}), text)
	return found, at
}

// renew renews a Lease every second until ctx ends.
func renew(ctx context.Context, t *testing.T, l *kubelab.Lab) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
	for ctx.Err() == nil {
		_, _ = l.Try(http.MethodPatch, path, kubelab.Object{"spec": kubelab.Object{"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}})
		wait.Pause(ctx, time.Second)
	}
	t.Log("the holder has died")
}

// TestE2ELease: a Lease that nobody renews is stale within its duration and ten seconds,
// and one that nobody can renew, because the API server is away, is not.
func TestE2ELease(t *testing.T) {
	const duration = 6 * time.Second
	l := kubelab.Start(t)
	l.Do(http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", kubelab.Object{
		"metadata": kubelab.Object{"name": "kube-scheduler"}, "spec": kubelab.Object{"holderIdentity": "s-0", "leaseDurationSeconds": int(duration.Seconds())},
	})
	s, p := real(t, l, Config{Kinds: []string{string(leases)}, Interval: 10 * time.Second})
	const name = ` resource=leases.coordination.k8s.io kind=Lease object=kube-system/kube-scheduler`
	ctx, die := context.WithCancel(t.Context())
	renewing := make(chan struct{})
	start := func() {
		renewing = make(chan struct{})
		go func(ctx context.Context, done chan struct{}) {
			defer close(done)
			renew(ctx, t, l)
		}(ctx, renewing)
	}
	start()
	p.has(t, patience, `msg="lease is held"`+name)
	for _, away := range []time.Duration{2 * time.Second, 12 * time.Second} {
		die()
		<-renewing
		l.StopAPI()
		wait.Pause(t.Context(), away)
		stood := p.provedAt()
		p.take()
		l.StartAPI()
		ctx, die = context.WithCancel(t.Context())
		start()
		require.True(t, wait.Until(patience, func() bool { return s.Status().Up && p.provedAt().After(stood.Add(away)) }), s.Status().Error)
		p.has(t, patience, `msg="lease is held"`+name)
		wait.Pause(t.Context(), duration+5*time.Second)
		require.Empty(t, only(p.take(), `msg="lease is stale"`+name), "away for %s", away)
	}
	die()
	<-renewing
	died := time.Now()
	line, at := p.has(t, patience, `msg="lease is stale"`+name)
	t.Logf("stale %s after the last renewal, with the time of %s after it: %s", time.Since(died), at.Sub(died), line)
	require.True(t, at.Sub(died) > duration-2*time.Second, at.Sub(died))
	ctx, die = context.WithCancel(t.Context())
	p.take()
	start()
	p.has(t, patience, `msg="lease is held"`+name)
	die()
	<-renewing
	l.Do(http.MethodDelete, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", nil)
	p.has(t, patience, `msg="lease is gone"`+name)
}

// TestE2ERole: the role of the manifests is enough for every default kind, each of its
// rules is necessary, and it allows nothing else.
func TestE2ERole(t *testing.T) {
	l := kubelab.Start(t)
	kinds := map[kind]string{}
	for _, name := range DefaultKinds() {
		k := kind(name)
		if strings.Contains(k.group(), "x-k8s.io") || k.group() == "harvesterhci.io" {
			kinds[k] = "Kind" + k.resource()
		}
	}
	s, p := real(t, l, Config{})
	require.True(t, wait.Until(patience, func() bool { return s.Status().Up }), s.Status().Error)
	p.has(t, patience, `msg="condition" type=Available status=True resource=apiservices.apiregistration.k8s.io`)
	for k, name := range kinds {
		define(t, l, k, name)
	}
	l.Namespace("shop")
	for k, name := range kinds {
		l.Do(http.MethodPost, "/apis/"+k.group()+"/v1beta1/namespaces/shop/"+k.resource(), kubelab.Object{
			"apiVersion": k.group() + "/v1beta1", "kind": name, "metadata": kubelab.Object{"name": "a"}, "status": kubelab.Object{"phase": "Running"},
		})
	}
	for k := range kinds {
		p.has(t, patience, `msg="phase" phase=Running reason="" resource=`+string(k)+" ")
	}
	require.True(t, s.Status().Up, s.Status().Error)
	as := func(verb, group, resource string) bool {
		review := l.Do(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", kubelab.Object{
			"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"spec": kubelab.Object{
				"user": "system:serviceaccount:default:crowsnest", "groups": []string{"system:serviceaccounts", "system:authenticated"},
				"resourceAttributes": kubelab.Object{"verb": verb, "group": group, "resource": resource},
			},
		})
		return review["status"].(kubelab.Object)["allowed"] == true
	}
	for _, name := range DefaultKinds() {
		k := kind(name)
		require.True(t, as("list", k.group(), k.resource()) && as("watch", k.group(), k.resource()), name)
		for _, verb := range []string{"get", "create", "update", "patch", "delete"} {
			require.False(t, as(verb, k.group(), k.resource()), "%s %s", verb, name)
		}
	}
	for _, resource := range []string{"secrets", "configmaps", "pods/log", "services", "serviceaccounts"} {
		require.False(t, as("list", "", resource), resource)
	}
	l.Revoke("default", "crowsnest", "")
	l.Grant("default", "crowsnest", "", role([]string{"nodes"})...)
	require.True(t, wait.Until(6*time.Minute, func() bool { return strings.Contains(s.Status().Error, "not allowed to read") }), "status %v", s.Status())
}

// TestE2EScale measures memory and requests with 1,000 Nodes and 5,000 Machines.
func TestE2EScale(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(`{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
		"rules": [{"level": "Metadata", "users": ["system:serviceaccount:default:crowsnest"]}, {"level": "None"}]}`), 0o600))
	l := kubelab.Start(t, kubelab.Options{APIServerArgs: []string{"--audit-policy-file", policy, "--audit-log-path", audit}})
	define(t, l, machines, "Machine")
	l.Namespace("fleet")
	conditions := func(types ...string) (out []kubelab.Object) {
		for _, name := range types {
			out = append(out, kubelab.Object{"type": name, "status": "True", "reason": "Is" + name, "message": "everything is as it should be", "lastTransitionTime": "2026-11-20T16:00:00Z"})
		}
		return out
	}
	for i := range 5000 {
		l.Do(http.MethodPost, "/apis/cluster.x-k8s.io/v1beta1/namespaces/fleet/machines", kubelab.Object{
			"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": kubelab.Object{"name": fmt.Sprintf("pool-a-6c4b8d9f7-%05d", i), "finalizers": []string{"machine.cluster.x-k8s.io"}},
			"spec": kubelab.Object{"clusterName": "shop", "providerID": fmt.Sprintf("made-up://%d", i)},
			"status": kubelab.Object{
				"phase": "Running", "nodeRef": kubelab.Object{"name": fmt.Sprintf("node-%d", i)},
				"conditions": conditions("Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"),
				"v1beta2":    kubelab.Object{"conditions": conditions("Available", "Ready", "UpToDate", "BootstrapConfigReady", "InfrastructureReady", "NodeReady", "NodeHealthy", "Deleting")},
			},
		})
	}
	for i := range 1000 {
		l.Do(http.MethodPost, "/api/v1/nodes", kubelab.Object{
			"metadata": kubelab.Object{"name": fmt.Sprintf("node-%d", i)},
			"status":   kubelab.Object{"conditions": conditions("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")},
		})
	}
	before := heap()
	s, p := real(t, l, Config{Interval: 10 * time.Second})
	require.True(t, wait.Until(3*time.Minute, func() bool { return s.Status().Up }), s.Status().Error)
	rounds := 0
	for start := time.Now(); time.Since(start) < time.Minute; wait.Pause(t.Context(), time.Second) {
		rounds += len(p.take())
	}
	kept := heap()
	requests := map[string]int{}
	text, err := os.ReadFile(audit)
	require.NoError(t, err)
	for one := range strings.Lines(string(text)) {
		var e struct{ Verb, RequestURI string }
		require.NoError(t, json.Unmarshal([]byte(one), &e))
		path, _, _ := strings.Cut(e.RequestURI, "?")
		requests[e.Verb+" "+path]++
	}
	at := time.Now()
	positions := s.Positions()
	t.Logf("%d objects: %.1f MiB, %d lines in a minute, positions of %d KiB in %s, requests %v", s.room.used, float64(kept-before)/(1<<20), rounds, len(positions)>>10, time.Since(at), requests)
	require.Equal(t, 6000, s.room.used-len(s.readers[2].objects)-len(s.readers[4].objects)-len(s.readers[5].objects))
	require.Less(t, kept-before, int64(64<<20))
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
