package envelope

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
)

// step takes one part of an envelope off a line and notes what it says. It returns false if
// the line does not have the part. What it returns is valid until its next call.
type step func(line []byte, f *facts) ([]byte, bool)

// maxSteps bounds the envelopes around each other.
const maxSteps = 7

// column is a part of an envelope that stands before the rest of each line.
type column struct {
	cut func(d *Decoder, line []byte, f *facts) (rest []byte, ok bool)
	// sure reports whether what was cut can hardly be written by the program; nil means always. Six of
	// ten lines, or half of those that name pods, must be sure.
	sure func(d *Decoder, line, rest []byte) bool
}

// columns are tried in this order.
var columns = []column{
	{cut: (*Decoder).cutRuby},
	{cut: (*Decoder).cutSyslog},
	{cut: func(d *Decoder, line []byte, f *facts) ([]byte, bool) { return d.cutStamp(line, true, f) }, sure: (*Decoder).sureStamp},
	{cut: func(d *Decoder, line []byte, f *facts) ([]byte, bool) { return d.cutStamp(line, false, f) }, sure: (*Decoder).sureStamp},
	{cut: (*Decoder).cutStream},
	{cut: (*Decoder).cutLabels},
	{cut: func(d *Decoder, line []byte, f *facts) ([]byte, bool) { return d.cutPlace(line, bracketLen, f) }},
	{cut: func(d *Decoder, line []byte, f *facts) ([]byte, bool) { return d.cutPlace(line, colonLen, f) }},
	{cut: (*Decoder).cutPath},
	{cut: (*Decoder).cutService},
	{cut: (*Decoder).cutWords},
}

// marks are columns that say nothing, and are looked for only outside of those.
var marks = []func([][]byte) step{findMark, findNumbers, findIndent}

// detect returns the steps that take the envelope off lines like these. It returns none for
// lines as a container wrote them. placed reports whether they state times or places.
func (d *Decoder) detect(sample [][]byte) (chain []step, placed bool) {
	lines := make([][]byte, 0, len(sample))
	for _, l := range sample {
		if l = bytes.TrimRight(l, "\r\n"); len(bytes.TrimSpace(l)) > 0 {
			lines = append(lines, l)
		}
	}
	for len(chain) < maxSteps && len(lines) > 0 {
		var next step
		found := false
		if next, found = d.nextStep(lines, len(chain) == 0, placed); next == nil {
			break
		}
		placed = found
		var rest [][]byte
		for _, l := range lines {
			var f facts
			r, ok := next(l, &f)
			for part := range bytes.SplitSeq(r, []byte("\n")) {
				if ok && len(bytes.TrimSpace(part)) > 0 {
					rest = append(rest, bytes.Clone(part))
				}
			}
		}
		chain, lines = append(chain, next), rest
	}
	return chain, placed
}

// nextStep returns the outermost part of the envelope of lines, nil if they have none, and
// whether that or an outer part states times or places.
func (d *Decoder) nextStep(lines [][]byte, outermost, placed bool) (step, bool) {
	for _, u := range undos {
		if (outermost || !u.outermost) && u.found(lines) {
			var buf []byte
			return func(line []byte, _ *facts) ([]byte, bool) {
				buf = u.undo(buf[:0], line)
				return buf, true
			}, placed
		}
	}
	if d.isStructured(lines) || most(lines, func(l []byte) bool { return (headerOf(l).own() || isPairs(l)) && !isLabelled(l) }) {
		return nil, placed
	}
	d.findContainers(lines)
	for _, c := range columns {
		if s := d.findColumn(c, lines); s != nil {
			return s, true
		}
	}
	if !placed { // What follows a place is of the container, or a further tag.
		for _, find := range marks {
			if s := find(lines); s != nil {
				return s, false
			}
		}
	}
	return d.findAnchor(lines, placed), true
}

