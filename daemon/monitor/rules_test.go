package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/web"
)

// The text of a refused pack of a namespace can contain neither links nor control characters.
func TestTextsOfRefusedPacksAreInert(t *testing.T) {
	all := brokenAlerts(time.Unix(0, 0), []web.BrokenPack{{Namespace: "a", Pack: "a/p", Error: "error: \"[x](https://evil.example) <!channel>\u202E\"\n  fix: it"}})
	require.Len(t, all, 1)
	require.Contains(t, all[0].Annotations["description"], "error: \"[x] (https[:]//evil[.]example) < !channel>\"\n  fix: it")
}
