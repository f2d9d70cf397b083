package alertmanager

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"crowsnest/episodes"
	"crowsnest/sinks"
	"crowsnest/test/fakeam"
	"crowsnest/test/fault"
)

var errDNS = errors.New("server misbehaving")

func eps(all ...episodes.Episode) []episodes.Episode { return all }

func certificate(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// byHost connects to the fake Alertmanagers am-0, am-1 and so on.
type byHost []*fakeam.AM

func (ams byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	for i, am := range ams {
		if r.URL.Hostname() == fmt.Sprint("am-", i) {
			return am.Transport().RoundTrip(r)
		}
	}
	return nil, errors.New("no route to host")
}

// inDNS runs f with a sink that finds n Alertmanagers by DNS.
func inDNS(t *testing.T, n int, f func(b *bench, dns *fakeDNS)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, dns := &bench{t: t}, &fakeDNS{}
		for range n {
			b.ams = append(b.ams, fakeam.New())
		}
		b.find(dns, nil)
		defer func() { b.stop() }()
		f(b, dns)
	})
}

// find makes a sink that finds Alertmanagers by DNS, from a saved state if there is one, and
// runs it.
func (b *bench) find(dns *fakeDNS, state []byte) {
	b.t.Helper()
	b.logs = &logLines{byMsg: map[string]int{}}
	var err error
	b.sink, err = New(Config{DNSConfigs: []DNSConfig{{Names: []string{"am"}}}}, Options{Log: zerolog.New(discard{}).Hook(b.logs), Transport: byHost(b.ams)})
	require.NoError(b.t, err)
	b.sink.resolver = dns
	if state != nil {
		require.NoError(b.t, b.sink.Import(state))
	}
	b.run()
	synctest.Wait()
}

// again stops the sink and starts the next one with what the first one saved.
func (b *bench) again(dns *fakeDNS) {
	b.t.Helper()
	state, err := b.sink.Export()
	require.NoError(b.t, err)
	b.stop()
	b.find(dns, state)
}

func (b *bench) endpoints() (out []string) {
	for _, st := range b.sink.Status() {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(st.Endpoint, "http://"), ":9093"))
	}
	return out
}

// A member that appears is sent the open alerts, and no alert of which the others notified
// completely. One that goes is notified for a while, and then no longer.
func TestMembersAppearAndGo(t *testing.T) {
	inDNS(t, 3, func(b *bench, dns *fakeDNS) {
		dns.set("am-0")
		b.pass(defaultRefresh)
		open, over := fire("Open"), fire("Over")
		b.notify(open, over)
		b.pass(2 * time.Minute)
		b.notify(end(over))
		b.pass(20 * time.Minute)
		recent := fire("Recent")
		b.notify(recent)
		b.pass(2 * time.Minute)
		recent = end(recent)
		b.notify(recent)

		dns.set("am-2", "am-1", "am-0")
		b.within(10*time.Second, "the open alert", func() bool {
			return b.ams[1].States("Open") == "firing" && b.ams[2].States("Open") == "firing"
		})
		b.notify(fire("New"))
		b.told("New", "firing")
		b.pass(time.Hour)
		b.told("Open", "firing")
		require.Empty(t, b.ams[1].Accepted("Over"))
		require.Equal(t, "resolved", b.ams[1].States("Recent"), "it may not have been notified")
		require.Equal(t, []string{"am-0", "am-2", "am-1"}, b.endpoints())

		dns.set("am-0", "am-2")
		b.pass(time.Minute)
		dns.set("am-0", "am-1", "am-2") // it was back in time
		b.pass(time.Minute)
		dns.set("am-0", "am-2")
		b.pass(time.Minute)
		b.notify(end(open))
		b.told("Open", "firing resolved")
		b.within(2*time.Minute, "it is gone", func() bool { return slices.Equal(b.endpoints(), []string{"am-0", "am-2"}) })
		sent := len(b.ams[1].Posts())
		b.notify(fire("Later"))
		b.pass(time.Hour)
		require.Len(t, b.ams[1].Posts(), sent)
		require.Equal(t, "firing", b.ams[2].States("Later"))
	})
}

// If DNS fails, the last addresses stay, and the status says since when it fails.
func TestLastAddressesStay(t *testing.T) {
	inDNS(t, 2, func(b *bench, dns *fakeDNS) {
		const warning = "the lookup of Alertmanagers failed; alerts go to those that the last lookup found"
		dns.set("am-0", "am-1")
		b.pass(time.Minute)
		require.Equal(t, []sinks.DiscoveryStatus{{Sink: "alertmanager", Discovery: "SRV am", Up: true, Targets: 2, Failures: 1}}, b.sink.Discoveries())
		require.Equal(t, 1, b.logs.byMsg[warning], "before the first answer")
		for i, away := range []func(){func() { dns.fail(errDNS) }, func() { dns.set() }} {
			away()
			b.pass(time.Hour)
			st := b.sink.Discoveries()[0]
			require.False(t, st.Up)
			require.Equal(t, 2, st.Targets)
			require.WithinRange(t, st.FailingSince, time.Now().Add(-time.Hour), time.Now().Add(-time.Hour+defaultRefresh))
			require.Equal(t, []string{"server misbehaving", "the answer has no address"}[i], st.Error)
			require.Equal(t, 2+i, b.logs.byMsg[warning], "once")
			name := fmt.Sprint("A", i)
			b.notify(fire(name))
			b.told(name, "firing")
			dns.set("am-0", "am-1")
			b.pass(defaultRefresh)
			require.True(t, b.sink.Discoveries()[0].Up)
		}

		// They also survive a restart without DNS.
		ep := fire("B")
		b.notify(ep)
		b.pass(2 * time.Minute)
		dns.fail(errDNS)
		b.again(dns)
		ep = end(ep)
		b.notify(ep)
		b.told("B", "firing resolved")
		require.Empty(t, b.ams[0].NeverNotified())
		b.pass(time.Hour)
		require.Equal(t, []string{"am-0", "am-1"}, b.endpoints())
		dns.set("am-1")
		b.pass(3 * time.Minute)
		require.Equal(t, []string{"am-1"}, b.endpoints())
	})
}

