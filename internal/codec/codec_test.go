package codec_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crowsnest/internal/codec"
)

type pair struct {
	name  string
	value *pair
}

func codePair(c *codec.Codec, p *pair) {
	codec.Text(c, &p.name)
	codec.Pointer(c, &p.value, codePair)
}

type all struct {
	number  int
	big     int64
	yes, no bool
	wait    time.Duration
	text    string
	names   []string
	none    []string
	empty   []string
	pairs   []pair
}

func code(c *codec.Codec, a *all) {
	c.Int(&a.number)
	c.Int64(&a.big)
	c.Bool(&a.yes)
	c.Bool(&a.no)
	c.Duration(&a.wait)
	codec.Text(c, &a.text)
	codec.Texts(c, &a.names)
	codec.Texts(c, &a.none)
	codec.Texts(c, &a.empty)
	codec.List(c, &a.pairs, codePair)
}

// What is read equals what was written, at once or later.
func TestRoundTrip(t *testing.T) {
	want := all{
		number: -5, big: -1 << 63, yes: true, wait: time.Hour, text: "one two", names: []string{"", "two", "three"}, empty: []string{},
		pairs: []pair{{name: "a"}, {name: "b", value: &pair{name: "one", value: &pair{}}}},
	}
	w := codec.NewWriter()
	code(w, &want)
	var later codec.Deferred
	w.DecodeLater(&later, func(c *codec.Codec) { code(c, &want) })
	last := 7
	w.Int(&last)

	r := codec.NewReader(w.Result())
	require.True(t, r.IsReading())
	var got, again all
	code(r, &got)
	require.Equal(t, want, got)
	r.DecodeLater(&later, func(*codec.Codec) { t.Fatal("a reader writes nothing") })
	var end int
	r.Int(&end)
	require.Equal(t, 7, end)
	code(later.Read(), &again)
	require.Equal(t, want, again)
}

func FuzzInt64(f *testing.F) {
	for _, n := range []int64{0, 1, -1, 63, 64, -64, -65, 1<<63 - 1, -1 << 63} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		w := codec.NewWriter()
		w.Int64(&n)
		var got int64
		codec.NewReader(w.Result()).Int64(&got)
		require.Equal(t, n, got)
	})
}
