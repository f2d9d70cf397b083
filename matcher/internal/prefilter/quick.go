package prefilter

import "crowsnest/internal/literals"

const (
	// quickTier is the length, in bytes, of the texts of the first tier of Quick, and
	// quickSample how much of the sample it looks at.
	quickTier   = 16
	quickSample = 16 << 10
)

// Quick builds a filter in a tenth of the time of New: it tries nothing. It finds the same
// texts, for many sets as fast as the filter of New, for sets with very short texts slower.
func Quick(texts []literals.Text, sample []byte) *Filter {
	if len(texts) == 0 {
		return nil
	}
	shortest := len(texts[0].Text)
	for _, t := range texts {
		shortest = min(shortest, len(t.Text))
	}
	plans := []plan{planOf(shortest, min(shortest, 8, max(4, shortest/2)))}
	if shortest < quickTier {
		plans = []plan{planOf(quickTier, 8), plans[0]}
	}
	return newBuilder(texts, sample[:min(len(sample), quickSample)]).build(plans)
}
