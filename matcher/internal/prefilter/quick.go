package prefilter

import "crowsnest/internal/literals"

const (
	// quickTier is the length of the texts in the first tier of NewQuick, in bytes. quickSample
	// is the part of the sample that it reads.
	quickTier   = 16
	quickSample = 16 << 10
)

// NewQuick builds a filter in a tenth of the time of New, because it does not try several
// plans. It finds the same texts. For many sets it is as fast as a filter of New. For sets with
// very short texts it is slower.
func NewQuick(texts []literals.Text, sample []byte) *Filter {
	if len(texts) == 0 {
		return nil
	}
	shortest := len(texts[0].Text)
	for _, t := range texts {
		shortest = min(shortest, len(t.Text))
	}
	plans := []plan{newPlan(shortest, min(shortest, 8, max(4, shortest/2)))}
	if shortest < quickTier {
		plans = []plan{newPlan(quickTier, 8), plans[0]}
	}
	return newBuilder(texts, sample[:min(len(sample), quickSample)]).buildFilter(plans)
}
