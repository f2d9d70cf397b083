package show

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/web"
)

func TestFleet(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	then := now.Add(-10 * time.Minute)
	data, err := json.Marshal(web.Fleet{
		Clusters: []web.FleetCluster{
			{Name: "eu-1", State: "up", Answered: &now, Open: map[string]int{"critical": 2}, Rules: 1, Version: "0.2.0", Link: "https://eu-1"},
			{Name: "eu-2", State: "unknown", Answered: &then, Open: map[string]int{"warning": 7}, Rules: 2, Error: "no answer \x1b[31min time"},
			{Name: "eu-3", State: "unknown", Error: "no answer yet"},
		},
		Rules: []web.FleetRule{{
			Rule: "Conflict", Severity: "critical", Since: then, First: "eu-2", Affected: 1, Alert: "00000000000000aa",
			Versions: []web.FleetVersion{{Version: "1.32.0", Clusters: 1}}, Clusters: []web.FleetRuleCluster{{Cluster: "eu-2", Old: true}, {Cluster: "eu-1"}},
		}},
	})
	require.NoError(t, err)
	style := ListStyle{Now: now, Wide: true}
	tables, err := Fleet(data, style)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Write(&b, tables, style))
	require.Equal(t, `CLUSTER  STATE    ANSWERED  CRITICAL  WARNING  INFO  RULES  VERSION  WHY                LINK
eu-1     up       0s        2         0        0     1      0.2.0                       https://eu-1
eu-2     unknown  10m       0?        7?       0?    2               no answer in time
eu-3     unknown  never     ?         ?        ?     0               no answer yet

RULE      SEVERITY  CLUSTERS  AFFECTED  AGE  FIRST  FLEET ALERT       VERSIONS     IN
Conflict  critical  2 of 3    1         10m  eu-2   00000000000000aa  1.32.0 in 1  eu-2?,eu-1
`, b.String())
}
