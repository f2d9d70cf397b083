package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const pastAnswer = `{"status":"success","data":{"total":3,"next":"17-00000000000000aa","episodes":[
	{"fingerprint":"00000000000000aa","alert":"LeaseLost","labels":{"alertname":"LeaseLost","severity":"critical","cluster":"east","namespace":"a"},"summary":"lost\u001b[31m",
	 "startsAt":"2026-01-01T10:00:00Z","endsAt":"2026-01-01T10:12:00Z","durationSeconds":720,"count":3,"notified":2,"flaps":1,"reason":"clear","cause":{"alert":"NodeDown"}}],
	"days":[],"rules":[{"alert":"LeaseLost","episodes":3,"alerts":2,"notified":6,"flaps":1,"durationSeconds":2160,"lastStartsAt":"2026-01-01T10:00:00Z"}]}}`

func TestGetHistory(t *testing.T) {
	var query url.Values
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/api/v1/history", r.URL.Path)
		query = r.URL.Query()
		w.Write([]byte(pastAnswer))
	}))
	t.Cleanup(srv.Close)
	out, errs, code := asked(nil, "get", "history", "--url", srv.URL, "severity=critical", `{a="b"}`, "00000000000000aa", "etcd", "slow", "--since", "7d")
	require.Zero(t, code, errs)
	require.Equal(t, url.Values{"filter": {"severity=critical", `{a="b"}`}, "fingerprint": {"00000000000000aa"}, "q": {"etcd", "slow"}, "from": {"7d"}, "limit": {"100"}}, query)
	require.Equal(t, strings.Join([]string{
		"FINGERPRINT       ALERT      SEVERITY  BEGAN                 LASTED  NOTIFIED  FLAPS  WHERE",
		"00000000000000aa  LeaseLost  critical  2026-01-01T10:00:00Z  12m 0s  2         1      cluster=east namespace=a", "",
		"RULE       NOTIFIED  FLAPS  EPISODES  ALERTS  TIME FIRING  NEWEST",
		"LeaseLost  6         1      3         2       36m 0s       2026-01-01T10:00:00Z", "",
		"There are older entries; list them with --after 17-00000000000000aa", "",
	}, "\n"), out)
	out, _, code = asked(nil, "get", "history", "--url", srv.URL, "-o", "wide")
	require.Zero(t, code)
	require.Contains(t, out, "a log line reports the recovery")
	require.Contains(t, out, "NodeDown")
	require.NotContains(t, out, "\x1b")
	out, _, code = asked(nil, "get", "history", "--url", srv.URL, "-o", "json")
	require.Zero(t, code)
	require.True(t, json.Valid([]byte(out)))
	_, errs, code = asked(nil, "get", "history", "--url", srv.URL, "--limit", "1001")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "1000")
}

func TestGetEpisode(t *testing.T) {
	const fp = "00000000000000aa"
	daemon := daemonSays(t, map[string]string{
		"/api/v1/episodes/" + fp + "/timeline": `{"status":"success","data":{"episode":{"fingerprint":"` + fp + `","alert":"A","state":"firing","labels":{"pod":"p"},"seen":{"text":"seen once in 7 days"}},"events":[{"kind":"opened","text":"the condition became true"}]}}`,
	})
	out, errs, code := asked(nil, "get", "episode", fp, "--url", daemon)
	require.Zero(t, code, errs)
	require.Contains(t, out, "A firing: pod=p\nseen once in 7 days\n")
	out, _, code = asked(nil, "get", "episode", fp, "--url", daemon, "-o", "json")
	require.Zero(t, code)
	var got struct {
		Episode struct{ Alert string }
		Events  []any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, "A", got.Episode.Alert)
	require.Len(t, got.Events, 1)
	_, errs, code = asked(nil, "get", "episode", "12", "--url", daemon)
	require.Equal(t, 2, code)
	require.Contains(t, errs, "is not a fingerprint of 16 hexadecimal digits")
}

func TestGetStatus(t *testing.T) {
	data := func(text string) string { return `{"status":"success","data":` + text + `}` }
	daemon := daemonSays(t, map[string]string{
		"/api/v1/status/buildinfo":   data(`{"version":"1.2.3","revision":"abc","goVersion":"go1"}`),
		"/api/v1/status/runtimeinfo": data(`{"startTime":"2026-01-01T10:00:00Z","missing":["no rules are loaded"],"absent":["source loki is down"],"stateSaved":"0001-01-01T00:00:00Z","stateSaveErrors":2}`),
		"/api/v1/status/config":      data(`{"yaml":"global:\n  x: 1\n"}`),
		"/api/v1/status/flags":       data(`{"log.level":"info"}`),
	})
	out, errs, code := asked(nil, "get", "status", "--url", daemon)
	require.Zero(t, code, errs)
	for _, want := range []string{"1.2.3 (abc, go1)", "no: no rules are loaded", "source loki is down", "never, 2 failures", "--log.level", "\nglobal:\n  x: 1\n"} {
		require.Contains(t, out, want)
	}
	out, _, code = asked(nil, "get", "status", "--url", daemon, "-o", "json")
	require.Zero(t, code)
	require.True(t, json.Valid([]byte(out)))
	require.Contains(t, out, `"buildinfo"`)
}
