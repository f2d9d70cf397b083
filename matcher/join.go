package matcher

import "crowsnest/matcher/internal/lines"

// pending is a logical line of stdout or stderr whose end has not been read.
type pending struct {
	buf   []byte // at most MaxLine and one byte: more is not looked at
	size  int    // bytes of all parts
	parts int64  // physical lines; zero if there is no such line
	start int64  // first byte of the first part, in the stream
	at    moment // time of the first part
	// skipping drops the remaining parts of a line that was longer than MaxMerged.
	skipping bool
}

// join adds a part to its line. A line that grows beyond MaxMerged is matched as it is;
// its remaining parts are dropped.
func (r *run) join(k int, e lines.Envelope, at moment, start int64) {
	r.textAt = -1
	o := &r.s.open[k]
	if o.skipping {
		r.s.counters.Dropped++
		o.skipping = e.Partial
		return
	}
	if o.parts == 0 {
		if r.s.records[1-k] != nil {
			start = r.s.resumeAt(k, start)
		}
		*o = pending{buf: r.sc.takeBuffer(), start: start, at: r.resolve(at)}
	}
	o.parts++
	o.size += len(e.Text)
	o.buf = append(o.buf, e.Text[:min(len(e.Text), MaxLine+1-len(o.buf))]...)
	if !e.Partial || o.size >= maxMerged {
		r.complete(k)
		o.skipping = e.Partial
	}
}

// complete accepts a line that has all its parts.
func (r *run) complete(k int) {
	o := &r.s.open[k]
	text := o.buf
	if o.size == len(text) {
		text = trimCR(text)
	}
	at := o.at
	at.parts = o.parts
	r.logical(k, text, at)
	r.sc.giveBuffer(o.buf)
	*o = pending{}
}
