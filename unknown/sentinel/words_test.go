package sentinel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crowsnest/test/traffic"
)

func TestShapeHash(t *testing.T) {
	f := func(equal bool, a, b string) {
		t.Helper()
		require.Equal(t, equal, shapeHash(1, a) == shapeHash(1, b), "%q and %q", a, b)
	}
	f(true, "1", "2")
	f(true, "I1120 10:00:00.1 a.go:12] re-try x", "E0102 11:12:13.4 b2.go:7] retry x")
	f(true, "a  b1 c ", "a  b2 c ")
	f(false, "a", "a ")
	f(false, "a b", "ab")
	f(false, "a  c", "a c")
	require.NotEqual(t, shapeHash(1, "a"), shapeHash(2, "a"))
}

// TestShapesOfLogs compares the hashes of lines with the letters of their words without digits.
func TestShapesOfLogs(t *testing.T) {
	isEnd := func(r rune) bool { return r >= 0x80 || wordClassOf[r] == 0 }
	hashes, shapes := map[string]uint64{}, map[uint64]string{}
	for _, kind := range traffic.Kinds() {
		for line := range strings.Lines(string(traffic.Bytes(1_000_000, traffic.Options{Kind: kind}))) {
			line = line[:min(len(line)-1, shapeWithin)]
			if strings.IndexFunc(line, func(r rune) bool { return r >= 0x80 }) >= 0 {
				continue
			}
			var shape strings.Builder
			for _, word := range strings.Split(strings.Map(func(r rune) rune {
				if isEnd(r) {
					return ' '
				}
				return r
			}, line), " ") {
				if !strings.ContainsAny(word, "0123456789") {
					shape.WriteString(strings.NewReplacer("-", "", ".", "", ":", "").Replace(word) + "*")
				}
			}
			hash := shapeHash(1, line)
			if _, known := hashes[shape.String()]; !known {
				hashes[shape.String()] = hash
			}
			require.Equal(t, hashes[shape.String()], hash, line)
			if _, known := shapes[hash]; !known {
				shapes[hash] = shape.String()
			}
			require.Equal(t, shapes[hash], shape.String(), line)
		}
	}
	require.Greater(t, len(hashes), 10)
}
