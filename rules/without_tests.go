package rules

import "bytes"

// withoutTests returns a shipped pack with empty lines in the place of its tests, which
// are most of its text, so that a program that does not run them loads in half the time
// and memory. The lines keep their numbers. It expects the form of the shipped packs:
// keys of a rule are indented by two spaces. data is not changed.
func withoutTests(data []byte) []byte {
	out := make([]byte, 0, len(data)/2)
	inTests := false
	for line := range bytes.Lines(data) {
		switch {
		case bytes.HasPrefix(line, []byte("pack: {")):
			line = withoutCount(line)
		case bytes.HasPrefix(line, []byte("  tests:")):
			inTests = true
		case inTests && behindTests(line):
			inTests = false
		}
		if inTests {
			line = []byte("\n")
		}
		out = append(out, line...)
	}
	return out
}

// behindTests reports whether a line is behind the tests of a rule: another key of the
// rule, or a line that is not indented.
func behindTests(line []byte) bool {
	key, indented := bytes.CutPrefix(line, []byte("  "))
	if !indented {
		return !bytes.ContainsAny(line[:1], " \t\r\n")
	}
	word := bytes.TrimLeft(key, "abcdefghijklmnopqrstuvwxyz_")
	return len(word) < len(key) && bytes.HasPrefix(word, []byte(":"))
}

// withoutCount removes the number of tests from the header of a pack.
func withoutCount(header []byte) []byte {
	before, after, found := bytes.Cut(header, []byte(", tests: "))
	if !found {
		return header
	}
	return append(bytes.Clone(before), bytes.TrimLeft(after, "0123456789")...)
}