// isStructured reports whether a value over several lines begins, or a table.
func (d *Decoder) isStructured(lines [][]byte) bool {
	for i, l := range lines[:min(len(lines), 3)] { // An element of XML may have others around it.
		if d.closingOf(bytes.TrimSpace(l), bytes.Join(lines[i+1:], []byte("\n"))) != nil {
			return true
		}
		if resourceHead.Match(l) {
			return true
		}
	}
	first := bytes.TrimSpace(lines[0])
	return string(first) == "[" || string(first) == "{" || slices.ContainsFunc(lines[:min(len(lines)-1, 3)], func(l []byte) bool { return d.sheetOf(l) != nil })
}

// findColumn returns the step that cuts a column off, nil if the lines do not have it.
func (d *Decoder) findColumn(c column, lines [][]byte) step {
	n, sure := 0, 0
	var rests [][]byte
	for _, l := range lines {
		var f facts
		if rest, ok := c.cut(d, l, &f); ok {
			n++
			rests = append(rests, bytes.Clone(rest))
			if c.sure == nil || c.sure(d, l, rest) {
				sure++
			}
		}
	}
	if n == 0 || n*10 < len(lines)*6 || sure*10 < n*6 && !sameTag(rests) {
		return nil
	}
	return func(line []byte, f *facts) ([]byte, bool) { return c.cut(d, line, f) }
}

// most reports whether six of ten lines have a property.
func most(lines [][]byte, has func([]byte) bool) bool {
	n := share(lines, has)
	return n*10 >= len(lines)*6 && n > 0
}

// share returns how many lines have a property.
func share(lines [][]byte, has func([]byte) bool) (n int) {
	for _, l := range lines {
		if has(l) {
			n++
		}
	}
	return n
}

// cutRuby turns hashes of Ruby, as fluent-bit prints records, into JSON. The tag of the record stands
// before it.
func (d *Decoder) cutRuby(line []byte, f *facts) ([]byte, bool) {
	at := bytes.IndexByte(line, '{')
	if at < 0 || !bytes.Contains(line, []byte(`"=>`)) {
		return line, false
	}
	if k := bytes.Index(line[:at], []byte(": [")); k >= 0 {
		d.rec.pathFact(line[bytes.LastIndexByte(line[:k], ' ')+1:k], f)
		at = k + len(": ")
	}
	d.ruby = d.ruby[:0]
	for b := line[at:]; len(b) > 0; {
		n := 1
		switch {
		case b[0] == '"':
			_, _, n, _ = quoted(b, 0)
			d.ruby = append(d.ruby, b[:n]...)
		case bytes.HasPrefix(b, []byte("=>nil")):
			n, d.ruby = 5, append(d.ruby, ":null"...)
		case bytes.HasPrefix(b, []byte("=>")):
			n, d.ruby = 2, append(d.ruby, ':')
		default:
			d.ruby = append(d.ruby, b[0])
		}
		b = b[n:]
	}
	return d.ruby, true
}

// cutSyslog takes a header such as these off a line:
//
//	<30>Nov 20 10:00:00 host kubelet[123]: text
//	<30>1 2025-11-20T10:00:00.123Z host kubelet 123 - - text
//	Thu 2025-11-20 10:00:00 UTC host kubelet[123]: text
func (d *Decoder) cutSyslog(line []byte, f *facts) ([]byte, bool) {
	b := line
	if k := bytes.Index(b[:min(len(b), 8)], []byte(" <")); k > 0 && isDigits(b[:k]) { // the length of the message
		b = b[k+1:]
	}
	pri := false
	if len(b) > 3 && b[0] == '<' {
		k := bytes.IndexByte(b[:min(len(b), 6)], '>')
		if k < 2 || !isDigits(b[1:k]) {
			return line, false
		}
		if b, pri = b[k+1:], true; bytes.HasPrefix(b, []byte("1 ")) {
			return d.cutSyslog5424(line, b[2:], f)
		}
	}
	n := d.timeLen(b)
	if n == 0 || n >= len(b) || b[n] != ' ' {
		return line, false
	}
	at := b[:n]
	host, rest, ok := bytes.Cut(b[n+1:], []byte(" "))
	if !ok || len(host) == 0 || bytes.ContainsAny(host, "[]{}()=\"/\t") || isDigits(host) || host[len(host)-1] == ':' {
		return line, false
	}
	k := bytes.Index(rest[:min(len(rest), 200)], []byte(": "))
	text := rest[max(0, min(len(rest), k+2)):]
	if k <= 0 { // an empty text
		if k = len(rest) - 1; k <= 0 || k > 200 || rest[k] != ':' {
			return line, false
		}
		text = nil
	}
	tag := rest[:k]
	if bytes.ContainsAny(tag, " \t{}\"=") || levelLen(rest[:k+1]) > 0 {
		return line, false
	}
	pid := bytes.IndexByte(tag, '[')
	if pid > 0 && tag[len(tag)-1] == ']' {
		tag = tag[:pid]
	} else if !pri && string(tag) != "kernel" && headerOf(text) == none {
		return line, false
	}
	f.stamp, f.rank, f.zoneless = at, 200, !bytes.HasSuffix(at, []byte("Z")) && bytes.IndexByte(at[min(len(at), 10):], '+') < 0
	d.daemon(host, tag, f)
	return text, true
}

