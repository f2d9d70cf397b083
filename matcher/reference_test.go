package matcher

import (
	"regexp"
	"strings"
	"time"

	"crowsnest/internal/literals"
	"crowsnest/matcher/internal/lines"
	"crowsnest/rules"
	"crowsnest/test/reftime"
)

// The reference does what the package does, slowly and plainly: it splits,
// unwraps and joins all lines, reads all fields of each, and tries each matcher
// of each rule.

type reference struct {
	rules    []*rules.Rule
	labels   Labels
	opt      StreamOptions
	envelope Format
	counters Counters
	open     map[string]*refLine
	hits     []Hit
}

type refLine struct {
	text          string
	time          time.Time
	number, parts int64
	skipping      bool
	start         int64
	resume        int64 // offset from which a restart reads, so that no line of the other output is read from its middle
}

func newReference(set []*rules.Rule, labels Labels, opt StreamOptions) *reference {
	r := &reference{labels: labels, opt: opt, open: map[string]*refLine{}, envelope: opt.Format}
	for _, rule := range set {
		if rule.Mode != rules.ModeOff && rule.Applies(labels, opt.Lenient) {
			r.rules = append(r.rules, rule)
		}
	}
	return r
}

func (r *reference) scan(block string, now time.Time) {
	offset := r.counters.Bytes
	r.counters.Bytes += int64(len(block))
	for len(block) > 0 {
		line, rest, _ := strings.Cut(block, "\n")
		r.counters.Lines++
		r.physical(strings.ReplaceAll(line, "\x00", ""), offset, now)
		offset += int64(len(block) - len(rest))
		block = rest
	}
}

func (r *reference) physical(line string, start int64, now time.Time) {
	text, stamp, stream, partial, ok := r.unwrap(line)
	if !ok {
		r.logical(refLine{text: strings.TrimSuffix(line, "\r"), time: now, number: r.counters.Lines, parts: 1})
		return
	}
	t, ok := reftime.Parse(stamp)
	if !ok {
		t = now
	}
	o := r.open[stream]
	if o == nil {
		o = &refLine{time: t, number: r.counters.Lines, start: start, resume: start}
		for _, other := range r.open {
			if !other.skipping && start-other.resume < maxResume {
				o.resume = other.resume
			}
		}
		r.open[stream] = o
	}
	if o.skipping {
		r.counters.Dropped++
		if !partial {
			delete(r.open, stream)
		}
		return
	}
	o.text += text
	o.parts++
	if partial && len(o.text) < maxMerged {
		return
	}
	whole := *o
	if !partial || len(o.text) <= MaxLine+1 {
		whole.text = strings.TrimSuffix(whole.text, "\r")
	}
	r.logical(whole)
	if o.skipping = partial; !partial {
		delete(r.open, stream)
	}
}

func (r *reference) flush() {
	for len(r.open) > 0 {
		first := ""
		for name, o := range r.open {
			if first == "" || o.start < r.open[first].start {
				first = name
			}
		}
		o := r.open[first]
		delete(r.open, first)
		if !o.skipping {
			o.text = strings.TrimSuffix(o.text, "\r")
			r.logical(*o)
		}
	}
}

func (r *reference) unfinished() int {
	n := int64(0)
	for _, o := range r.open {
		if !o.skipping {
			n = max(n, r.counters.Bytes-o.resume)
		}
	}
	return int(n)
}

var (
	refStamp = `\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d|[+-]\d{4})`
	refCRI   = regexp.MustCompile(`(?s)^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d|[+-]\d{4})) (stdout|stderr) ([FP])(?:\r?$|(?::[^ ]*)?(?: (.*))?$)`)
	refWhole = regexp.MustCompile(`^` + refStamp + `$`)
)

func (r *reference) unwrap(line string) (text, stamp, stream string, partial, ok bool) {
	kinds := []Format{r.opt.Format}
	if r.opt.Format == FormatAuto {
		kinds = []Format{FormatCRI, FormatDocker}
		if r.envelope == FormatDocker {
			kinds = []Format{FormatDocker, FormatCRI}
		}
	}
	for _, kind := range kinds {
		switch kind {
		case FormatCRI:
			if m := refCRI.FindStringSubmatch(line); m != nil {
				r.envelope = kind
				return m[4], m[1], m[2], m[3] == "P", true
			}
		case FormatDocker:
			if !strings.Contains(line, `"log"`) {
				continue
			}
			obj, _ := refObject(line)
			log, ok1 := obj.last("log").(string)
			stream, ok2 := obj.last("stream").(string)
			stamp, ok3 := obj.last("time").(string)
			if ok1 && ok2 && ok3 && (stream == "stdout" || stream == "stderr") && refWhole.MatchString(stamp) {
				r.envelope = kind
				text, found := strings.CutSuffix(log, "\n")
				return text, stamp, stream, !found, true
			}
		}
	}
	if r.envelope == FormatCRI || r.envelope == FormatDocker {
		r.counters.Unparsed++
	}
	return "", "", "", false, false
}

