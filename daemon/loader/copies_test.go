package loader

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/artifact"
	"crowsnest/daemon/config"
	"crowsnest/rules"
	"crowsnest/test/rulefolder"
)

// A damaged copy is replaced by the previous one. Without any, the packs stay in force
// until the process ends, and there is no copy to verify.
func TestDamagedCopies(t *testing.T) {
	cfg := config.Default()
	cfg.Storage.Path = t.TempDir()
	cfg.Rules = config.RulesConfig{Artifacts: []config.Artifact{{Reference: "registry.example.org/team/packs:stable"}}}
	a := &cfg.Rules.Artifacts[0]
	repository := a.Ref().Repository()
	install := func(version, alert string) {
		t.Helper()
		next, err := artifact.New([]rules.File{{Name: "a.yaml", Data: []byte(rulefolder.Pack("a", alert, "text of "+alert))}}, artifact.Info{Title: "packs", Version: version})
		require.NoError(t, err)
		require.NoError(t, Install(cfg, a, next))
	}
	l := New()
	requireCopy := func(version string, want ...string) {
		t.Helper()
		out, err := l.Again(cfg)
		require.NoError(t, err)
		require.Equal(t, want, alerts(out))
		require.Equal(t, version, Copies(cfg)[repository].Version)
	}
	install("1.0.0", "A")
	install("1.1.0", "B")
	requireCopy("1.1.0", "B=text of B")
	require.Empty(t, Missing(cfg))

	damage := func(name string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(copyFolder(cfg, repository), name), []byte("half of a copy"), 0o600))
	}
	damage("state")
	requireCopy("1.0.0", "A=text of A")
	damage("state")
	damage("state.prev")
	requireCopy("", "A=text of A")
	require.Equal(t, []string{repository}, Missing(cfg))
	install("1.2.0", "C")
	requireCopy("1.2.0", "C=text of C")
}
