//go:build e2e

package kube

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/server"
	"crowsnest/agent/wire"
	"crowsnest/matcher"
	"crowsnest/rules"
	"crowsnest/sources"
	"crowsnest/test/kubelab"
)

// nowhere is a pipeline that accepts everything.
type nowhere struct{ sources.Pipeline }

func (nowhere) Ingest(_ func(*rules.Set) []matcher.Hit, commit func()) {
	if commit != nil {
		commit()
	}
}
func (nowhere) AddMember(string)    {}
func (nowhere) RemoveMember(string) {}

// A real API server identifies the owner of a token: the token of a pod speaks
// for the node of the pod, with the rights that the manifests grant and no
// others.
func TestE2EAgentTokens(t *testing.T) {
	l := kubelab.Start(t)
	for _, ns := range []string{"crowsnest", "tenant"} {
		l.Namespace(ns)
		l.ServiceAccount(ns, "crowsnest-agent")
	}
	l.ServiceAccount("crowsnest", "crowsnest-aggregator")
	l.Grant("crowsnest", "crowsnest-aggregator", "",
		kubelab.Rule{Groups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		kubelab.Rule{Groups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}})
	l.ServiceAccount("crowsnest", "crowsnest-operator")
	l.Grant("crowsnest", "crowsnest-operator", "crowsnest", kubelab.Rule{Groups: []string{"crowsnest"}, Resources: []string{"agents"}, Verbs: []string{"delete"}})
	pod := func(ns, name, node string) {
		l.Do(http.MethodPost, "/api/v1/namespaces/"+ns+"/pods", kubelab.Object{
			"metadata": kubelab.Object{"name": name},
			"spec": kubelab.Object{
				"serviceAccountName": "crowsnest-agent", "nodeName": node, "automountServiceAccountToken": false,
				"containers": []kubelab.Object{{"name": "crowsnest", "image": "crowsnest"}},
			},
		})
	}
	k := kubelab.NewKubelet(t)
	l.Node("node-a", k.Port())
	l.Node("node-b", k.Port())
	pod("crowsnest", "agent-a", "node-a")
	pod("tenant", "agent-b", "node-b")

	src := server.New(server.Config{TokenReview: &server.TokenReview{
		ServiceAccount: "crowsnest/crowsnest-agent", Kubeconfig: l.Kubeconfig("", l.Token("crowsnest", "crowsnest-aggregator")),
	}})
	handler := src.Handler(nowhere{})
	f := func(token, node string, code int, want string) {
		t.Helper()
		body := (&wire.Message{Node: node, Instance: "i1", OldestSequence: 1}).Append(nil)
		r := httptest.NewRequest(http.MethodPost, wire.Path, bytes.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, w.Body)
		require.Contains(t, w.Body.String(), want)
	}
	good := l.PodToken("crowsnest", "crowsnest-agent", "agent-a", "crowsnest")
	f(good, "node-a", http.StatusOK, "taken")
	f(good, "node-b", http.StatusForbidden, "belong to node node-a")
	f(l.PodToken("crowsnest", "crowsnest-agent", "agent-a", "another"), "node-a", http.StatusUnauthorized, "for the audience crowsnest")
	f(l.PodToken("tenant", "crowsnest-agent", "agent-b", "crowsnest"), "node-b", http.StatusUnauthorized, "not to service account crowsnest/crowsnest-agent")
	f(l.Token("crowsnest", "crowsnest-agent"), "node-a", http.StatusUnauthorized, "for the audience crowsnest")
	f("made-up", "node-a", http.StatusUnauthorized, "not authorized")

	forget := func(token string, code int, want string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodDelete, wire.NodePath+"node-a", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, code, w.Code, w.Body)
		require.Contains(t, w.Body.String(), want)
	}
	forget(good, http.StatusForbidden, `may not delete agents.crowsnest "node-a" in namespace crowsnest`)
	forget(l.Token("crowsnest", "crowsnest-operator"), http.StatusUnauthorized, "for the audience crowsnest")
	forget(l.Token("tenant", "crowsnest-agent", "crowsnest"), http.StatusForbidden, "may not delete")
	forget(l.Token("crowsnest", "crowsnest-operator", "crowsnest"), http.StatusNoContent, "")
	f(good, "node-a", http.StatusOK, "taken")

	unknown := l.PodToken("crowsnest", "crowsnest-agent", "agent-a", "crowsnest")
	l.StopAPI()
	f(good, "node-a", http.StatusOK, "taken")
	f(unknown, "node-a", http.StatusServiceUnavailable, "cannot be authenticated")
}