// logical tries everything on one logical line.
func (r *reference) logical(l refLine) {
	r.counters.Evaluated += l.parts
	if len(l.text) > MaxLine {
		l.text = l.text[:MaxLine]
		r.counters.Truncated++
	}
	fields := refFields(l.text)
	for _, rule := range r.rules {
		try := func(part Part, m *rules.Matcher) {
			caps := map[string]string{}
			if !part.SelectorOf(rule).Matches(r.labels, r.opt.Lenient) || !refMatch(m, part.defaultIn(), l.text, fields, caps) {
				return
			}
			var values []string
			for _, name := range rule.CapturedNames {
				v := caps[name]
				if v == "" {
					v = r.labels[name]
				}
				if v == "" {
					v, _ = fields(name)
				}
				values = append(values, v)
			}
			r.hits = append(r.hits, Hit{Rule: rule, Part: part, Time: l.time, Line: l.text, LineNumber: l.number, Values: values, Labels: r.labels})
		}
		if rule.Clear != nil {
			try(PartClear, &rule.Clear.Matcher)
		}
		if rule.Unless != nil {
			try(PartUnless, &rule.Unless.Matcher)
		}
		for i := range rule.Steps {
			try(Part(i), &rule.Steps[i].Matcher)
		}
	}
}

func refMatch(m *rules.Matcher, in rules.In, text string, fields func(string) (string, bool), caps map[string]string) bool {
	quotes := &lines.Quotes{}
	quotes.Reset([]byte(text))
	said, ok := refBeside(m, in, text, quotes, fields, caps, false, false)
	return ok && said
}

// refBeside tries a matcher beside others. said is as in cond.holdsBeside.
func refBeside(m *rules.Matcher, in rules.In, text string, quotes *lines.Quotes, fields func(string) (string, bool), caps map[string]string, said, beside bool) (bool, bool) { //nolint:revive // the state of the recursion
	in = m.In.Within(in)
	voices := placeVoices(in)
	own := map[string]string{}
	note := func(re *literals.Expression, in string, loc []int) {
		for i, name := range re.SubexpNames() {
			if loc != nil && name != "" && own[name] == "" && loc[2*i] >= 0 {
				own[name] = in[loc[2*i]:loc[2*i+1]]
			}
		}
	}
	said = said || voices == everyVoice || len(quotes.Spans()) == 0 && voices&lines.Message != 0 || statesFields(m, beside)
	for _, c := range m.Contains {
		found, here := false, false
		for k := range len(text) - len(c) + 1 {
			if text[k:k+len(c)] == c {
				here = here || quotes.HasVoice(k, k+len(c), voices)
				found = found || here || isName([]byte(text), k, k+len(c), quotes)
			}
		}
		if !found {
			return false, false
		}
		said = said || here
	}
	if m.Regex != nil && soughtTexts(m.Regex) != nil && voices != everyVoice {
		found, here := findAny(soughtTexts(m.Regex), []byte(text), quotes, voices, said || len(m.Any) > 0)
		if !found {
			return false, false
		}
		said = said || here
	} else if m.Regex != nil {
		r := findExpression(m.Regex, []byte(text), quotes, voices, said || len(m.Any) > 0)
		if r.loc == nil {
			return false, false
		}
		note(m.Regex, text, r.loc)
		said = said || r.said
	}
	for _, f := range m.Fields {
		v, ok := fields(f.Name)
		if voices != everyVoice && len(quotes.Spans()) > 0 {
			var said lines.Fields
			said.Reset([]byte(text))
			value, found := said.LookupSaid(f.Name, quotes)
			v, ok = string(value), found
		}
		if !ok || f.Regex == nil && v != f.Value {
			return false, false
		}
		if f.Regex != nil {
			loc := f.Regex.Regexp().FindStringSubmatchIndex(v)
			if loc == nil {
				return false, false
			}
			note(f.Regex, v, loc)
		}
	}
	held := len(m.Any) == 0
	for i := range m.Any {
		branch := map[string]string{}
		if !said && isUnsure(placeVoices(m.Any[i].In.Within(in)), voices, beside || hasTexts(m)) {
			continue
		}
		if here, ok := refBeside(&m.Any[i], in, text, quotes, fields, branch, said, beside || hasTexts(m)); ok && here {
			for name, v := range branch {
				if own[name] == "" {
					own[name] = v
				}
			}
			held, said = true, true
			break
		}
	}
	if !held || m.Not != nil && refMatch(m.Not, rules.InAnywhere, text, fields, map[string]string{}) {
		return false, false
	}
	for name, v := range own {
		if caps[name] == "" {
			caps[name] = v
		}
	}
	return said, true
}
