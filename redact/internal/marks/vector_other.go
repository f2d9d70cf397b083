//go:build !amd64

package marks

// Fast is as in vector_amd64.go.
const Fast = false

func classify(a *Alphabet, text *byte, n int, codes *byte, kinds, seen *uint64) {
	plainClassify(a, text, n, codes, kinds, seen)
}

func look(w *Windows, codes *byte, blocks int, places *uint64) {
	plainLook(w, codes, blocks, places)
}
