package gunzip

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var small = Sizes{Keep: 4, Block: 16, Slack: 2}

func compressed(t *testing.T, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// random returns n letters that do not compress much.
func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return b
}

// readFrom reads a file from off to its end and takes at most step bytes of a window.
func readFrom(t *testing.T, r *Reader, file []byte, off int64, step int) (before, got []byte, err error) {
	t.Helper()
	require.NoError(t, r.Open(bytes.NewReader(file)))
	window, err := r.Skip(off)
	if err != nil {
		return nil, nil, err
	}
	before = bytes.Clone(window)
	taken := len(window)
	for {
		window, at, end, err := r.Read(taken)
		kept := append(bytes.Clone(before), got...)
		require.Equal(t, string(kept[max(0, len(kept)-at):]), string(window[:at]), "the bytes that were read last")
		n := min(step, len(window)-at)
		got = append(got, window[at:at+n]...)
		if taken = at + n; end && n == len(window)-at {
			return before, got, err
		}
	}
}

// Any part is read from any offset, in steps of any length, also with a Reader that
// read another file before.
func TestRead(t *testing.T) {
	p := NewPool(1, small)
	r := p.Take(&Waiter{Wake: func() {}})
	for _, size := range []int{0, 1, 3, 4, 15, 16, 17, 20, 100} {
		text := random(size)
		file := compressed(t, text)
		for off := range size + 1 {
			for _, step := range []int{1, 5, 16} {
				before, got, err := readFrom(t, r, file, int64(off), step)
				require.NoError(t, err)
				require.Equal(t, string(text[max(0, off-small.Keep):off]), string(before))
				require.Equal(t, string(text[off:]), string(got))
			}
		}
		_, _, err := readFrom(t, r, file, int64(size)+1, 1)
		require.Error(t, err, "an offset behind the end")
	}
}

// What can be decompressed of a damaged file is returned before the error.
func TestDamaged(t *testing.T) {
	p := NewPool(1, small)
	r := p.Take(&Waiter{Wake: func() {}})
	require.Error(t, r.Open(bytes.NewReader([]byte("no gzip"))))
	text := random(4000)
	file := compressed(t, text)
	_, got, err := readFrom(t, r, file[:len(file)/2], 7, 16)
	require.ErrorContains(t, err, "decompress: unexpected EOF")
	require.Greater(t, len(got), 500)
	require.Equal(t, string(text[7:7+len(got)]), string(got))
	_, got, err = readFrom(t, r, file, 0, 16)
	require.NoError(t, err, "the next file")
	require.Equal(t, string(text), string(got))
}

// A pool hands out each reader once and wakes one waiter for each returned reader.
func TestPool(t *testing.T) {
	p := NewPool(2, small)
	woken := ""
	a, b := &Waiter{Wake: func() { woken += "a" }}, &Waiter{Wake: func() { woken += "b" }}
	x, y := p.Take(a), p.Take(a)
	require.NotNil(t, x)
	require.NotSame(t, x, y)
	require.Nil(t, p.Take(a))
	require.Nil(t, p.Take(a), "again: it waits once")
	require.Nil(t, p.Take(b))
	p.Return(x)
	require.Equal(t, "a", woken)
	p.Return(y)
	require.Equal(t, "ab", woken)
	require.Equal(t, 2, p.Free())

	x, y = p.Take(a), p.Take(a)
	p.Add() // in place of x, which hangs
	require.Equal(t, 1, p.Free())
	require.NotNil(t, p.Take(a))
	p.Drop() // x does not hang any more
	p.Return(x)
	require.Zero(t, p.Free())
	p.Return(y)
	require.Equal(t, 1, p.Free())
	p.Drop()
	require.Zero(t, p.Free())
}