// cutSyslog5424 takes the rest of a header of RFC 5424 off a line.
func (d *Decoder) cutSyslog5424(line, b []byte, f *facts) ([]byte, bool) {
	var w [5][]byte
	for i := range w {
		var ok bool
		if w[i], b, ok = bytes.Cut(b, []byte(" ")); !ok {
			return line, false
		}
	}
	if string(w[0]) != "-" {
		if n, _ := stampLen(w[0]); n != len(w[0]) || n == 0 {
			return line, false
		}
		f.stamp, f.rank = w[0], 200
	}
	d.daemon(w[1], w[2], f)
	if len(b) == 0 || b[0] != '-' && b[0] != '[' {
		return line, false
	}
	if b[0] == '-' {
		b = b[1:]
	}
	for len(b) > 0 && b[0] == '[' {
		end := 1
		for end < len(b) && b[end] != ']' {
			k := bytes.IndexByte(b[end:], '=')
			if k < 0 {
				return line, false
			}
			key := b[end : end+k]
			val, _, next, ok := valueAt(b, end+k+1, " ]")
			if !ok {
				return line, false
			}
			d.rec.fact(d.rec.class(key[bytes.LastIndexByte(key, ' ')+1:]), attrs, val, false, f)
			end = next
		}
		b = b[min(len(b), end+1):]
	}
	return bytes.TrimPrefix(bytes.TrimPrefix(b, []byte(" ")), []byte("\ufeff")), true
}

// hostDaemon matches programs that run as units of systemd on nodes. Others may be those of
// containers.
var hostDaemon = regexp.MustCompile(`^(?:kube[a-z-]*|containerd|cri-?o|dockerd?|k3s[a-z-]*|rke2[a-z-]*|etcd|rancher-system-agent|systemd|podman)$`)

// daemon notes the host and the program of a line of syslog.
func (d *Decoder) daemon(host, tag []byte, f *facts) {
	f.place[roleNode] = host
	if d.rec.pathFact(tag, f) {
		return
	}
	if tag = bytes.TrimSuffix(tag, []byte(".service")); string(tag) == "kernel" {
		f.place[roleTransport] = tag
		return
	}
	f.place[roleIdentifier] = tag
	f.file.Unit = remember(&d.units, tag, func(tag []byte) string {
		if !hostDaemon.Match(tag) {
			return ""
		}
		return string(tag) + ".service"
	})
}

// maxKnown bounds the texts before lines that are remembered.
const maxKnown = 20_000

// remember returns what is known of a text.
func remember[T any](known *map[string]T, text []byte, read func([]byte) T) T {
	if v, ok := (*known)[string(text)]; ok {
		return v
	}
	if *known == nil || len(*known) >= maxKnown {
		*known = map[string]T{}
	}
	v := read(text)
	(*known)[string(text)] = v
	return v
}

// clock matches a time of an unknown day, and the seconds since the start of a node.
var clock = regexp.MustCompile(`^(?:\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: [AaPp][Mm])?|\[ *\d+\.\d{6}\])(?:[\] :]|$)`)

