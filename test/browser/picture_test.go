package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// small returns a PNG with at most 256 colours: those that most pixels have, and vivid ones
// first. Pages have few, and shades of text at their edges.
func small(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	size := img.Bounds()
	counts := map[color.RGBA]int{}
	each := func(f func(x, y int, c color.RGBA)) {
		for y := size.Min.Y; y < size.Max.Y; y++ {
			for x := size.Min.X; x < size.Max.X; x++ {
				r, g, b, _ := img.At(x, y).RGBA()
				f(x, y, color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255})
			}
		}
	}
	each(func(_, _ int, c color.RGBA) { counts[c]++ })
	var colours color.Palette
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(counts[b]*vivid(b)-counts[a]*vivid(a), bytes.Compare([]byte{a.R, a.G, a.B}, []byte{b.R, b.G, b.B}))
	})
	for _, c := range all[:min(256, len(all))] {
		colours = append(colours, c)
	}
	index := map[color.RGBA]uint8{}
	out := image.NewPaletted(size, colours)
	each(func(x, y int, c color.RGBA) {
		i, ok := index[c]
		if !ok {
			i = uint8(colours.Index(c)) //nolint:gosec // there are at most 256
			index[c] = i
		}
		out.SetColorIndex(x, y, i)
	})
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&b, out))
	return b.Bytes()
}

// vivid is greater for colours than for greys.
func vivid(c color.RGBA) int {
	return 1 + int(max(c.R, c.G, c.B)-min(c.R, c.G, c.B))/16
}

// A picture keeps its colours if there are few.
func TestSmallPictures(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 400, 1))
	for x := range 400 {
		img.Set(x, 0, color.RGBA{uint8(x / 2), 0, uint8(min(x/200, 1)), 255}) //nolint:gosec // below 200
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, img))
	got, err := png.Decode(bytes.NewReader(small(t, b.Bytes())))
	require.NoError(t, err)
	for x := range 400 {
		require.Equal(t, img.At(x, 0), color.RGBAModel.Convert(got.At(x, 0)))
	}
}
