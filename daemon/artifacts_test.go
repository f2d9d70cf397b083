package daemon

import (
	"crypto/ecdsa"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/daemon/loader"
	"crowsnest/rules"
	"crowsnest/test/packregistry"
	"crowsnest/test/rulefolder"
)

// publisher publishes packs for a daemon under test.
type publisher struct {
	*packregistry.Registry
	t   *testing.T
	key packregistry.Key
}

func newPublisher(t *testing.T) publisher {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return publisher{packregistry.Start(t), t, packregistry.NewKey(t)}
}

// entry is the configuration of its artifact.
func (p publisher) entry(shadow *config.Shadow) func(*config.Config) {
	return func(c *config.Config) {
		c.Rules.Artifacts = []config.Artifact{{
			Reference: p.Host + "/team/packs:stable", PublicKeyFile: p.key.Public, PlainHTTP: true, Interval: 50 * time.Millisecond, Shadow: shadow,
		}}
	}
}

// publish publishes a pack as a version, and returns its digest. key may be nil.
func (p publisher) publish(version, pack string, key *ecdsa.PrivateKey) string {
	p.t.Helper()
	a, err := artifact.New([]rules.File{{Name: "b.yaml", Data: []byte(pack)}}, artifact.Info{Title: "packs", Version: version})
	require.NoError(p.t, err)
	ref, err := artifact.ParseReference(p.Host + "/team/packs:" + version)
	require.NoError(p.t, err)
	r, err := artifact.Open(ref, artifact.Options{PlainHTTP: true})
	require.NoError(p.t, err)
	defer r.Close()
	require.NoError(p.t, r.Push(p.t.Context(), a))
	if key != nil {
		require.NoError(p.t, r.Sign(p.t.Context(), a, key))
	}
	require.NoError(p.t, r.Push(p.t.Context(), a, "stable"))
	return a.Digest
}

// refused waits until the alert about the artifact says why it is not in force.
func (s *ship) refused(why string) {
	s.t.Helper()
	s.eventually(func() bool {
		_, body := s.get("/api/v1/alerts")
		return strings.Contains(body, "CrowsnestPackBroken") && strings.Contains(body, why)
	}, why)
}

func TestDaemonFetchesArtifacts(t *testing.T) {
	s := newShip(t)
	p := newPublisher(t)
	s.cfg = p.entry(nil)
	s.start() // the registry has nothing yet
	s.refused("does not have it")
	s.refused("there is no earlier version")
	p.publish("1.0.0", rulefolder.Pack("b", "B", "text of b"), p.key.PrivateKey)
	s.eventually(func() bool { return s.am.resolved("CrowsnestPackBroken") }, "the pack is there")
	s.log("vc-0", "text of b")
	s.eventually(func() bool { return len(s.am.firing("B")) == 1 }, "its rule works")

	// Bad packs are not put in force.
	c := rulefolder.Pack("c", "C", "text of c")
	p.publish("1.1.0", c, nil)
	s.refused("is not signed")
	p.publish("1.1.1", c, packregistry.NewKey(t).PrivateKey)
	s.refused("none was made with the given public key")
	p.publish("0.9.0", c, p.key.PrivateKey)
	s.refused("is older than version 1.0.0, which is in use")
	p.publish("1.2.0", strings.Replace(c, `line: "text of c`, `line: "other`, 1), p.key.PrivateKey)
	s.refused("1 tests, 1 failed")
	p.publish("1.3.0", rulefolder.Pack("c", "A", "text of a"), p.key.PrivateKey)
	s.refused("does not fit the other rules")
	require.False(t, s.am.resolved("B"), "the last good version stays")

	// The registry hangs: the copy is enough for a start.
	s.stop()
	p.Instead(func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true })
	s.start()
	s.log("vc-1", "text of b")
	s.eventually(func() bool { _, body := s.get("/api/v1/alerts"); return strings.Contains(body, `"B"`) }, "the rule works")
	s.stop()
	p.Instead(nil)
	p.publish("2.0.0", c, p.key.PrivateKey)
	s.start()
	s.eventually(func() bool { return s.am.resolved("B") }, "the new version removes the rule")
	s.log("vc-1", "text of c")
	s.eventually(func() bool { return len(s.am.firing("C")) == 1 }, "and has another one")
	s.stop()
}

// A new version with too many differences is never promoted; one without is.
func TestDaemonShadow(t *testing.T) {
	s := newShip(t)
	p := newPublisher(t)
	s.cfg, s.grace = p.entry(&config.Shadow{For: 2 * time.Second}), time.Millisecond
	first := rulefolder.Pack("b", "B", "text of b")
	p.publish("1.0.0", first, p.key.PrivateKey)
	s.start()
	s.eventually(func() bool { _, body := s.get("/api/v1/rules"); return strings.Contains(body, `"B"`) }, "the first version is in force")

	// It fires on more lines.
	bad := p.publish("1.1.0", strings.ReplaceAll(first, `match: "text of b"`, "match: text"), p.key.PrivateKey)
	shadow := func(want string) {
		t.Helper()
		s.eventually(func() bool { _, body := s.get("/api/v1/status/shadow"); return strings.Contains(body, want) }, want)
	}
	shadow(bad)
	s.log("vc-0", "text of b")
	s.eventually(func() bool { return len(s.am.firing("B")) == 1 }, "the version in force works")
	s.am.mu.Lock()
	s.am.posts = nil
	s.am.mu.Unlock()
	s.log("team-b/vc-1", "some text")
	s.refused("1 alerts differ, more than the budget of 0: B (1 only in the new version, 0 only in the one in force)")
	require.Empty(t, s.am.firing("B"), "a shadow notifies nobody")
	shadow(`"refused":"1 alerts differ`)
	_, page := s.get("/status")
	require.Contains(t, page, "is not promoted")
	_, metrics := s.get("/metrics")
	require.Contains(t, metrics, `crowsnest_shadow_only_new_alerts{rule="B"} 1`)

	// Another version fires the same alerts.
	good := p.publish("1.2.0", strings.ReplaceAll(first, `match: "text of b"`, "match: {contains: [text of, b]}"), p.key.PrivateKey)
	shadow(good)
	s.log("team-c/vc-2", "text of b")
	s.eventually(func() bool { return len(s.am.firing("B")) == 1 }, "the version in force works")
	version := func(want string) {
		t.Helper()
		s.eventually(func() bool {
			a := loader.Installed(s.d.cfg.Load(), &s.d.cfg.Load().Rules.Artifacts[0])
			return a != nil && a.Version == want
		}, want)
	}
	version("1.2.0")
	require.Len(t, s.am.firing("B"), 1, "the promotion opens no alert again")

	// A manual promotion.
	code, body := s.do(http.MethodPost, "/-/promote?digest="+bad)
	require.Equal(t, http.StatusBadRequest, code, body)
	worse := p.publish("1.3.0", strings.ReplaceAll(first, `match: "text of b"`, "match: text"), p.key.PrivateKey)
	shadow(worse)
	code, body = s.do(http.MethodPost, "/-/promote?digest="+worse)
	require.Equal(t, http.StatusOK, code, body)
	version("1.3.0")
	s.stop()
}
