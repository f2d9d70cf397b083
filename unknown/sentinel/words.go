package sentinel

// appendWords appends the letters of those words of a line that contain no digit, each followed
// by a star. The result is equal for lines that differ only in numbers, times and ids. Words
// are separated by everything that is not a letter, digit, dash, dot or colon, so there may be
// empty words.
func appendWords(out []byte, line string) []byte {
	word, digits := len(out), false
	for i := range len(line) {
		switch c := line[i]; wordClassOf[c] {
		case letter:
			out = append(out, c)
		case figure:
			digits = true
		case joint:
		default:
			if digits {
				out = out[:word]
			} else {
				out = append(out, '*')
			}
			word, digits = len(out), false
		}
	}
	if digits {
		return out[:word]
	}
	return append(out, '*')
}

// Classes of the bytes in words. All other bytes end a word.
const (
	figure = 1 + iota
	letter
	joint
)

var wordClassOf = func() (of [256]uint8) {
	for c := range of {
		switch {
		case '0' <= c && c <= '9':
			of[c] = figure
		case 'a' <= c|0x20 && c|0x20 <= 'z' && c < 0x80:
			of[c] = letter
		case c == '-' || c == '.' || c == ':':
			of[c] = joint
		}
	}
	return of
}()
