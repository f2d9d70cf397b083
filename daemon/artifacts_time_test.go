package daemon

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/rules"
	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
)

// broken reports whether the artifact is shown as broken, at the present time of the
// clock.
func (s *ship) broken(p publisher) bool {
	_, metrics := s.get("/metrics")
	return strings.Contains(metrics, `crowsnest_pack_broken{pack="`+p.Host+`/team/packs"} 1`)
}

// visited waits until the registry was visited again from beginning to end.
func (s *ship) visited(p publisher) {
	s.t.Helper()
	from := p.Requests()
	s.eventually(func() bool { return p.Requests() >= from+20 }, "the registry is visited")
}

// works writes a line, and waits until the alert of its rule fires again.
func (s *ship) works(alert, namespace, text string) {
	s.t.Helper()
	s.log(namespace+"/vc-0", text)
	s.eventually(func() bool {
		_, body := s.get("/api/v1/alerts")
		return strings.Contains(body, `"`+alert+`"`) && strings.Contains(body, `"`+namespace+`"`)
	}, alert+" of "+namespace+" fires")
}

// inForce waits until a rule is in force.
func (s *ship) inForce(rule string) {
	s.t.Helper()
	s.eventually(func() bool { _, body := s.get("/api/v1/rules"); return strings.Contains(body, `"`+rule+`"`) }, rule+" is in force")
}

func outOfService(w http.ResponseWriter, _ *http.Request) bool {
	http.Error(w, "out of service", http.StatusServiceUnavailable)
	return true
}

// A registry may be away for an hour before people are notified.
func TestDaemonReportsUnreachableRegistryAfterAnHour(t *testing.T) {
	s := newShip(t)
	s.passes = true
	p := newPublisher(t)
	s.cfg = p.entry(nil)
	p.publish("1.0.0", rulefolder.Pack("b", "B", "text of b"), p.key.PrivateKey)
	s.start()
	s.inForce("B")
	p.Instead(outOfService)
	s.visited(p)
	require.False(t, s.broken(p))
	s.clock.Set(58 * time.Minute)
	s.visited(p)
	require.False(t, s.broken(p), "it may come back")
	s.clock.Set(3 * time.Minute)
	s.refused("503")
	require.True(t, s.broken(p))
	s.works("B", "team-a", "text of b")
	p.Instead(nil)
	s.clock.Set(time.Minute) // the time until the next try has passed
	s.eventually(func() bool { return s.am.resolved("CrowsnestPackBroken") }, "it answers again")
}

// publishUntil is publish with an expiry.
func (p publisher) publishUntil(version, pack string, expires time.Time) {
	p.t.Helper()
	a, err := artifact.New([]rules.File{{Name: "b.yaml", Data: []byte(pack)}}, artifact.Info{Title: "packs", Version: version, Expires: expires})
	require.NoError(p.t, err)
	ref, err := artifact.ParseReference(p.Host + "/team/packs:" + version)
	require.NoError(p.t, err)
	r, err := artifact.Open(ref, artifact.Options{PlainHTTP: true})
	require.NoError(p.t, err)
	defer r.Close()
	require.NoError(p.t, r.Push(p.t.Context(), a))
	require.NoError(p.t, r.Sign(p.t.Context(), a, p.key.PrivateKey))
	require.NoError(p.t, r.Push(p.t.Context(), a, "stable"))
}

// A version that expires stays in force, also over a restart, and people are notified at
// once, whether the registry answers or not.
func TestDaemonKeepsExpiredVersion(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("registry away=%v", away), func(t *testing.T) {
			s := newShip(t)
			s.passes = true
			p := newPublisher(t)
			s.cfg = p.entry(nil)
			p.publishUntil("1.0.0", rulefolder.Pack("b", "B", "text of b"), time.Now().Add(30*time.Minute))
			s.start()
			s.inForce("B")
			if away {
				p.Instead(outOfService)
			}
			s.eventually(func() bool {
				_, metrics := s.get("/metrics")
				return strings.Contains(metrics, `crowsnest_artifact_info{artifact="`+p.Host+`/team/packs",title="packs",version="1.0.0"} 1`) &&
					strings.Contains(metrics, `crowsnest_artifact_expires_timestamp_seconds{artifact="`+p.Host+`/team/packs"} `)
			}, "the metrics show the version")
			s.clock.Set(25 * time.Minute)
			require.False(t, s.broken(p))
			s.clock.Set(10 * time.Minute)
			s.refused("version 1.0.0 of packs expired at ")
			require.True(t, s.broken(p))
			s.works("B", "team-a", "text of b")
			s.stop()
			s.start()
			require.True(t, s.broken(p), "at once after a restart")
			s.inForce("B")
			s.works("B", "team-b", "text of b")

			p.Instead(nil)
			p.publishUntil("1.1.0", rulefolder.Pack("b", "C", "text of c"), time.Now().Add(24*time.Hour))
			s.clock.Set(time.Minute)
			s.inForce("C")
			s.eventually(func() bool { return s.am.resolved("CrowsnestPackBroken") }, "the newer version has not expired")
			s.stop()
		})
	}
}

// A signer whose key was removed is not trusted any more: the version in force stays, and
// people are notified.
func TestDaemonKeepsVersionOfRemovedKey(t *testing.T) {
	s := newShip(t)
	p := newPublisher(t)
	s.cfg = p.entry(nil)
	p.publish("1.0.0", rulefolder.Pack("b", "B", "text of b"), p.key.PrivateKey)
	s.start()
	s.inForce("B")
	s.stop()
	other, err := os.ReadFile(packregistry.NewKey(t).Public)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.key.Public, other, 0o600))
	s.start()
	s.refused("none was made with the given public key")
	s.works("B", "team-a", "text of b")
	s.stop()
}
