package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/episodes/history"
)

// pastView returns a view whose history has these entries, in this order.
func pastView(all ...*history.Entry) View {
	v := exampleView()
	v.History = func() []*history.Entry { return all }
	v.PastEpisodes = func(fp episodes.Fingerprint) (out []*history.Entry) {
		for _, e := range all {
			if e.Fingerprint == uint64(fp) {
				out = append(out, e)
			}
		}
		return out
	}
	return v
}

// pastEntry returns an episode of an alert in a namespace that began hours ago and lasted 12
// minutes.
func pastEntry(alert, namespace string, hours int) *history.Entry {
	labels := map[string]string{"alertname": alert, "severity": "critical", "namespace": namespace}
	from := now.Add(-time.Duration(hours) * time.Hour)
	return &history.Entry{
		Fingerprint: uint64(episodes.FingerprintOf(labels)), Alert: alert, Pack: "demo", Reason: "clear", Labels: labels, Summary: "the lease of " + namespace + " is lost",
		StartsAt: from, FiredAt: from, LastSeen: from, EndsAt: from.Add(12 * time.Minute), ConcludedAt: from.Add(12 * time.Minute), Lines: 3, Notified: 2, Flaps: hours % 2,
	}
}

func queryPast(t *testing.T, s *Server, params url.Values) History {
	t.Helper()
	w := request(s, "GET", "/api/v1/history?"+params.Encode())
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var answer struct{ Data History }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	return answer.Data
}

func TestHistorySelects(t *testing.T) {
	s := newTestServer(t, pastView(
		pastEntry("LeaseLost", "team-a", 1), pastEntry("EtcdSlow", "kube-system", 3), pastEntry("LeaseLost", "team-q", 30), pastEntry("LeaseLost", "team-a", 300),
	), Options{})
	f := func(want string, params ...string) {
		t.Helper()
		v := url.Values{}
		for i := 0; i < len(params); i += 2 {
			v.Add(params[i], params[i+1])
		}
		got := queryPast(t, s, v)
		var names []string
		for _, e := range got.Episodes {
			names = append(names, fmt.Sprintf("%s/%s-%.0f", e.Alert, e.Labels["namespace"], now.Sub(e.StartsAt).Hours()))
		}
		require.Equal(t, want, strings.Join(names, " "))
		require.Equal(t, len(names), got.Total)
	}
	all := "LeaseLost/team-a-1 EtcdSlow/kube-system-3 LeaseLost/team-q-30 LeaseLost/team-a-300"
	f(all)
	f(all, "filter", `cluster="east"`)
	f("", "filter", `cluster="west"`)
	f("LeaseLost/team-a-1 LeaseLost/team-a-300", "filter", `{namespace="team-a"}`)
	f("LeaseLost/team-q-30", "q", "LEASE team-q")
	f("EtcdSlow/kube-system-3", "q", "namespace=kube-system", "match[]", "severity=critical")
	f("", "q", "team-a etcd")
	f("LeaseLost/team-a-1 EtcdSlow/kube-system-3", "from", "1d")
	f("LeaseLost/team-q-30", "to", "1d", "from", "2d")
	f("LeaseLost/team-q-30 LeaseLost/team-a-300", "to", now.Add(-24*time.Hour).Format(time.RFC3339))
	f("LeaseLost/team-q-30", "from", fmt.Sprint(now.Add(-29*time.Hour-50*time.Minute).Unix()), "to", "1d")
	f("LeaseLost/team-q-30", "fingerprint", episodes.Fingerprint(pastEntry("LeaseLost", "team-q", 1).Fingerprint).String())
	shown := map[string]string{"alertname": "LeaseLost", "severity": "critical", "namespace": "team-q", "cluster": "east"}
	f("LeaseLost/team-q-30", "fingerprint", episodes.FingerprintOf(shown).String())
}

func TestHistoryPages(t *testing.T) {
	var all []*history.Entry
	for n := range 25 {
		all = append(all, pastEntry("A", fmt.Sprint("n", n), n/2)) // two begin at the same time
	}
	s := newTestServer(t, pastView(all...), Options{})
	// Those that begin at the same time are ordered by fingerprint.
	for i := 0; i+1 < len(all); i += 2 {
		if all[i].Fingerprint > all[i+1].Fingerprint {
			all[i], all[i+1] = all[i+1], all[i]
		}
	}
	var got []PastEpisode
	params := url.Values{"limit": {"7"}}
	for range 4 {
		page := queryPast(t, s, params)
		require.Equal(t, 25, page.Total)
		got = append(got, page.Episodes...)
		if page.Next == "" {
			break
		}
		params.Set("after", page.Next)
	}
	require.Len(t, got, 25)
	for i := range got {
		require.Equal(t, all[i].Labels["namespace"], got[i].Labels["namespace"])
	}
	require.Empty(t, queryPast(t, s, url.Values{"limit": {"0"}}).Episodes)
}

func TestHistoryRefuses(t *testing.T) {
	s := newTestServer(t, pastView(pastEntry("A", "a", 1)), Options{})
	f := func(query, want string) {
		t.Helper()
		for _, path := range []string{"/api/v1/history?", "/history?"} {
			w := request(s, "GET", path+query)
			require.Equal(t, 400, w.Code, query)
			require.Contains(t, strings.ReplaceAll(w.Body.String(), `\"`, `"`), want)
		}
	}
	f("from=yesterday", "is not a time; write 2026-03-11T04:00:00Z")
	f("to=-5", "is not a time")
	f("limit=1001", "is not a number from 0 to 1000")
	f("limit=-1", "is not a number")
	f("after=x", "must be the value of `next`")
	f("fingerprint=12", "is not 16 hexadecimal digits")
	f("filter=%7Ba%3D~%22(%22%7D", "missing closing")
	f("%zz", "the query cannot be read")
	w := request(s, "GET", "/api/v1/history?q="+strings.Repeat("x", maxWords+1))
	require.Equal(t, 400, w.Code)
}

