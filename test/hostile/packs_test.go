package hostile

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/matcher"
	"crowsnest/rules"
)

// packMutants is the number of packs made from the shipped ones.
const packMutants = 200

// maxWork is the number of bytes that the check of one pack may allocate in
// total: allocations measure the work independently of the machine.
const maxWork = 256 << 20

// allPacks returns every hostile pack.
func allPacks(t *testing.T) []hostilePack {
	t.Helper()
	return slices.Concat(wrongValues(), malicious(), brokenFiles(), mutants(t, packMutants))
}

// wholeFile are the problems without a position in the file.
var wholeFile = []string{"too-large", "encoding", "empty-file", "no-rules", "too-many"}

// TestHostilePacks checks each pack like `check rules`: nothing panics, the
// work is bounded, and the error for a refused pack states the position and the
// fix.
func TestHostilePacks(t *testing.T) {
	all := allPacks(t)
	require.GreaterOrEqual(t, len(all), 300)
	accepted, most, worst := 0, uint64(0), ""
	var faults []string
	for _, p := range all {
		data := []byte(p.text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		doc, problems := rules.Parse(rules.File{Name: "pack.yaml", Data: data})
		set, more := rules.Build([]*rules.Document{doc}, rules.Options{})
		errs := append(problems, more...).Errors()
		if len(errs) == 0 {
			require.NotNil(t, set, p.name)
			_, err := matcher.Compile(set)
			require.NoError(t, err, p.name)
			accepted++
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > most {
			most, worst = used, p.name
		}
		for _, e := range errs {
			placed := e.Line > 0 && e.Column > 0 || slices.Contains(wholeFile, e.Check)
			if e.Check == "internal" || e.File != "pack.yaml" || e.Message == "" || e.Fix == "" || !placed {
				faults = append(faults, p.name+": "+e.String())
			}
		}
	}
	require.Empty(t, faults, "a problem lacks its place or its fix")
	t.Logf("%d packs, %d accepted; most memory that checking one allocated: %s, %q", len(all), accepted, mebibytes(most), worst)
	require.Greater(t, accepted, 50)
	require.LessOrEqual(t, most, uint64(maxWork), worst)
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
