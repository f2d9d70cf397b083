package matcher

import "crowsnest/matcher/internal/lines"

// pendingLine is a logical line of stdout or stderr of which only some physical lines were read.
type pendingLine struct {
	buf   []byte // text, at most MaxLine+1 bytes; later bytes are not matched
	size  int    // total size of the parts in bytes
	parts int64  // number of physical lines; zero if there is no pending line
	start int64  // offset in the stream from which the line must be read again after a restart
	at    moment // time and place of the first physical line
	// skipping means that the line became longer than maxMerged, so that its remaining parts are dropped.
	skipping bool
}

// addPart adds a physical line to its logical line. A logical line that grows beyond maxMerged is matched immediately,
// and its remaining parts are dropped.
func (r *run) addPart(k int, e lines.Envelope, m moment, start int64) {
	r.textAt = -1
	o := &r.s.open[k]
	if o.skipping {
		r.s.counters.Dropped++
		o.skipping = e.Partial
		return
	}
	if o.parts == 0 {
		*o = pendingLine{buf: r.sc.takeBuffer(), start: r.s.resumeAt(k, start), at: r.resolveTime(m)}
	}
	o.parts++
	o.size += len(e.Text)
	o.buf = append(o.buf, e.Text[:min(len(e.Text), MaxLine+1-len(o.buf))]...)
	if !e.Partial || o.size >= maxMerged {
		r.completeLine(k)
		o.skipping = e.Partial
	}
}

func (r *run) completeLine(k int) {
	o := &r.s.open[k]
	text := o.buf
	if o.size == len(text) {
		text = trimCR(text)
	}
	at := o.at
	at.parts = o.parts
	r.acceptLine(k, text, at)
	r.sc.giveBuffer(o.buf)
	*o = pendingLine{}
}