// Until a first Alertmanager is found, alerts wait, also over restarts of crowsnest.
func TestAlertsWaitForFirstMember(t *testing.T) {
	inDNS(t, 2, func(b *bench, dns *fakeDNS) {
		dns.fail(errDNS)
		open, short := fire("Open"), fire("Short")
		b.notify(open, short)
		b.pass(time.Minute)
		short = end(short)
		b.notify(short)
		_, _, err := b.sink.Silence(t.Context(), Silence{})
		require.EqualError(t, err, "no Alertmanager was found yet")
		for range 2 {
			b.again(dns)
			b.notify(open)
			b.pass(time.Minute)
		}
		dns.set("am-0", "am-1")
		b.pass(2 * time.Minute)
		b.told("Open", "firing")
		b.told("Short", "firing resolved")
	})
}

// An Alertmanager that comes back with another address, with or without a restart of crowsnest,
// is sent what is open and the last ends, because it may not have notified of them.
func TestAddressChanges(t *testing.T) {
	f := func(restarts bool) {
		t.Helper()
		inDNS(t, 2, func(b *bench, dns *fakeDNS) {
			dns.set("am-0")
			open, ended, during := fire("Open"), fire("Ended"), fire("During")
			b.notify(open, ended, during)
			b.pass(2 * time.Minute)
			ended = end(ended)
			b.notify(ended)
			b.ams[0].Set(fault.Reset)
			dns.set("am-1")
			during = end(during)
			b.notify(during)
			if restarts {
				b.again(dns)
				b.notify(open, ended, during)
			}
			b.within(10*time.Second, "the open alert", func() bool { return b.ams[1].States("Open") == "firing" })
			b.pass(5 * time.Minute)
			require.Equal(t, "resolved", b.ams[1].States("Ended"))
			require.Equal(t, "firing resolved", b.ams[1].States("During"))
			require.Equal(t, []string{"am-1"}, b.endpoints())
		})
	}
	f(false)
	f(true)
}

// A member that restarted leaves the end of an alert to the member that notified people. When
// that member goes before it accepted the end, the other one sends it.
func TestEndsOfMemberThatGoes(t *testing.T) {
	inDNS(t, 2, func(b *bench, dns *fakeDNS) {
		b.ams[0].SetCluster("one", "two")
		b.ams[1].SetCluster("two", "one")
		dns.set("am-0", "am-1")
		b.pass(defaultRefresh)
		ep := fire("A")
		b.notify(fire("Open"), ep)
		b.pass(5 * time.Minute)
		b.ams[1].Set(fault.Reset)
		b.pass(time.Minute)
		b.ams[0].Refuse(func(labels map[string]string) bool { return labels["alertname"] == "A" })
		b.ams[0].Set(fault.Slow(time.Minute / 2)) // it answers, but the end does not arrive
		b.notify(end(ep))
		b.ams[1].SetCluster("two again", "one")
		b.ams[1].Restart()
		b.ams[1].Set(nil)
		b.pass(10 * time.Second)
		require.NotContains(t, b.ams[1].States("A"), "resolved")
		dns.set("am-1")
		b.pass(5 * time.Minute)
		require.Equal(t, []string{"am-1"}, b.endpoints())
		require.Contains(t, b.ams[1].States("A"), "resolved")
	})
}

// What is kept of Alertmanagers that are gone is bounded, however often the answer changes.
func TestMissingMembersAreBounded(t *testing.T) {
	inDNS(t, 1, func(b *bench, dns *fakeDNS) {
		dns.set("am-0")
		b.pass(time.Minute)
		ep := fire("A")
		b.notify(ep)
		for i := range 10 {
			hosts := []string{"am-0"}
			for j := range maxFound - 1 {
				hosts = append(hosts, fmt.Sprintf("gone-%d-%d", i, j))
			}
			dns.set(hosts...)
			b.pass(2 * defaultRefresh)
			require.LessOrEqual(t, len(b.endpoints()), maxFound+maxMissing)
		}
		dns.set("am-0")
		b.pass(5 * time.Minute)
		require.Equal(t, []string{"am-0"}, b.endpoints())
		state, err := b.sink.Export()
		require.NoError(t, err)
		require.NotContains(t, string(state), "gone")
		b.notify(end(ep))
		b.told("A", "firing resolved")
	})
}