// timeLen returns the length of the time at the start of a line, in one of the forms that
// begin a line of syslog, of journalctl or of a tool that adds times; 0 if there is none.
func (d *Decoder) timeLen(b []byte) int {
	if len(b) < 6 {
		return 0
	}
	if n, _ := stampLen(b); n > 0 {
		for _, zone := range []string{" UTC", " +0000", " GMT"} {
			if bytes.HasPrefix(b[n:], []byte(zone)) {
				return n + len(zone)
			}
		}
		return n
	}
	words, found := 0, 0
	for i, c := range b[:min(len(b), 40)] {
		if c != ' ' && c != '\t' && c != ']' {
			continue
		}
		if words++; words > 6 || found > 0 && words > found>>8+1 {
			break
		}
		if i < 10 || b[i-1] == ',' {
			continue
		}
		if _, _, ok := d.stamps.parse(b[:i]); ok { // One more word may belong to it.
			found = words<<8 | i
		}
	}
	if found == 0 && (b[0] == '[' || b[0]-'0' <= 9) {
		return max(0, len(clock.Find(b[:min(len(b), 40)]))-1)
	}
	return found & 0xff
}

// cutStamp takes a time off a line, in brackets or not.
func (d *Decoder) cutStamp(line []byte, bracket bool, f *facts) ([]byte, bool) {
	b := line
	if bracket {
		if len(b) == 0 || b[0] != '[' {
			return line, false
		}
		b = b[1:]
	}
	if n, _ := stampLen(b); n > 0 && isCRI(b[n:]) {
		return line, false
	}
	n := d.timeLen(b)
	if n == 0 {
		return line, false
	}
	at, rest := b[:n], b[n:]
	switch {
	case bracket && len(rest) > 1 && rest[0] == ']':
		rest = rest[1:]
	case bracket:
		return line, false
	case len(rest) > 0 && rest[0] == ':':
		rest = rest[1:]
	}
	if len(rest) > 0 {
		if bytes.IndexByte([]byte(" \t,|"), rest[0]) < 0 {
			return line, false
		}
		rest = rest[1:]
	}
	f.stamp, f.rank, f.zoneless = at, 200, isMonth(at[:3])
	return rest, true
}

// sureStamp reports whether a tool wrote the time before a line: it is more exact than what programs
// write, or a header of the program follows it, or what else a tool writes.
func (d *Decoder) sureStamp(line, rest []byte) bool {
	n, fraction := stampLen(line)
	switch {
	case fraction >= 7 && n < len(line) && line[n] == ' ', headerOf(rest) > word, isLabelled(rest), isStream(rest):
		return true
	case len(line) > len(rest) && line[len(line)-len(rest)-1] == '\t':
		k := bytes.IndexByte(rest, '\t') // the end of a level, as in the console format of zap
		return k <= 0 || k > len("CRITICAL") || bytes.IndexByte(rest[:k], ' ') >= 0
	}
	k := anchorOf(rest)
	if k <= 0 {
		return bracketLen(d, rest) > 0
	}
	return d.originOf(rest[:k]).sure || bytes.HasPrefix(rest, []byte("stdout ")) || bytes.HasPrefix(rest, []byte("stderr "))
}

// isLabelled reports whether a line begins with labels, such as {namespace="x", pod="y"}.
func isLabelled(b []byte) bool {
	if len(b) < 4 || b[0] != '{' || b[1] == '"' {
		return false
	}
	k := bytes.IndexByte(b, '=')
	return k > 1 && k < 60 && k+1 < len(b) && b[k+1] == '"' && isLabelName(b[1:k])
}

func isLabelName(b []byte) bool {
	for _, c := range b {
		if c != '_' && !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') {
			return false
		}
	}
	return len(b) > 0
}

// isStream reports whether a line begins with the number and the letter of a stream, such as 01O, as GitLab
// writes them behind the time.
func isStream(b []byte) bool {
	return len(b) >= 4 && isDigits(b[:2]) && (b[2] == 'O' || b[2] == 'E') && (b[3] == ' ' || b[3] == '+')
}

func (d *Decoder) cutStream(line []byte, f *facts) ([]byte, bool) {
	if !isStream(line) {
		return line, false
	}
	f.stream = line[2] | 0x20
	return line[4:], true
}

