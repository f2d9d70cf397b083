package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/rules"
)

func TestRulesOfNamespacesAreOffered(t *testing.T) {
	b := newBench(t, Config{})
	message := (&wire.Message{Node: "n1", Instance: "i1", OldestSequence: 1, SentAt: b.now}).Append(nil)
	require.NotContains(t, b.post(message).Body.String(), "owned_rules", "they are not known yet")
	files := []rules.File{{Name: "configmap:team-a/rules/web.yaml", Namespace: "team-a", Data: []byte("pack")}}
	fetch := func() (out wire.RulesAnswer) {
		w := httptest.NewRecorder()
		b.s.Handler(b.p).ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.RulesPath, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
		return out
	}
	b.s.OfferRules(files)
	first := fetch()
	require.NotEmpty(t, first.ID)
	require.Contains(t, b.post(message).Body.String(), `"owned_rules":"`+first.ID)
	require.Equal(t, files, first.Files)
	b.s.OfferRules(files)
	require.Equal(t, first, fetch())
	b.s.OfferRules(nil)
	none := fetch()
	require.NotEmpty(t, none.ID)
	require.NotEqual(t, first.ID, none.ID)
	require.Empty(t, none.Files)
}

func TestRulesOfNamespacesNeedAToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	b := newBench(t, Config{BearerTokenFile: file})
	w := httptest.NewRecorder()
	b.s.Handler(b.p).ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.RulesPath, nil))
	require.Equal(t, http.StatusUnauthorized, w.Code)
}