func TestSplitSearch(t *testing.T) {
	f := func(text, words string, filters ...string) {
		t.Helper()
		gotFilters, gotWords := splitSearch(text)
		require.Equal(t, words, gotWords)
		require.Equal(t, filters, gotFilters)
	}
	f("", "")
	f("etcd slow", "etcd slow")
	f(`severity="critical" etcd namespace=~"a b.*"`, "etcd", `severity="critical"`, `namespace=~"a b.*"`)
	f(`{a="x}", b!="y"} lease`, "lease", `{a="x}", b!="y"}`)
	f(`{broken`, "{broken")
	f(`a="x", b="y"`, "", `a="x"`, `b="y"`)
}

func TestHistoryPage(t *testing.T) {
	hostileEntry := pastEntry("LeaseLost", hostile, 2)
	hostileEntry.Summary = hostile
	hostileEntry.Cause = &history.Cause{Fingerprint: 1, Alert: "Cause", StartsAt: now}
	s := newTestServer(t, pastView(pastEntry("LeaseLost", "team-a", 1), hostileEntry, pastEntry("Gone", "team-a", 50)), Options{})
	w := request(s, "GET", "/history")
	require.Equal(t, 200, w.Code)
	body := w.Body.String()
	require.NotContains(t, body, "<script>alert")
	require.NotContains(t, body, "style=", "the policy forbids it")
	for _, want := range []string{
		"3 alerts that ended", "Noisy rules", "Fri 2 Jan", "Wed 31 Dec", "12m 0s", "<i>namespace</i> team-a", "symptom of", "a log line reports the recovery",
		`href="/history?from=2026-01-01&amp;to=2026-01-02"`, `class="level-4 critical"`,
	} {
		require.Contains(t, body, want)
	}
	require.Contains(t, request(s, "GET", "/history?filter=leaselost+namespace%3Dteam-a").Body.String(), "1 alert that ended")
	require.Contains(t, request(s, "GET", "/history?filter=nothing").Body.String(), "No remembered alert matches.")

	forwarded := pastView()
	forwarded.Unknown = func() Unknown { return Unknown{Forwarded: true} }
	require.Contains(t, request(newTestServer(t, forwarded, Options{}), "GET", "/history").Body.String(), "the aggregator has the history")
}

// An alert that only the history has is found, by page and API.
func TestRememberedEpisode(t *testing.T) {
	e := pastEntry("LeaseLost", "team-z", 100)
	s := newTestServer(t, pastView(e), Options{})
	shown := map[string]string{"cluster": "east"}
	for name, value := range e.Labels {
		shown[name] = value
	}
	for _, fp := range []string{episodes.Fingerprint(e.Fingerprint).String(), episodes.FingerprintOf(shown).String()} {
		w := request(s, "GET", "/episodes/"+fp)
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), "the lease of team-z is lost")
		require.Contains(t, w.Body.String(), "east")
		require.Contains(t, w.Body.String(), `<a href="/rules/LeaseLost">`)
		w = request(s, "GET", "/api/v1/episodes/"+fp+"/timeline")
		require.Equal(t, 200, w.Code)
		require.Contains(t, w.Body.String(), `"externalLabels":{"cluster":"east"}`)
	}
}

func TestSeen(t *testing.T) {
	open := pastEntry("LeaseLost", "team-a", 0)
	f := func(want string, hours ...int) {
		t.Helper()
		var all []*history.Entry
		for _, h := range hours {
			all = append(all, pastEntry("LeaseLost", "team-a", h))
		}
		s := newTestServer(t, pastView(all...), Options{})
		e := pastEpisode(open, s.view.Rules().Set, externalLabels(s.view))
		got := s.earlierEpisodes(&e)
		if want == "" {
			require.Nil(t, got)
			return
		}
		require.Equal(t, want, got.Text)
		require.Equal(t, len(hours), got.Total)
		require.InDelta(t, 720, got.Seconds, 0)
	}
	f("")
	f("seen once in 7 days, last for 12m 0s, ended 48m 0s ago", 1)
	f("seen 2 times in 7 days, last for 12m 0s, ended 48m 0s ago", 1, 100, 200)
	f("seen 2 times before, last for 12m 0s, ended 8d 7h ago", 200, 300)
	s := newTestServer(t, pastView(open), Options{})
	e := pastEpisode(open, s.view.Rules().Set, externalLabels(s.view))
	require.Nil(t, s.earlierEpisodes(&e), "itself does not count")
}

func TestSeenIsShown(t *testing.T) {
	v := exampleView()
	v.PastEpisodes = func(fp episodes.Fingerprint) []*history.Entry {
		e := pastEntry("LeaseLost", "team-a", 2)
		e.Fingerprint = uint64(fp)
		return []*history.Entry{e}
	}
	s := newTestServer(t, v, Options{})
	for _, path := range []string{"/", "/episodes/0000000000000abc", "/api/v1/episodes", "/api/v1/episodes/0000000000000abc"} {
		require.Contains(t, request(s, "GET", path).Body.String(), "seen once in 7 days, last for 12m 0s, ended 1h 48m ago", path)
	}
}
