package component

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/rules/selector"
	"crowsnest/sources/objects"
)

// Every entry has the texts that documents and alerts show.
func TestKindsAreExplained(t *testing.T) {
	for _, k := range append(Sources(), Sinks()...) {
		require.NotEmpty(t, k.Help, k.Key)
		for reason, l := range k.Losses {
			require.NotEmpty(t, l.Severity, reason)
			require.NotEmpty(t, l.What, reason)
			require.NotEmpty(t, l.Fix, reason)
		}
	}
}

// The selector package knows each label component that a source writes itself.
func TestStatesAreKnown(t *testing.T) {
	found := map[string]bool{}
	for _, k := range Sources() {
		p := Part{Kind: k, Settings: reflect.New(reflect.TypeOf(k.Settings)).Interface()}
		if c, ok := p.Settings.(*objects.Config); ok {
			c.Machines = &objects.Machines{}
		}
		for _, l := range k.Streams(p) {
			if c := l.Fixed["component"]; c != "" {
				found[c] = true
			}
		}
	}
	require.Equal(t, selector.States(), slices.Sorted(maps.Keys(found)))
}