func (d *Decoder) cutLabels(line []byte, f *facts) ([]byte, bool) {
	if !isLabelled(line) {
		return line, false
	}
	n := d.rec.labelSet(line, f)
	return bytes.TrimPrefix(line[n:], []byte(" ")), n > 0
}

// origin is what the words before a line say. sure means that they name a pod, and strict that they are
// nothing else.
type origin struct {
	place        Place
	sure, strict bool
}

func (d *Decoder) originOf(prefix []byte) *origin {
	return remember(&d.origins, prefix, func(prefix []byte) *origin {
		p, sure := placeOfWords(prefix)
		return &origin{p, sure, sure && !bytes.ContainsAny(prefix, "{}\"=\t") && !hasLevel(prefix)}
	})
}

// cutPlace takes the names before a line off, whose length lenOf returns.
func (d *Decoder) cutPlace(line []byte, lenOf func(*Decoder, []byte) int, f *facts) ([]byte, bool) {
	n := lenOf(d, line[:min(len(line), 400)])
	if n == 0 {
		return line, false
	}
	f.file = merge(f.file, &d.originOf(line[:n]).place)
	return line[n:], true
}

// bracketLen returns the length of names such as [pod/POD/CONTAINER].
func bracketLen(d *Decoder, b []byte) int {
	if len(b) == 0 || b[0] != '[' && b[0] != '(' && b[0] != '<' {
		return 0
	}
	k := bytes.IndexAny(b, "])>")
	if k < 3 || !d.originOf(b[:k]).strict {
		return 0
	}
	rest := bytes.TrimPrefix(bytes.TrimPrefix(b[k+1:], []byte(":")), []byte(" "))
	return len(b) - len(rest)
}

// colonLen returns the length of names such as NAMESPACE/POD[CONTAINER]: with the space behind it.
func colonLen(d *Decoder, b []byte) int {
	k := bytes.IndexByte(b, ':')
	for k >= 0 && k+1 < len(b) && b[k+1] != ' ' && b[k+1] != '\t' {
		next := bytes.IndexByte(b[k+1:], ':')
		if next < 0 {
			return 0
		}
		k += 1 + next
	}
	if k < 3 || k+1 >= len(b) || bytes.Count(b[:k], []byte(" ")) > 2 || !d.originOf(b[:k]).strict {
		return 0
	}
	return k + 2
}

var path = regexp.MustCompile(`^([^\s:]+\.(?:log|txt|out)(?:\.\d+)?)(?:(:\d+:|-\d+-)|:) ?`)

// cutPath takes the path of a log off a line, with the number of a line if it names no pod.
func (d *Decoder) cutPath(line []byte, f *facts) ([]byte, bool) {
	b := line[:min(len(line), 400)]
	if !bytes.Contains(b, []byte(".log")) && !bytes.Contains(b, []byte(".txt")) && !bytes.Contains(b, []byte(".out")) {
		return line, false
	}
	m := path.FindSubmatchIndex(b)
	if m == nil {
		return line, false
	}
	o := d.originOf(b[:m[3]])
	if !o.strict && m[4] < 0 {
		return line, false
	}
	f.file = merge(f.file, &o.place)
	return line[m[1]:], true
}

// cutService takes the name of a service off a line, such as NAME | text. It is never a pod.
func (d *Decoder) cutService(line []byte, f *facts) ([]byte, bool) {
	k := bytes.IndexByte(line[:min(len(line), 100)], '|')
	if k < 2 || line[k-1] != ' ' {
		return line, false
	}
	name := bytes.TrimRight(line[:k], " ")
	if len(name) == 0 || bytes.ContainsAny(name, " \t{}\"=()") {
		return line, false
	}
	f.file = merge(f.file, remember(&d.services, name, func(name []byte) *Place { return &Place{Name: string(name)} }))
	return bytes.TrimPrefix(line[k+1:], []byte(" ")), true
}

// cutWords takes names such as NAMESPACE POD CONTAINER off a line.
func (d *Decoder) cutWords(line []byte, f *facts) ([]byte, bool) {
	n := d.wordsLen(line)
	if n == 0 {
		return line, false
	}
	if word, _, _ := bytes.Cut(line[n:], []byte(" ")); d.containers && isName(word) {
		n = min(n+len(word)+1, len(line))
	}
	f.file = merge(f.file, &d.originOf(line[:n]).place)
	return line[n:], true
}

