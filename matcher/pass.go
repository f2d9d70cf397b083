package matcher

import "crowsnest/matcher/internal/lines"

// passOver handles a line that only has to be counted as read. Such a line is a whole logical
// line in a usual CRI envelope, and cannot be a hit, a part of a record or a complaint. Most
// lines are like this, so they must cost very little. If the line needs more, it returns false
// and changes nothing. may has the meaning of prefilter.Filter.Lines.
func (r *run) passOver(raw []byte, may bool) bool {
	s := r.s
	if may && r.sieve.prefilter.HasTexts() || r.nul || r.undated != nil || s.envelope == FormatDocker || s.opt.Format == FormatText {
		return false
	}
	stderr, ok := lines.FullCRI(raw)
	if !ok {
		return false
	}
	k := 0
	if stderr {
		k = 1
	}
	if o := &s.open[k]; o.parts > 0 || o.skipping || s.records[k] != nil {
		return false
	}
	text := trimCR(raw[lines.HeaderCRI:])
	if len(text) > MaxLine || s.opt.Join != JoinNone && opensRecord(text) || r.mayMatch(text, may) || r.watch && r.mayComplain(text) {
		return false
	}
	s.envelope = FormatCRI
	s.counters.Lines++
	s.counters.Evaluated++
	if s.opt.TextTime {
		r.prev = raw[:lines.StampCRI]
	}
	return true
}

// mayMatch reports whether some part of a rule has to be tried on a text. may is set if the
// text may contain a text of the prefilter.
func (r *run) mayMatch(text []byte, may bool) bool {
	v, sc := r.sieve, r.sc
	if len(v.always) > 0 || len(v.escaped) > 0 && lines.HasLetterEscape(text) {
		return true
	}
	if may {
		sc.found = v.prefilter.Append(sc.found[:0], text, &sc.lineMarks)
	}
	return may && len(sc.found) > 0
}
