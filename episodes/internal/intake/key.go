package intake

// AppendKey appends the values whose indexes are at, or all if at is nil, as one map key.
// Values are at most MaxValue bytes.
func AppendKey[T ~string](b []byte, values []T, at []int) []byte {
	n := len(at)
	if at == nil {
		n = len(values)
	}
	for i := range n {
		k := i
		if at != nil {
			k = at[i]
		}
		v := values[k]
		if n > 1 {
			b = append(b, byte(len(v)>>8), byte(len(v))) // two bytes hold a length
		}
		b = append(b, v...)
	}
	return b
}

// Key returns the key of the values of `by` and an identity, as Intake.Key.
func Key[T ~string](values []T, who *Identity) string {
	return string(AppendKey(nil, values, nil)) + who.Suffix()
}

// Hash returns the FNV-1a hash of s.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Mix hashes two words into one.
func Mix(a, b uint64) uint64 {
	x := a ^ b*0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	x ^= x >> 32
	return x
}
