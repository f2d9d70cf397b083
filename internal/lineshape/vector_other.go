//go:build !amd64

package lineshape

const vector = false

func (s *Shapes) appendVector(out []byte, line string, _ *Masks) []byte {
	return s.appendPlain(out, line)
}

func appendWordsVector(out []byte, line string, _ *Masks) []byte { return appendWordsPlain(out, line) }
