package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// A standby shows the leader's pages, and its own metrics and probes. Two standbys do not
// pass a request to each other.
func TestForward(t *testing.T) {
	to := ""
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "standby") })
	standby := httptest.NewServer((&Server{opt: Options{LeaderAddress: func() string { return to }}}).forwardToLeader(own))
	t.Cleanup(standby.Close)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "leader "+r.Host+r.URL.String())
	}))
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get(standby.URL + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	_, body := get("/alerts")
	require.Equal(t, "standby", body)
	to = leader.URL
	_, body = get("/alerts?a=b")
	require.Equal(t, "leader "+standby.Listener.Addr().String()+"/alerts?a=b", body)
	for _, path := range []string{"/metrics", "/-/ready", "/-/healthy"} {
		_, body = get(path)
		require.Equal(t, "standby", body)
	}
	to = standby.URL
	_, body = get("/alerts")
	require.Equal(t, "standby", body, "it went round once")
	leader.Close()
	to = leader.URL
	code, body := get("/alerts")
	require.Equal(t, http.StatusBadGateway, code)
	require.Contains(t, body, "this process is the standby")
}

// The page Status says who leads, and whether the other one could take over.
func TestPairOnStatus(t *testing.T) {
	for want, pair := range map[string]Pair{
		"this process; it took the lead":                                        {Leads: true, Since: now, StandbyUp: true},
		"has the state of the leader, 0.5 s behind":                             {Leads: true, StandbyUp: true, Lag: 0.5},
		"none has what was saved: if this process dies with its disk":           {Leads: true},
		"the process of <code>http://10.0.0.1:9796</code>":                      {Leader: "http://10.0.0.1:9796"},
		"this process: cannot take over without a loss: there is no leader yet": {Problem: "there is no leader yet"},
		"this process: has the state of the leader":                             {StandbyUp: true},
		"decided by <code>Lease crowsnest/crowsnest-aggregator</code>":          {Record: "Lease crowsnest/crowsnest-aggregator"},
	} {
		view := exampleView()
		view.Status = func() Status { return Status{Pair: &pair} }
		require.Contains(t, request(newTestServer(t, view, Options{}), "GET", "/status").Body.String(), want)
	}
}
