package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/daemon/config"
	"crowsnest/daemon/configmaps"
	"crowsnest/rules"
)

// The rules of a team are bound to the cluster of its ConfigMap, also after a restart with another configuration.
func TestClusterOfOwnedRules(t *testing.T) {
	file := rules.File{Name: "configmap:a/rules/p.yaml", Namespace: "a", Cluster: "old"}
	for _, test := range []struct{ label, key, want string }{{"", "", ""}, {"east", "", "east"}, {"east", "west", "west"}, {"", "west", "west"}} {
		cfg := config.Default()
		cfg.Rules.ConfigMaps = &configmaps.Settings{Cluster: test.key}
		if test.label != "" {
			cfg.Global.ExternalLabels = map[string]string{"cluster": test.label}
		}
		d := &Daemon{opt: Options{Cfg: cfg}}
		d.configMaps = d.newConfigMaps(cfg.Rules.ConfigMaps)
		kept := d.keptFiles([]rules.File{file, {Name: "mine.yaml"}})
		require.Equal(t, []string{test.want, ""}, []string{kept[0].Cluster, kept[1].Cluster}, "%+v", test)
	}
}