// wordsLen returns the length of the words up to the name of a pod, with the space behind it.
func (d *Decoder) wordsLen(line []byte) (n int) {
	for range 3 {
		k := bytes.IndexByte(line[n:min(len(line), n+254)], ' ')
		if k <= 0 || !isName(line[n:n+k]) {
			return 0
		}
		if n += k + 1; remember(&d.pods, line[n-k-1:n-1], isPod) {
			return n
		}
	}
	return 0
}

// findContainers notes whether the name of the container follows that of the pod.
func (d *Decoder) findContainers(lines [][]byte) {
	none, one, n := 0, 0, 0
	seconds := map[string]bool{}
	for _, l := range lines {
		k := d.wordsLen(l)
		if k == 0 {
			continue
		}
		if n++; headerOf(l[k:]) != 0 {
			none++
		}
		if word, rest, ok := bytes.Cut(l[k:], []byte(" ")); ok && isName(word) {
			if seconds[string(word)] = true; headerOf(rest) != 0 {
				one++
			}
		}
	}
	d.containers = none <= one && (one > 0 || len(seconds) <= 1+n/3)
}

// findMark finds marks before each line, as of quotes and lists.
func findMark(lines [][]byte) step {
	counts := map[string]int{}
	for _, l := range lines {
		if k := markLen(l); k > 0 {
			counts[string(bytes.TrimRight(l[:k], " "))]++
		}
	}
	mark := ""
	for _, m := range slices.Sorted(maps.Keys(counts)) {
		if counts[m] > counts[mark] {
			mark = m
		}
	}
	if counts[mark]*10 < len(lines)*6 || mark == "" {
		return nil
	}
	return func(line []byte, _ *facts) ([]byte, bool) {
		rest, ok := bytes.CutPrefix(line, []byte(mark))
		if !ok {
			return line, false
		}
		return bytes.TrimPrefix(rest, []byte(" ")), true
	}
}

// markLen returns the length of the marks at the start of a line.
func markLen(b []byte) int {
	rest := bytes.TrimLeft(b, ">|*#+-;~$%:! \t\u2502\u2503\u2022\u203a\u2551\u00b7\u00bb\u00a6")
	for bytes.HasPrefix(rest, []byte("//")) {
		rest = bytes.TrimLeft(rest[2:], " \t/")
	}
	if n := len(b) - len(rest); len(bytes.TrimSpace(b[:n])) > 0 {
		return n
	}
	return 0
}

var numbered = regexp.MustCompile(`^[ #L\[(]*([0-9]{1,7})(?:[:.)|\]>-]*(?:\t| {1,4}(?:\| )?|$)|:)`)

// findNumbers finds numbers of lines, which increase.
func findNumbers(lines [][]byte) step {
	last, n, rising, headed, first := -1, 0, 0, 0, -1
	for _, l := range lines {
		m := numbered.FindSubmatchIndex(l)
		if m == nil {
			continue
		}
		number := digits(l[m[2]:m[3]])
		if n++; first < 0 {
			first = number
		}
		if number > last {
			rising++
		}
		if last = number; headerOf(l[m[1]:]) != none {
			headed++
		}
	}
	if n*10 < len(lines)*6 || n == 0 || rising < n || headed*10 < n*4 && first != 1 || headed == 0 && n < 2 {
		return nil
	}
	return func(line []byte, _ *facts) ([]byte, bool) {
		m := numbered.FindIndex(line[:min(len(line), 32)])
		if m == nil {
			return line, false
		}
		return line[m[1]:], true
	}
}

// findIndent finds white space before every line, or before most lines with a header.
func findIndent(lines [][]byte) step {
	common, counts := len(lines[0]), map[string]int{}
	for _, l := range lines {
		space := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		common = min(common, len(space))
		if counts[string(space)]++; headerOf(l[len(space):]) <= word {
			counts[string(space)]--
		}
	}
	indent := lines[0][:common]
	for space, n := range counts {
		if common == 0 && len(space) > 0 && n*10 >= len(lines)*6 {
			indent = []byte(space)
		}
	}
	if len(indent) == 0 {
		return nil
	}
	indent = bytes.Clone(indent)
	return func(line []byte, _ *facts) ([]byte, bool) { return bytes.CutPrefix(line, indent) }
}

