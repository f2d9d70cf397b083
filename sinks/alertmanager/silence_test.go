package alertmanager

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/stretchr/testify/require"

	"crowsnest/test/servers"
)

// A silence is made once, at the first member that answers.
func TestSilence(t *testing.T) {
	var codes []int // of the answers, one a request
	var bodies []map[string]any
	am := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/x/api/v2/silences", r.URL.Path)
		var body map[string]any
		require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		bodies = append(bodies, body)
		code := codes[0]
		codes = codes[1:]
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"silenceID": "id-1"}`))
	}))
	t.Cleanup(am.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	s, err := New(Config{URLs: []string{closed.URL, am.URL + "/x"}, ExternalLabels: map[string]string{"cluster": "c1"}}, Options{})
	require.NoError(t, err)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	silence := Silence{Labels: map[string]string{"alertname": "A", "cluster": "c1"}, Start: start, End: start.Add(time.Hour), Author: "Ada", Comment: "why"}

	codes = []int{200}
	endpoint, id, err := s.Silence(t.Context(), silence)
	require.NoError(t, err)
	require.Equal(t, []string{am.URL + "/x", "id-1"}, []string{endpoint, id})
	require.Len(t, bodies, 1)
	require.Equal(t, "Ada", bodies[0]["createdBy"])
	require.Equal(t, "2026-01-02T04:04:05.000Z", bodies[0]["endsAt"])
	require.Equal(t, map[string]any{"name": "alertname", "value": "A", "isRegex": false, "isEqual": true}, bodies[0]["matchers"].([]any)[0])

	for code, want := range map[int]string{400: "status 400", 503: "status 503", 302: "status 302"} {
		codes = []int{code}
		_, _, err = s.Silence(t.Context(), silence)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, closed.URL+": ", "the member that did not answer is named")
	}
}

// A silence that is refused is not sent to another member, which would refuse it as well.
func TestRefusedSilenceIsNotRepeated(t *testing.T) {
	requests := 0
	am := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		http.Error(w, "no", http.StatusBadRequest)
	}))
	t.Cleanup(am.Close)
	s, err := New(Config{URLs: []string{am.URL + "/a", am.URL + "/b"}}, Options{})
	require.NoError(t, err)
	_, _, err = s.Silence(t.Context(), Silence{Labels: map[string]string{"alertname": "A"}})
	require.ErrorContains(t, err, "status 400: no")
	require.Equal(t, 1, requests)
}

// A real Alertmanager has the silence.
func TestRealSilence(t *testing.T) {
	am := servers.Alertmanager(t, servers.AlertmanagerOptions{})
	s, err := New(Config{URLs: []string{am.URL}}, Options{})
	require.NoError(t, err)
	silence := Silence{
		Labels: map[string]string{"alertname": "A", "namespace": `odd "value"`},
		Start:  time.Now(), End: time.Now().Add(time.Hour), Author: "Ada", Comment: "planned work",
	}
	_, id, err := s.Silence(t.Context(), silence)
	require.NoError(t, err)
	resp, err := http.Get(am.URL + "/api/v2/silence/" + id)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got models.GettableSilence
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	require.Equal(t, "active", *got.Status.State)
	require.Equal(t, []string{"Ada", "planned work"}, []string{*got.CreatedBy, *got.Comment})
	require.Len(t, got.Matchers, 2)
	require.Equal(t, `odd "value"`, *got.Matchers[1].Value)
	silence.End = time.Now().Add(-time.Hour)
	_, _, err = s.Silence(t.Context(), silence)
	require.ErrorContains(t, err, "status 400")
}
