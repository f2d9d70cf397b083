package intake

// AppendKey appends the values with these indexes, or all if indexes is nil, as one map key.
// Values are at most MaxValue bytes.
func AppendKey[T ~string](b []byte, values []T, indexes []int) []byte {
	n := len(indexes)
	if indexes == nil {
		n = len(values)
	}
	for i := range n {
		k := i
		if indexes != nil {
			k = indexes[i]
		}
		v := values[k]
		if n > 1 {
			b = append(b, byte(len(v)>>8), byte(len(v))) // the length takes two bytes
		}
		b = append(b, v...)
	}
	return b
}

// JoinKey returns the key of these values of `by` and an identity, in the form of Intake.Key.
func JoinKey[T ~string](values []T, who *Identity) string {
	return string(AppendKey(nil, values, nil)) + who.KeySuffix()
}

// Hash returns the FNV-1a hash of s.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// MixHash hashes two words into one.
func MixHash(a, b uint64) uint64 {
	x := a ^ b*0x9E3779B97F4A7C15
	x ^= x >> 32
	x *= 0xD6E8FEB86659FD93
	x ^= x >> 32
	return x
}