// anchorOf returns where the header of a program begins behind something else, 0 if nowhere.
func anchorOf(b []byte) int {
	limit := min(len(b), 240)
	for i := 1; i < limit; i++ {
		before := b[i-1]
		if bytes.IndexByte([]byte(" \t:]|>),;\"'`="), before) < 0 {
			continue
		}
		switch c := b[i]; {
		case 'D' <= c && c <= 'W' && isKlog(b[i:]):
			return i
		case c == '{':
			if i+2 < len(b) && b[i+1] == '"' && before != '=' && b[len(bytes.TrimRight(b, " \r`"))-1] == '}' && isLogged(b[i:]) {
				return i
			}
		case c == 't' || c == 'l':
			if before == ' ' && headerOf(b[i:]) == logfmt && bytes.IndexByte(b[:i], '=') < 0 {
				return i
			}
		case '0' <= c && c <= '9':
			if n, _ := stampLen(b[i:]); n > 0 && before != '"' && before != '=' {
				return i
			}
		}
	}
	return 0
}

// isLogged reports whether JSON has a field that lines of logs have.
func isLogged(b []byte) bool {
	for _, key := range []string{`"ts":`, `"time":`, `"timestamp":`, `"@timestamp":`, `"level":`, `"log":`, `"message":`, `"msg":`, `"line":`} {
		if bytes.Contains(b, []byte(key)) {
			return true
		}
	}
	return false
}

// complete begins the JSON of a log library.
var complete = regexp.MustCompile(`^\{"(?:ts|time|level|timestamp|@timestamp)":`)

// isComplete reports whether a text is klog, or JSON that begins with its time or its level: what stands
// before it is of a tool.
func isComplete(b []byte) bool { return isKlog(b) || complete.Match(b) }

// sameTag reports whether the same text stands before klog or JSON in several lines.
func sameTag(lines [][]byte) bool {
	var tag []byte
	for _, l := range lines {
		k := anchorOf(l)
		if k == 0 || l[k] != '{' && !isKlog(l[k:]) || hasLevel(l[:k]) && !isComplete(l[k:]) || tag != nil && !bytes.Equal(tag, l[:k]) {
			return false
		}
		tag = l[:k]
	}
	return len(lines) > 1
}

// findAnchor finds any other text before the headers of programs. Behind a time or a place,
// if placed, it must name a pod.
func (d *Decoder) findAnchor(lines [][]byte, placed bool) step {
	n, sure, bare := 0, 0, 0
	names, texts := map[string]bool{}, map[string]int{}
	for _, l := range lines {
		k := anchorOf(l)
		led := k > 0 && k <= levelLen(l)+len(": ") && headerOf(l[k:]).own() // A person wrote "error:" before it.
		if h := headerOf(l); h != none && h != syslog && !led {
			bare++
			continue
		}
		if k == 0 || k > 160 || hasLevel(l[:k]) && !led && !isComplete(l[k:]) || len(bytes.Fields(l[:k])) > 8 {
			continue
		}
		n++
		o := d.originOf(l[:k])
		if o.sure || led || isKlog(l[k:]) && !placed { // Nothing else writes klog in the middle of a line.
			sure++
		}
		names[o.place.Name] = true
		texts[string(l[:k])]++
	}
	if n == 0 || n*10 < len(lines)*6 || bare > n/2 || sure*2 < n && (len(texts)*3 > n || placed && !sameTag(lines)) {
		return nil
	}
	named := len(names) > 1 && len(names)*2 <= n
	var last []byte
	return func(line []byte, f *facts) ([]byte, bool) {
		k := anchorOf(line)
		if k == 0 || k > 160 {
			if last == nil || !bytes.HasPrefix(line, last) {
				return line, false
			}
			k = len(last)
		}
		last = append(last[:0], line[:k]...)
		if o := d.originOf(last); o.sure || named {
			f.file = merge(f.file, &o.place)
		}
		return line[k:], true
	}
}
