package matcher

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"crowsnest/rules"
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
	text           string
	time           time.Time
	number, parts  int64
	skipping       bool
	start          int64
	unsplit, noNUL bool
}

func newReference(set []*rules.Rule, labels Labels, opt StreamOptions) *reference {
	r := &reference{labels: labels, opt: opt, open: map[string]*refLine{}, envelope: opt.Format}
	for _, rule := range set {
		if rule.Mode != rules.ModeOff && rule.From.Matches(labels, opt.Lenient) {
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
	t, ok := refTime(stamp)
	if !ok {
		t = now
	}
	o := r.open[stream]
	if o == nil {
		o = &refLine{time: t, number: r.counters.Lines, start: start}
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
	if partial && len(o.text) < MaxMerged {
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
			n = max(n, r.counters.Bytes-o.start)
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

func refTime(stamp string) (time.Time, bool) {
	leap := strings.Contains(stamp, ":60") && stamp[16:19] == ":60"
	if leap {
		stamp = stamp[:16] + ":59" + stamp[19:]
	}
	stamp = strings.ReplaceAll(strings.Replace(stamp, " ", "T", 1), "/", "-")
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700"} {
		if t, err := time.Parse(layout, stamp); err == nil {
			if leap {
				t = t.Add(time.Second)
			}
			return t.UTC(), true
		}
	}
	return time.Time{}, false
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
			if !refMatch(m, l.text, fields, caps) {
				return
			}
			var values []string
			for _, name := range rule.Wants {
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

func refMatch(m *rules.Matcher, text string, fields func(string) (string, bool), caps map[string]string) bool {
	own := map[string]string{}
	capture := func(re *regexp.Regexp, in string) bool {
		found := re.FindStringSubmatch(in)
		for i, name := range re.SubexpNames() {
			if found != nil && name != "" && own[name] == "" {
				own[name] = found[i]
			}
		}
		return found != nil
	}
	for _, c := range m.Contains {
		if !strings.Contains(text, c) {
			return false
		}
	}
	if m.Regex != nil && !capture(m.Regex, text) {
		return false
	}
	for _, f := range m.Fields {
		v, ok := fields(f.Name)
		if !ok || f.Regex == nil && v != f.Value || f.Regex != nil && !capture(f.Regex, v) {
			return false
		}
	}
	held := len(m.Any) == 0
	for i := range m.Any {
		branch := map[string]string{}
		if refMatch(&m.Any[i], text, fields, branch) {
			for name, v := range branch {
				if own[name] == "" {
					own[name] = v
				}
			}
			held = true
			break
		}
	}
	if !held || m.Not != nil && refMatch(m.Not, text, fields, map[string]string{}) {
		return false
	}
	for name, v := range own {
		if caps[name] == "" {
			caps[name] = v
		}
	}
	return true
}

// refFields returns the lookup of a line's fields.
func refFields(text string) func(string) (string, bool) {
	if obj, ok := refObject(text); ok {
		return obj.field
	}
	all := refText(text)
	return func(name string) (string, bool) {
		v, ok := all[name]
		return v, ok
	}
}

// refText reads the fields of text.
func refText(s string) map[string]string {
	out := map[string]string{}
	i, letters := 0, 0
	quoted := func() (string, bool) { // at a quote
		if i < letters {
			return "", false
		}
		line, _, _ := strings.Cut(s[i:], "\n")
		if m := regexp.MustCompile(`^"((?:[^"\\]|\\.)*)"`).FindStringSubmatch(line); m != nil {
			i += len(m[0])
			return m[1], true
		}
		letters = i + len(line)
		return "", false
	}
	until := func(stop string) string {
		start := i
		for i < len(s) && !strings.ContainsRune(stop, rune(s[i])) {
			if s[i] == '"' {
				if _, ok := quoted(); ok {
					continue
				}
			}
			i++
		}
		return s[start:i]
	}
	value := func(key string) {
		i++
		switch {
		case strings.HasPrefix(s[i:], `"`):
			if v, ok := quoted(); ok {
				out[key] = refUnquote(v)
				return
			}
			if !strings.Contains(s[i:], "\n") {
				out[key] = refUnquote(s[i+1:])
				i = len(s)
				return
			}
		case s[i:] == "<":
			i++
			return
		case strings.HasPrefix(s[i:], "<\n"):
			block, _, found := strings.Cut(s[i+2:], "\n >")
			i += 2 + len(block)
			if found {
				i += 3
			}
			out[key] = strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n\t", "\n"), "\n")
			return
		}
		v := until(" \t\r\n")
		if strings.HasSuffix(v, ",") || strings.HasSuffix(v, ";") {
			v = v[:len(v)-1]
		}
		out[key] = v
	}
	message := true
	for {
		for i < len(s) && strings.IndexByte(" \t\r\n,;", s[i]) >= 0 {
			i++
		}
		if i == len(s) {
			delete(out, "")
			return out
		}
		start := i
		if s[i] == '"' {
			if v, ok := quoted(); ok {
				if strings.HasPrefix(s[i:], "=") && v != "" {
					value(refUnquote(v))
					message = false
				} else if message {
					out["msg"] = refUnquote(v)
					message = false
				}
				continue
			}
			i++
		}
		until(" \t\r\n=")
		word := s[start:i]
		if strings.HasPrefix(s[i:], "=") {
			value(word)
		}
		message = word != "" && i == start+len(word) && regexp.MustCompile(`.:\d+\]$`).MatchString(word)
		if strings.Contains(s[start:i], "=") {
			message = false
		}
	}
}

// refUnquote undoes %q, but for escaped ASCII letters.
func refUnquote(s string) string {
	return regexp.MustCompile(`\\(?:["\\abfnrtv]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?s:.))`).ReplaceAllStringFunc(s, func(esc string) string {
		if strings.HasPrefix(esc, `\U`) && len(esc) == 10 {
			if n, _ := strconv.ParseUint(esc[2:], 16, 32); n > 0x10ffff {
				return "\ufffd"
			}
		}
		if esc[1] == '\'' {
			return esc
		}
		if (esc[1] == 'u' || esc[1] == 'U') && len(esc) > 2 {
			n, _ := strconv.ParseUint(esc[2:], 16, 32)
			if ' ' <= n && n <= '~' {
				return esc
			}
			return string(rune(n))
		}
		v, err := strconv.Unquote(`"` + esc + `"`)
		if err != nil || len(esc) > 2 && printable(rune(v[0])) {
			return esc
		}
		return v
	})
}

// refObj is an object of JSON: keys in order, with values that are string,
// refLiteral, *refObj, or nil for what has no value.
type refObj struct {
	keys   []string
	vals   []any
	closed bool
}

type refLiteral string

func (o *refObj) last(key string) any {
	if o != nil {
		for i := len(o.keys) - 1; i >= 0; i-- {
			if o.keys[i] == key {
				return o.vals[i]
			}
		}
	}
	return nil
}

func (o *refObj) field(name string) (string, bool) {
	switch v := o.last(name).(type) {
	case string:
		return v, true
	case refLiteral:
		return string(v), true
	case *refObj:
		if ref, ok := v.reference(); ok {
			return ref, true
		}
	}
	for dot := len(name) - 1; dot >= 0; dot-- {
		if name[dot] == '.' {
			if inner, ok := o.last(name[:dot]).(*refObj); ok {
				if v, ok := inner.field(name[dot+1:]); ok {
					return v, true
				}
			}
		}
	}
	return "", false
}

func (o *refObj) reference() (string, bool) {
	for _, k := range o.keys {
		if k != "name" && k != "namespace" {
			return "", false
		}
	}
	name, ok := o.last("name").(string)
	ns, isText := o.last("namespace").(string)
	switch {
	case !o.closed || !ok || !isText && o.last("namespace") != nil:
		return "", false
	case ns == "":
		return name, true
	}
	return ns + "/" + name, true
}

// refArray stands for an array, which is not null.
type refArray struct{}

type refJSON struct {
	s   string
	cut bool // the end came too early
	bad bool
}

// refObject reads the object at the start of s.
func refObject(s string) (*refObj, bool) {
	p := &refJSON{s: strings.TrimLeft(s, " \t\r\n")}
	if !strings.HasPrefix(p.s, "{") {
		return nil, false
	}
	o := p.object()
	return o, !p.bad
}

func (p *refJSON) trim() { p.s = strings.TrimLeft(p.s, " \t\r\n") }

func (p *refJSON) stop() { // at something that should not be there, or at the end
	p.cut = true
	p.bad = p.bad || p.s != ""
}

func (p *refJSON) object() *refObj {
	o := &refObj{}
	p.s = p.s[1:]
	for {
		p.trim()
		switch {
		case strings.HasPrefix(p.s, "}"):
			p.s = p.s[1:]
			o.closed = true
			return o
		case !strings.HasPrefix(p.s, `"`):
			p.stop()
			return o
		}
		key := p.str()
		if p.cut {
			return o
		}
		if p.trim(); !strings.HasPrefix(p.s, ":") {
			p.stop()
			return o
		}
		p.s = p.s[1:]
		p.trim()
		v, whole := p.value()
		if whole {
			o.keys, o.vals = append(o.keys, key), append(o.vals, v)
		}
		if p.cut {
			return o
		}
		if p.trim(); strings.HasPrefix(p.s, ",") {
			p.s = p.s[1:]
		} else if !strings.HasPrefix(p.s, "}") {
			p.stop()
			return o
		}
	}
}

// value reads a value; of an object that is cut the start is kept.
func (p *refJSON) value() (v any, whole bool) {
	switch {
	case strings.HasPrefix(p.s, `"`):
		v = p.str()
		return v, !p.cut
	case strings.HasPrefix(p.s, `{`):
		return p.object(), true
	case strings.HasPrefix(p.s, `[`):
		depth := 0
		for p.s != "" {
			c := p.s[0]
			if c == '"' {
				p.str()
				continue
			}
			p.s = p.s[1:]
			if c == '[' || c == '{' {
				depth++
			} else if c == ']' || c == '}' {
				if depth--; depth == 0 {
					return refArray{}, true
				}
			}
		}
		p.stop()
		return nil, false
	}
	k := strings.IndexAny(p.s, " \t\r\n,}]")
	if k < 0 {
		p.s = ""
		p.stop()
		return nil, false
	}
	word := p.s[:k]
	p.s = p.s[k:]
	switch {
	case word == "null":
		return nil, true
	case word == "true", word == "false", word != "" && strings.IndexByte("-0123456789", word[0]) >= 0:
		return refLiteral(word), true
	}
	p.s += " "
	p.stop()
	return nil, false
}

func (p *refJSON) str() string {
	var b strings.Builder
	s := p.s[1:]
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			p.s = s[i+1:]
			return b.String()
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		default:
			n := refEscape(&b, s[i:])
			i += n - 1
		}
	}
	p.s = ""
	p.stop()
	return ""
}

func refEscape(b *strings.Builder, s string) int {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if k := strings.IndexByte(from, s[1]); k >= 0 {
		b.WriteByte(to[k])
		return 2
	}
	hex := func(s string) (rune, bool) {
		if len(s) < 6 || s[:2] != `\u` {
			return 0, false
		}
		n, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(n), err == nil && !strings.Contains(s[2:6], "_")
	}
	r, ok := hex(s)
	if !ok {
		b.WriteString(s[:2])
		return 2
	}
	if low, ok := hex(s[6:]); ok && utf16.DecodeRune(r, low) != '\ufffd' {
		b.WriteRune(utf16.DecodeRune(r, low))
		return 12
	}
	b.WriteRune(r)
	return 6
}
