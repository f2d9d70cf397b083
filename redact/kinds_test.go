package redact

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/plant"
)

// leaks counts texts of a class, and those that leaked a secret.
type leaks struct{ texts, leaked int }

func (l leaks) String() string {
	return fmt.Sprintf("%d of %d (%.1f %%)", l.leaked, l.texts, 100*float64(l.leaked)/float64(l.texts))
}

func (l *leaks) add(leaked bool) {
	l.texts++
	if leaked {
		l.leaked++
	}
}

const (
	fewestKinds = 600
	mostLeaked  = 2 // percentage of the texts
)

// TestKinds plants every kind in ten encodings. Secrets that a prefix, a name, a structure
// or a command announces may not leak, and of all secrets at most mostLeaked may.
// CROWSNEST_KINDS=1 lists the leaks.
func TestKinds(t *testing.T) {
	r := New(nil)
	ks := kinds(t)
	require.GreaterOrEqual(t, len(ks), fewestKinds)
	seed := uint64(26)
	if s := os.Getenv("CROWSNEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		seed = n
	}
	rnd := rand.New(rand.NewPCG(20, seed))
	classes := map[string]*leaks{}
	count := func(name string, leaked bool) {
		if classes[name] == nil {
			classes[name] = &leaks{}
		}
		classes[name].add(leaked)
	}
	for _, k := range ks {
		half := "build"
		if k.Half() {
			half = "holdout"
		}
		for _, e := range plant.Encodings() {
			text, secrets := k.Fill(rnd)
			in := e.Apply(k, text, secrets)
			out := r.String(in)
			s := plant.Survives(plant.Forms(in), plant.Forms(out), secrets)
			count("class "+k.Class, s != "")
			count("half "+half, s != "")
			count("encoding "+e.Name, s != "")
			if k.Class != plant.None {
				count("all", s != "")
			}
			if s != "" && os.Getenv("CROWSNEST_KINDS") != "" {
				t.Logf("%s %s %s\n in: %.600q\nout: %.600q", k.Class, k.Name, e.Name, in, out)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		l := classes[name]
		switch name {
		case "class " + plant.Prefix, "class " + plant.Key, "class " + plant.Structure, "class " + plant.Command:
			require.Zero(t, l.leaked, name)
		case "all":
			require.LessOrEqual(t, 100*l.leaked, mostLeaked*l.texts)
		}
		t.Logf("%-24s %5d texts, %5d leaked: %.2f %%", name, l.texts, l.leaked, 100*float64(l.leaked)/float64(l.texts))
	}
}
