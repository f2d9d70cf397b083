package quota

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// No loss is forgotten, however many tenants there are: small counts are added to that of
// the others, the oldest first.
func TestLosses(t *testing.T) {
	l := NewLosses()
	note := func(tenant string, n int) {
		for range n {
			l.Note(tenant, "R", "windows")
		}
	}
	note("large and old", 1000)
	l.Now = 100
	note("small and fresh", 2)
	for i := range 2 * MaxLosses {
		note(fmt.Sprint("tenant", i), 3)
	}
	total := int64(0)
	found := map[string]int64{}
	for _, x := range l.All() {
		total += x.Count
		found[x.Tenant] = x.Count
	}
	require.EqualValues(t, 1000+2+6*MaxLosses, total)
	require.LessOrEqual(t, len(found), MaxLosses+1)
	require.NotContains(t, found, "large and old")
	require.NotContains(t, found, "small and fresh")
	require.Greater(t, found[OtherTenants], int64(1000))
	require.Contains(t, found, fmt.Sprint("tenant", 2*MaxLosses-1))
}

func TestLossesAreSorted(t *testing.T) {
	l := NewLosses()
	l.Now = 5
	l.Note("b", "R", "windows")
	l.Note("a", "S", "clears")
	l.Note("a", "R", "windows")
	l.Note("a", "R", "clears")
	l.Now = 3
	l.Note("b", "R", "windows")
	require.Equal(t, []Loss{{"a", "R", "clears", 1, 5}, {"a", "R", "windows", 1, 5}, {"a", "S", "clears", 1, 5}, {"b", "R", "windows", 2, 5}}, l.All())
}
