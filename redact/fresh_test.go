package redact

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/plant"
)

// Percentages of the ordinary and of the odd kinds that may leak, also of those held out.
const (
	mostOrdinary = 3
	mostOdd      = 15
)

// TestFreshKinds counts the leaks of 1,496 kinds in nine encodings, with three names and secrets
// each. Of the half that is held out it reports nothing but the number. CROWSNEST_KINDS=1 lists
// the leaks of the other half.
func TestFreshKinds(t *testing.T) {
	seed := uint64(11)
	if s := os.Getenv("CROWSNEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	r, rnd := New(nil), rand.New(rand.NewPCG(2026, seed))
	all := map[string]*[2]leaks{"ordinary": {}, "odd": {}}
	for _, list := range plant.FreshLists {
		var kinds [2]leaks
		class := all[strings.TrimPrefix(list.Name, "wild ")]
		for _, k := range slices.Concat(list.Kinds(rnd), list.Kinds(rnd), list.Kinds(rnd)) {
			half, leaked := 0, false
			if k.Held {
				half = 1
			}
			for _, e := range plant.FreshEncodings {
				in := e.Encode(k)
				out := r.String(in)
				if !k.Leaks(in, out) {
					continue
				}
				leaked = true
				if !k.Held && os.Getenv("CROWSNEST_KINDS") != "" {
					t.Logf("%s %s\n in: %.300q\nout: %.300q", list.Name, e.Name, in, out)
				}
			}
			kinds[half].add(leaked)
			class[half].add(leaked)
		}
		t.Logf("%s: looked at %v, held out %v", list.Name, kinds[0], kinds[1])
	}
	for name, most := range map[string]int{"ordinary": mostOrdinary, "odd": mostOdd} {
		for half, part := range []string{"looked at", "held out"} {
			l := all[name][half]
			t.Logf("%s, %s: %v", name, part, l)
			require.LessOrEqual(t, 100*l.leaked, most*l.texts)
		}
	}
}
