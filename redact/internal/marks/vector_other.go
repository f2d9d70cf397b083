//go:build !amd64

package marks

// Fast is as in vector_amd64.go.
const Fast = false

func classify(a *Alphabet, t *Text, s string, seen *[2][8]uint64) {
	plainClassify(a, t, s, seen)
}

func look(w *Windows, codes *byte, blocks int, places *uint64) {
	plainLook(w, codes, blocks, places)
}
