package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/agent/wire"
	"crowsnest/rules"
)

// An agent fetches the rules of namespaces when they change, and refuses files that would belong to the operator.
func TestRulesOfNamespacesAreFetched(t *testing.T) {
	p := &peer{}
	run(t, p, 0, func(t *testing.T, s *Sink, stop func()) {
		offer := func(id string, files ...rules.File) {
			p.set(func() { p.owned, p.fetches = wire.RulesAnswer{ID: id, Files: files}, 0 })
			time.Sleep(11 * time.Second) // virtual
			synctest.Wait()
		}
		fetches := func() (n int) {
			p.set(func() { n = p.fetches })
			return n
		}
		offer("") // an aggregator that does not know them yet, or an old one
		require.Zero(t, fetches())
		id, _ := s.OwnedRules()
		require.Empty(t, id)

		own := rules.File{Name: "configmap:team-a/rules/web.yaml", Namespace: "team-a", Data: []byte("x")}
		offer("1", own)
		require.Equal(t, 1, fetches())
		id, files := s.OwnedRules()
		require.Equal(t, "1", id)
		require.Equal(t, []rules.File{own}, files)

		for _, bad := range []rules.File{
			{Name: "configmap:team-a/rules/web.yaml", Data: []byte("x")},
			{Name: "/etc/crowsnest/rules.yaml", Namespace: "team-a", Data: []byte("x")},
			{Name: "configmap:team-b/rules/web.yaml", Namespace: "team-a", Data: []byte("x")},
		} {
			offer("bad", own, bad)
			require.NotZero(t, fetches())
			require.Contains(t, s.Stats().ReportError, "rules of namespaces")
			id, files = s.OwnedRules()
			require.Equal(t, "1", id)
			require.Equal(t, []rules.File{own}, files)
		}
		offer("2")
		id, files = s.OwnedRules()
		require.Equal(t, "2", id)
		require.Empty(t, files)
		require.Empty(t, s.Stats().ReportError)
		stop()
	})
}
