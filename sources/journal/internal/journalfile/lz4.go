package journalfile

import "errors"

var errLZ4 = errors.New("damaged lz4 data")

// unLZ4 decompresses a block until out is full. Libraries decompress only whole blocks, whose
// stated size cannot be trusted.
func unLZ4(out, in []byte) (n int, err error) {
	for len(in) > 0 {
		token := in[0]
		in = in[1:]
		literals, rest, ok := lz4Length(int(token>>4), in)
		if !ok || literals > len(rest) {
			return 0, errLZ4
		}
		copied := copy(out[n:], rest[:literals])
		n, in = n+copied, rest[literals:]
		if n == len(out) || len(in) == 0 {
			return n, nil
		}
		if len(in) < 2 {
			return 0, errLZ4
		}
		back := int(in[0]) | int(in[1])<<8
		length, rest, ok := lz4Length(int(token&15), in[2:])
		if !ok || back == 0 || back > n {
			return 0, errLZ4
		}
		const minMatch = 4
		n += lz4Repeat(out, n, back, length+minMatch)
		if in = rest; n == len(out) {
			return n, nil
		}
	}
	return n, nil
}

// lz4Length reads the bytes that extend a length of 15.
func lz4Length(n int, in []byte) (length int, rest []byte, ok bool) {
	if n < 15 {
		return n, in, true
	}
	for i, b := range in {
		if n += int(b); b != 255 {
			return n, in[i+1:], true
		}
	}
	return 0, nil, false
}

// lz4Repeat copies length bytes within out, from back bytes before n to n, or fewer if out is
// too short. If source and target overlap, the bytes repeat.
func lz4Repeat(out []byte, n, back, length int) int {
	length = min(length, len(out)-n)
	for done := 0; done < length; {
		done += copy(out[n+done:n+length], out[n-back:n+done])
	}
	return length
}
