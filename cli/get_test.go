package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// daemonSays answers like a daemon, by path.
func daemonSays(t *testing.T, answers map[string]string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			body = `{"status":"error","errorType":"not_found","error":"no open or lately resolved episode has this fingerprint"}`
		}
		w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// asked runs a command and returns what it prints and how it ends.
func asked(env map[string]string, args ...string) (out, errs string, code int) {
	var o, e bytes.Buffer
	c := &cli{in: strings.NewReader(""), out: &o, err: &e, getenv: func(name string) string { return env[name] }}
	root := newRoot(c)
	root.SetArgs(args)
	code = c.exit(root.Execute())
	return o.String(), e.String(), code
}

func TestGetRules(t *testing.T) {
	url := daemonSays(t, map[string]string{"/api/v1/rules": `{"status":"success","data":{"groups":[{"name":"demo","rules":[
		{"name":"Seen","severity":"critical","health":"ok","streams":3,"tries":12,"evaluationSeconds":0.25,"matches":7,"lastMatch":"2026-01-01T10:00:00Z","lastSeenLine":"2026-01-01T10:00:05Z","firing":1,"pending":2},
		{"name":"Blind","severity":"info","health":"blind","streams":0,"matches":0}]}]}}`})
	want := strings.Join([]string{
		"RULE   PACK  SEVERITY  HEALTH  OPEN           STREAMS  LAST LINE             MATCHES  LAST MATCH            TRIES  SECONDS",
		"Seen   demo  critical  ok      1 + 2 pending  3        2026-01-01T10:00:05Z  7        2026-01-01T10:00:00Z  12     0.250",
		"Blind  demo  info      blind   0              0        never                 0        never                 0      0.000", "",
	}, "\n")
	out, errs, code := asked(nil, "get", "rules", "--url", url)
	require.Zero(t, code, errs)
	require.Equal(t, want, out)
	out, _, code = asked(map[string]string{"CROWSNEST_URL": url}, "get", "rules")
	require.Zero(t, code)
	require.Equal(t, want, out)
	out, _, code = asked(map[string]string{"CROWSNEST_URL": url}, "get", "rules", "-o", "json")
	require.Zero(t, code)
	require.JSONEq(t, `3`, strings.TrimSpace(strings.Split(strings.Split(out, `"streams":`)[1], ",")[0]))
}

func TestTimelineOfEpisode(t *testing.T) {
	url := daemonSays(t, map[string]string{"/api/v1/episodes/0000000000000abc/timeline": `{"status":"success","data":{
		"episode":{"fingerprint":"0000000000000abc","alert":"LeaseLost","state":"firing","labels":{"alertname":"LeaseLost","severity":"critical","namespace":"team-a"}},
		"skipped":2,"events":[
		{"at":"2026-01-01T10:00:00Z","kind":"counted","text":"4 of 5 counted"},
		{"at":"2026-01-01T10:00:01Z","kind":"opened","text":"the condition became true","line":"leader\u001b[31melection lost"},
		{"kind":"held","text":"on hold: no progress from source kubelet"}]}}`})
	out, errs, code := asked(nil, "get", "episode", "0000000000000abc", "--url", url)
	require.Zero(t, code, errs)
	require.Equal(t, strings.Join([]string{
		"LeaseLost firing: namespace=team-a", "",
		"2026-01-01T10:00:00Z  4 of 5 counted",
		"2026-01-01T10:00:01Z  the condition became true",
		"                        leaderelection lost",
		"now                   on hold: no progress from source kubelet",
		"                      not kept: 2 events between the first and the newest", "",
	}, "\n"), out)
	_, errs, code = asked(nil, "get", "episode", "0000000000000def", "--url", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "no open or lately")
	_, _, code = asked(nil, "get", "episode", "../rules", "--url", url)
	require.Equal(t, exitUsage, code)
}

// get alerts lists what is open, with the fingerprints of episodes; the JSON is that of the
// endpoint alerts.
func TestGetAlerts(t *testing.T) {
	url := daemonSays(t, map[string]string{
		"/api/v1/alerts": `{"status":"success","data":{"alerts":[]}}`,
		"/api/v1/episodes": `{"status":"success","data":{"episodes":[
			{"fingerprint":"00000000000000ab","alert":"LeaseLost","state":"firing","labels":{"severity":"critical","pod":"a"},"annotations":{"summary":"lost"},"startsAt":"2026-01-01T10:00:00Z","lastSeen":"2026-01-01T10:00:05Z","count":3,"line":"leaderelection lost","cause":{"alert":"EtcdSlow"}},
			{"fingerprint":"00000000000000ac","alert":"Ended","state":"resolved","labels":{},"startsAt":"2026-01-01T10:00:00Z"},
			{"fingerprint":"00000000000000ad","alert":"Quiet","state":"firing","silent":true,"labels":{},"startsAt":"2026-01-01T10:00:00Z"}]}}`,
	})
	out, errs, code := asked(nil, "get", "alerts", "--url", url)
	require.Zero(t, code, errs)
	require.Regexp(t, `^FINGERPRINT +ALERT +STATE +SEVERITY +AGE +SYMPTOM OF +SUMMARY\n00000000000000ab +LeaseLost +firing +critical +[0-9]+d +EtcdSlow +lost\n$`, out)
	out, _, _ = asked(nil, "get", "alerts", "--url", url, "-o", "wide")
	require.Regexp(t, `lost +pod=a +3 +2026-01-01T10:00:00Z +2026-01-01T10:00:05Z +leaderelection lost\n$`, out)
	out, _, _ = asked(nil, "get", "episodes", "--url", url)
	require.Equal(t, 4, strings.Count(out, "\n"))
	out, _, _ = asked(nil, "get", "alerts", "--url", url, "-o", "json")
	require.JSONEq(t, `{"alerts":[]}`, out)
	_, _, code = asked(nil, "get", "alerts", "--url", "http://localhost:1")
	require.Equal(t, exitFailed, code, "a daemon that does not answer")
}
