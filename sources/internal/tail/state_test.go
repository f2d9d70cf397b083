package tail

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPositionsAreJSON: what is made by hand is what the package would make.
func TestPositionsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hash := rapid.Custom(func(t *rapid.T) sum { return sumOf([]byte(rapid.String().Draw(t, "of"))) })
		num := rapid.Int64Range(-1, 1<<60)
		pt := rapid.Custom(func(t *rapid.T) point {
			return point{
				Name: rapid.OneOf(rapid.String(), rapid.Just("0.log.20260102-030405.gz"), rapid.Just("a\x80\"\\<b>")).Draw(t, "name"),
				Head: hash.Draw(t, "h"), HeadN: int(num.Draw(t, "l")), First: num.Draw(t, "t"), Off: num.Draw(t, "o"),
				Mark: hash.Draw(t, "m"), MarkN: int(num.Draw(t, "k")), End: num.Draw(t, "e"),
			}
		})
		p := position{point: pt.Draw(t, "point"), Ended: rapid.Bool().Draw(t, "ended")}
		if rapid.Bool().Draw(t, "has old") {
			old := pt.Draw(t, "old")
			p.Old = &old
		}
		p.Done = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) donePoint {
			return donePoint{Head: hash.Draw(t, "h"), HeadN: int(num.Draw(t, "l")), First: num.Draw(t, "t"), Size: num.Draw(t, "s")}
		}), 0, 3).Draw(t, "done")
		want, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		require.JSONEq(t, string(want), string(p.appendJSON(nil)))
		key := rapid.String().Draw(t, "key")
		want, err = json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		require.JSONEq(t, string(want), string(appendJSON(nil, key)))
	})
}
