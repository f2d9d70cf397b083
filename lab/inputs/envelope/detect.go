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

// detect returns the steps that take the envelope off lines like these. It returns none for
// lines as a container wrote them.
func (d *Decoder) detect(sample [][]byte) []step {
	var chain []step
	lines := make([][]byte, 0, len(sample))
	for _, l := range sample {
		if l = bytes.TrimRight(l, "\r\n"); len(bytes.TrimSpace(l)) > 0 {
			lines = append(lines, l)
		}
	}
	placed := false // a part of the envelope that states a time or a place was found
	for len(chain) < maxSteps && len(lines) > 0 {
		var next step
		next, placed = d.nextStep(lines, len(chain) == 0, placed)
		if next == nil {
			break
		}
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
	return chain
}

// nextStep returns the outermost part of the envelope of lines, nil if they have none, and
// whether that or an outer part states times or places.
func (d *Decoder) nextStep(lines [][]byte, outermost, placed bool) (step, bool) {
	switch {
	case slices.ContainsFunc(lines, func(l []byte) bool { return bytes.IndexByte(l, 0x1b) >= 0 }):
		return d.into(stripEscapes), placed
	case share(lines, hasColours)*10 >= len(lines)*3:
		return d.into(stripColours), placed
	case slices.ContainsFunc(lines, hasStrange):
		return d.into(plainSpaces), placed
	case outermost && isHTML(lines):
		return d.into(unescapeHTML), placed
	case outermost && isEscaped(lines):
		return d.into(func(dst, b []byte) []byte { return unescape(dst, unquoteLine(b)) }), placed
	}
	if d.structured(lines) || most(lines, func(l []byte) bool { return headerOf(l).own() && !isLabelled(l) }) {
		return nil, placed
	}
	for _, find := range []func([][]byte) step{d.findRuby, d.findSyslog, d.findStamp, d.findPlace} {
		if s := find(lines); s != nil {
			return s, true
		}
	}
	if placed { // what follows is of the container, or a further tag
		return d.findAnchor(lines, true), true
	}
	for _, find := range []func([][]byte) step{d.findMark, d.findNumbers, d.findIndent} {
		if s := find(lines); s != nil {
			return s, false
		}
	}
	return d.findAnchor(lines, false), true
}

// structured reports whether a JSON value over several lines begins, or a table.
func (d *Decoder) structured(lines [][]byte) bool {
	first := bytes.TrimSpace(lines[0])
	if string(first) == "[" || string(first) == "{" {
		return true
	}
	return len(lines) > 1 && d.sheetOf(lines[0], new(facts)) != nil
}

// into makes a step of a function that appends the changed line.
func (d *Decoder) into(change func(dst, b []byte) []byte) step {
	var buf []byte
	return func(line []byte, _ *facts) ([]byte, bool) {
		buf = change(buf[:0], line)
		return buf, true
	}
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

// most reports whether six of ten lines have a property.
func most(lines [][]byte, has func([]byte) bool) bool {
	n := share(lines, has)
	return n*10 >= len(lines)*6 && n > 0
}

// findRuby finds hashes of Ruby, as fluent-bit prints records.
func (d *Decoder) findRuby(lines [][]byte) step {
	if !most(lines, func(l []byte) bool { return bytes.Contains(l, []byte(`"=>`)) && bytes.Contains(l, []byte("{")) }) {
		return nil
	}
	var buf []byte
	return func(line []byte, f *facts) ([]byte, bool) {
		at := bytes.IndexByte(line, '{')
		if k := bytes.Index(line, []byte(": [")); k >= 0 && k < at {
			if p, ok := placeOfPath(lastWord(line[:k])); ok {
				f.file = p
			}
			at = k + len(": ")
		}
		if at < 0 {
			return line, false
		}
		buf = buf[:0]
		for b := line[at:]; len(b) > 0; {
			switch {
			case b[0] == '"':
				_, _, next, _ := quoted(b, 0)
				buf, b = append(buf, b[:next]...), b[next:]
			case bytes.HasPrefix(b, []byte("=>nil")):
				buf, b = append(buf, ":null"...), b[5:]
			case bytes.HasPrefix(b, []byte("=>")):
				buf, b = append(buf, ':'), b[2:]
			default:
				buf, b = append(buf, b[0]), b[1:]
			}
		}
		return buf, true
	}
}

func lastWord(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return b[bytes.LastIndexByte(b, ' ')+1:]
}

// findSyslog finds the headers of RFC 3164 and 5424, and those of journalctl.
func (d *Decoder) findSyslog(lines [][]byte) step {
	if !most(lines, func(l []byte) bool { _, ok := d.syslog(l, new(facts)); return ok }) {
		return nil
	}
	return d.syslog
}

// syslog takes a header such as these off a line:
//
//	<30>Nov 20 10:00:00 host kubelet[123]: text
//	<30>1 2025-11-20T10:00:00.123Z host kubelet 123 - - text
//	Thu 2025-11-20 10:00:00 UTC host kubelet[123]: text
func (d *Decoder) syslog(line []byte, f *facts) ([]byte, bool) {
	b := line
	pri := false
	if len(b) > 3 && b[0] == '<' {
		k := bytes.IndexByte(b[:min(len(b), 6)], '>')
		if k < 2 || !isDigits(b[1:k]) {
			return line, false
		}
		b, pri = b[k+1:], true
	}
	if pri && bytes.HasPrefix(b, []byte("1 ")) {
		return d.syslog5424(line, b[2:], f)
	}
	n := d.headStamp(b)
	if n == 0 || n >= len(b) || b[n] != ' ' {
		return line, false
	}
	at, rest := b[:n], b[n+1:]
	host, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(host) == 0 || bytes.ContainsAny(host, "[]{}()=\"/\t") || isDigits(host) || host[len(host)-1] == ':' {
		return line, false
	}
	k := bytes.Index(rest[:min(len(rest), 200)], []byte(": "))
	if k <= 0 {
		if k = len(rest) - 1; k <= 0 || k > 200 || rest[k] != ':' {
			return line, false
		}
		rest = append(rest[:len(rest):len(rest)], ' ')
	}
	tag := rest[:k]
	if bytes.ContainsAny(tag, " \t{}\"=") || levelLen(append(tag[:len(tag):len(tag)], ':')) > 0 {
		return line, false
	}
	pid := bytes.IndexByte(tag, '[')
	if pid > 0 && tag[len(tag)-1] == ']' {
		tag = tag[:pid]
	} else if !pri && string(tag) != "kernel" && headerOf(rest[k+2:]) == none {
		return line, false
	}
	f.stamp, f.rank, f.zoneless = at, 200, !bytes.HasSuffix(at, []byte("Z")) && bytes.IndexByte(at[10:], '+') < 0
	d.daemon(host, tag, f)
	return rest[k+2:], true
}

// daemon notes the host and the program of a line of syslog.
func (d *Decoder) daemon(host, tag []byte, f *facts) {
	f.place[roleNode] = host
	if p, ok := placeOfPath(tag); ok {
		f.file = p
		return
	}
	tag = bytes.TrimSuffix(tag, []byte(".service"))
	if string(tag) == "kernel" {
		f.place[roleTransport] = tag
		return
	}
	f.place[roleIdentifier] = tag
	if hostDaemon.Match(tag) {
		f.file.Unit = d.unitName(tag) + ".service"
	}
}

// hostDaemon matches programs that run as units of systemd on nodes. Others may be those of
// containers.
var hostDaemon = regexp.MustCompile(`^(?:kube[a-z-]*|containerd|cri-?o|dockerd?|k3s[a-z-]*|rke2[a-z-]*|etcd|rancher-system-agent|systemd|podman)$`)

// unitName returns a name as a string, which is remembered.
func (d *Decoder) unitName(name []byte) string {
	if s, ok := d.units[string(name)]; ok {
		return s
	}
	if d.units == nil || len(d.units) > 1000 {
		d.units = map[string]string{}
	}
	s := string(name)
	d.units[s] = s
	return s
}

// syslog5424 takes the rest of a header of RFC 5424 off a line.
func (d *Decoder) syslog5424(line, b []byte, f *facts) ([]byte, bool) {
	w := make([][]byte, 0, 5)
	for len(w) < 5 {
		word, rest, ok := bytes.Cut(b, []byte(" "))
		if !ok {
			return line, false
		}
		w, b = append(w, word), rest
	}
	if string(w[0]) != "-" {
		if n, _ := stampLen(w[0]); n != len(w[0]) || n == 0 {
			return line, false
		}
		f.stamp, f.rank = w[0], 200
	}
	d.daemon(w[1], w[2], f)
	switch {
	case bytes.HasPrefix(b, []byte("-")):
		b = b[1:]
	case bytes.HasPrefix(b, []byte("[")):
		for bytes.HasPrefix(b, []byte("[")) {
			end := 1
			for end < len(b) && b[end] != ']' {
				if b[end] == '"' {
					_, _, next, _ := quoted(b, end)
					end = next
					continue
				}
				end++
			}
			if end >= len(b) {
				return line, false
			}
			for pair := range bytes.SplitSeq(b[1:end], []byte(" ")) {
				if k, v, ok := bytes.Cut(pair, []byte("=")); ok {
					d.rec.fact(d.rec.class(k), attrs, bytes.Trim(v, `"`), false, f)
				}
			}
			b = b[end+1:]
		}
	default:
		return line, false
	}
	return bytes.TrimPrefix(bytes.TrimPrefix(b, []byte(" ")), []byte("\ufeff")), true
}

// headStamp returns the length of the time at the start of a line, in one of the forms that
// begin a line of syslog, of journalctl or of a tool that adds times; 0 if there is none.
func (d *Decoder) headStamp(b []byte) int {
	if n, _ := stampLen(b); n > 0 {
		for _, zone := range []string{" UTC", " +0000", " GMT"} {
			if bytes.HasPrefix(b[n:], []byte(zone)) {
				return n + len(zone)
			}
		}
		return n
	}
	if len(b) < 15 {
		return 0
	}
	if month(b[:3]) && b[3] == ' ' {
		for _, n := range []int{15, 19, 22} { // with milliseconds or microseconds
			if len(b) > n && b[n] == ' ' {
				if _, _, ok := d.stamps.layout(string(b[:n])); ok {
					return n
				}
			}
		}
	}
	words := 0
	for i, c := range b[:min(len(b), 40)] {
		if c != ' ' && c != '\t' {
			continue
		}
		if words++; words > 6 {
			break
		}
		head := b[:i]
		if i < 10 || head[i-1] == ',' {
			continue
		}
		if _, _, ok := epoch(head); ok {
			return i
		}
		if _, _, ok := d.stamps.parse(head); ok && !longer(d, b, i) {
			return i
		}
	}
	return 0
}

// longer reports whether one more word belongs to the time at the start of a line.
func longer(d *Decoder, b []byte, n int) bool {
	next := bytes.IndexAny(b[n+1:], " \t")
	if next < 0 {
		return false
	}
	_, _, ok := d.stamps.parse(b[:n+1+next])
	return ok
}

// findStamp finds times that a tool wrote before each line: they are exact beyond what
// programs write, or a header of the program follows them.
func (d *Decoder) findStamp(lines [][]byte) step {
	exact, tabbed, followed, all := 0, 0, 0, 0
	var rests [][]byte
	bracket := most(lines, func(l []byte) bool { return l[0] == '[' })
	for _, l := range lines {
		n, rest := d.cutStamp(l, bracket)
		if n == 0 {
			continue
		}
		all++
		rests = append(rests, rest)
		h := headerOf(rest)
		if _, fraction := stampLen(l); fraction >= 7 && n < len(l) && l[n] == ' ' {
			exact++
		}
		if n < len(l) && l[n] == '\t' && !isZap(rest) {
			tabbed++
		}
		if h != none && h != word || d.anchored(rest) {
			followed++
		}
	}
	if sameTag(rests) {
		followed = all
	}
	if all == 0 || max(exact, tabbed, followed)*10 < all*6 || all*10 < len(lines)*6 {
		return nil
	}
	return func(line []byte, f *facts) ([]byte, bool) {
		n, rest := d.cutStamp(line, bracket)
		if n == 0 {
			return line, false
		}
		at := bytes.Trim(line[:n], "[] \t")
		f.stamp, f.rank, f.zoneless = at, 200, month(at[:min(3, len(at))])
		return rest, true
	}
}

// isZap reports whether a level and a tab follow, as in the console format of zap.
func isZap(b []byte) bool {
	k := bytes.IndexByte(b, '\t')
	return k > 0 && k <= len("CRITICAL") && bytes.IndexByte(b[:k], ' ') < 0
}

// anchored reports whether the words that a tool writes before a line follow, and a header of
// the program after them.
func (d *Decoder) anchored(b []byte) bool {
	if isLabelled(b) {
		return true
	}
	k := anchorOf(b)
	if k <= 0 {
		n := d.placeLen(b, 0)
		return n > 0
	}
	_, sure := placeOfWords(b[:k])
	return sure || bytes.HasPrefix(b, []byte("stdout ")) || bytes.HasPrefix(b, []byte("stderr "))
}

// cutStamp returns the length of the time at the start of a line, and what follows it.
func (d *Decoder) cutStamp(line []byte, bracket bool) (int, []byte) {
	b := line
	if bracket {
		if len(b) == 0 || b[0] != '[' {
			return 0, nil
		}
		b = b[1:]
	}
	if n, _ := stampLen(b); n > 0 && isCRI(b[n:]) {
		return 0, nil
	}
	n := d.headStamp(b)
	if n == 0 && bracket {
		if k := bytes.IndexByte(b[:min(len(b), 40)], ']'); k > 0 {
			if _, _, ok := d.stamps.parse(b[:k]); ok {
				n = k
			}
		}
	}
	if n == 0 {
		return 0, nil
	}
	if bracket {
		if n >= len(b) || b[n] != ']' {
			return 0, nil
		}
		n += 2
	}
	if n == len(line) {
		return n, nil
	}
	if line[n] == ':' {
		n++
	}
	if n >= len(line) || line[n] != ' ' && line[n] != '\t' && line[n] != ',' && line[n] != '|' {
		return 0, nil
	}
	return n, line[n+1:]
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

// findPlace finds the names that a tool writes before each line.
func (d *Decoder) findPlace(lines [][]byte) step {
	if most(lines, isLabelled) {
		return func(line []byte, f *facts) ([]byte, bool) {
			if !isLabelled(line) {
				return line, false
			}
			n := d.rec.labelSet(line, f)
			if n == 0 {
				return line, false
			}
			return bytes.TrimPrefix(line[n:], []byte(" ")), true
		}
	}
	for kind := range placeKinds {
		names := map[string]bool{}
		n, sure := 0, 0
		for _, l := range lines {
			if k := d.placeLen(l, kind); k > 0 {
				n++
				p, ok := placeOfWords(l[:k])
				if ok {
					sure++
				}
				names[p.Name] = true
			}
		}
		if n*10 < len(lines)*6 || n == 0 || kind != composeKind && sure*2 < n {
			continue
		}
		words := 0
		if kind == wordsKind {
			words = d.wordsBefore(lines)
		}
		return d.cutPlace(kind, words, len(names) > 1 || kind == composeKind)
	}
	return nil
}

// The forms of names before a line.
const (
	bracketKind = iota // [pod/POD/CONTAINER] text
	colonKind          // NAMESPACE/POD[CONTAINER]: text
	pathKind           // PATH:12: text
	composeKind        // NAME | text
	wordsKind          // POD CONTAINER text
	placeKinds
)

// placeLen returns the length of the names before a line, in one of the forms.
func (d *Decoder) placeLen(b []byte, kind int) int {
	b = b[:min(len(b), 400)]
	switch kind {
	case bracketKind:
		k := bytes.IndexByte(b, ']')
		if len(b) == 0 || b[0] != '[' && b[0] != '(' && b[0] != '<' || k < 3 {
			if len(b) > 0 && (b[0] == '(' || b[0] == '<') {
				if k = bytes.IndexAny(b, ")>"); k < 3 {
					return 0
				}
			} else {
				return 0
			}
		}
		if !d.sure(b[:k]) {
			return 0
		}
		k++
		if k < len(b) && b[k] == ':' {
			k++
		}
		if k < len(b) && b[k] == ' ' {
			k++
		}
		return k
	case colonKind:
		k := bytes.Index(b, []byte(": "))
		if t := bytes.Index(b, []byte(":\t")); k < 0 || t > 0 && t < k {
			k = max(k, t)
		}
		if k < 3 || bytes.Count(b[:k], []byte(" ")) > 2 || !d.sure(b[:k]) {
			return 0
		}
		return k + 2
	case pathKind:
		for k := bytes.Index(b, []byte(".log")); k >= 0 && k+5 < len(b); {
			end := k + len(".log")
			for end < len(b) && (b[end] == '.' || b[end] == ':' || b[end] == '-' || b[end]-'0' <= 9) {
				end++
			}
			if bytes.IndexByte(b[:k], ' ') < 0 && end > k+4 {
				// A line of klog begins with a letter, one with a time with a digit.
				if c := bytes.IndexByte(b[k:end], ':'); c >= 0 && !isDigits(bytes.Trim(b[k+c:end], ":-")) {
					end = k + c + 1
				}
				return end
			}
			return 0
		}
		return 0
	case wordsKind:
		w, at := 0, 0
		for w < 4 {
			k := bytes.IndexByte(b[at:], ' ')
			if k <= 0 {
				break
			}
			w++
			if isName(b[at:at+k]) && d.podWord(b[at:at+k]) && w <= 3 {
				return at + k + 1
			}
			if !isName(b[at : at+k]) {
				return 0
			}
			at += k + 1
		}
		return 0
	case composeKind:
		k := bytes.IndexByte(b, '|')
		if k < 2 || k > 100 || k+1 < len(b) && b[k+1] != ' ' && b[k-1] != ' ' {
			return 0
		}
		name := bytes.TrimRight(b[:k], " ")
		if len(name) == 0 || bytes.ContainsAny(name, " \t{}\"=()") || len(name) == k {
			return 0
		}
		if k++; k < len(b) && b[k] == ' ' {
			k++
		}
		return k
	}
	return 0
}

// sure reports whether the words before a line name a pod.
func (d *Decoder) sure(prefix []byte) bool {
	if bytes.ContainsAny(prefix, "{}\"=\t") || hasLevel(prefix) {
		return false
	}
	if _, ok := d.prefixes[string(prefix)]; ok {
		return d.prefixes[string(prefix)].sure
	}
	p, sure := placeOfWords(prefix)
	d.remember(prefix, p, sure)
	return sure
}

// maxPrefixes bounds the texts before lines that are remembered.
const maxPrefixes = 20_000

func (d *Decoder) remember(prefix []byte, p Place, sure bool) *origin {
	if len(d.prefixes) >= maxPrefixes {
		clear(d.prefixes)
	}
	o := &origin{p, sure}
	d.prefixes[string(prefix)] = o
	return o
}

// origin is what the words before a line say.
type origin struct {
	place Place
	sure  bool
}

func (d *Decoder) podWord(w []byte) bool {
	if yes, ok := d.pods[string(w)]; ok {
		return yes
	}
	if len(d.pods) >= maxPrefixes {
		clear(d.pods)
	}
	yes := isPod(w)
	d.pods[string(w)] = yes
	return yes
}

// wordsBefore returns how many names follow that of the pod before a line: none or that of
// the container.
func (d *Decoder) wordsBefore(lines [][]byte) int {
	none, one := 0, 0
	seconds, n := map[string]bool{}, 0
	for _, l := range lines {
		k := d.placeLen(l, wordsKind)
		if k == 0 {
			continue
		}
		n++
		rest := l[k:]
		if headerOf(rest) != 0 {
			none++
		}
		if at := bytes.IndexByte(rest, ' '); at > 0 && isName(rest[:at]) {
			seconds[string(rest[:at])] = true
			if headerOf(rest[at+1:]) != 0 {
				one++
			}
		}
	}
	if none > one || one == 0 && len(seconds) > 1+n/3 {
		return 0
	}
	return 1
}

// cutPlace returns the step for one form of names.
func (d *Decoder) cutPlace(kind, words int, named bool) step {
	return func(line []byte, f *facts) ([]byte, bool) {
		n := d.placeLen(line, kind)
		if n == 0 {
			return line, false
		}
		if kind == composeKind { // a service is no pod, whatever its name is like
			f.file = merge(f.file, Place{Name: d.unitName(bytes.TrimRight(line[:n], " |"))})
			return line[n:], true
		}
		if words == 1 {
			if k := bytes.IndexByte(line[n:], ' '); k > 0 && isName(line[n:n+k]) {
				n += k + 1
			} else if k < 0 && isName(line[n:]) {
				n = len(line)
			}
		}
		d.note(line[:n], named, f)
		return line[n:], true
	}
}

// note adds the place in the words before a line.
func (d *Decoder) note(prefix []byte, named bool, f *facts) {
	o := d.prefixes[string(prefix)]
	if o == nil {
		p, sure := placeOfWords(prefix)
		o = d.remember(prefix, p, sure)
	}
	if p := o.place; named || p.Name == "" {
		f.file = merge(f.file, p)
	}
}

// merge adds to a place what a further part of the envelope says.
func merge(p, more Place) Place {
	if p == (Place{}) {
		return more
	}
	for _, x := range []struct {
		to   *string
		from string
	}{{&p.Cluster, more.Cluster}, {&p.Namespace, more.Namespace}, {&p.Pod, more.Pod}, {&p.Container, more.Container}, {&p.Node, more.Node}, {&p.Unit, more.Unit}, {&p.Name, more.Name}} {
		if x.from != "" {
			*x.to = x.from
		}
	}
	return p
}

// findMark finds marks before each line, as of quotes and lists.
func (d *Decoder) findMark(lines [][]byte) step {
	counts := map[string]int{}
	for _, l := range lines {
		if k := markLen(l); k > 0 {
			counts[string(bytes.TrimRight(l[:k], " "))]++
		}
	}
	mark, n := "", 0
	for _, m := range slices.Sorted(maps.Keys(counts)) {
		if counts[m] > n {
			mark, n = m, counts[m]
		}
	}
	if n*10 < len(lines)*6 || n == 0 {
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
	n, marked := 0, false
	for n < len(b) {
		size := 1
		switch c := b[n]; {
		case bytes.IndexByte([]byte(">|*#+-;~$%:!"), c) >= 0:
			marked = true
		case c == ' ' || c == '\t':
		case bytes.HasPrefix(b[n:], []byte("\u2502")), bytes.HasPrefix(b[n:], []byte("\u2503")), bytes.HasPrefix(b[n:], []byte("\u2022")), bytes.HasPrefix(b[n:], []byte("\u203a")), bytes.HasPrefix(b[n:], []byte("\u2503")), bytes.HasPrefix(b[n:], []byte("\u2551")):
			size, marked = 3, true
		case bytes.HasPrefix(b[n:], []byte("\u00b7")), bytes.HasPrefix(b[n:], []byte("\u00bb")), bytes.HasPrefix(b[n:], []byte("\u00a6")):
			size, marked = 2, true
		case c == '/' && n+1 < len(b) && b[n+1] == '/':
			size, marked = 2, true
		default:
			if !marked {
				return 0
			}
			return n
		}
		n += size
	}
	if !marked {
		return 0
	}
	return n
}

// findNumbers finds numbers of lines, which increase.
func (d *Decoder) findNumbers(lines [][]byte) step {
	last, n, rising, headed, first := -1, 0, 0, 0, -1
	for _, l := range lines {
		k, number := numberLen(l)
		if k == 0 {
			continue
		}
		n++
		if first < 0 {
			first = number
		}
		if number > last {
			rising++
		}
		last = number
		if headerOf(l[k:]) != none {
			headed++
		}
	}
	if n*10 < len(lines)*6 || n == 0 || rising < n || headed*10 < n*4 && first != 1 || headed == 0 && n < 2 {
		return nil
	}
	return func(line []byte, _ *facts) ([]byte, bool) {
		k, _ := numberLen(line)
		return line[k:], k > 0
	}
}

// numberLen returns the length of a number of a line with what separates it, and the number.
func numberLen(b []byte) (n, number int) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '#' || b[i] == 'L' || b[i] == '[' || b[i] == '(') {
		i++
	}
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start || i-start > 7 {
		return 0, 0
	}
	number = digits(b[start:i])
	end := i
	for end < len(b) && bytes.IndexByte([]byte(":.)|-]>"), b[end]) >= 0 {
		end++
	}
	switch {
	case end == len(b):
		return end, number
	case b[end] == '\t' || b[end] == ' ':
		if end == i && b[end] == ' ' { // padded columns
			for end+1 < len(b) && b[end+1] == ' ' && end < i+3 {
				end++
			}
		}
		end++
		if end+1 < len(b) && b[end] == '|' && b[end+1] == ' ' {
			end += 2
		}
		return end, number
	case end > i && b[i] == ':':
		return i + 1, number // grep -n
	}
	return 0, 0
}

// findIndent finds white space before every line.
func (d *Decoder) findIndent(lines [][]byte) step {
	var common []byte
	for i, l := range lines {
		space := l[:len(l)-len(bytes.TrimLeft(l, " \t"))]
		if i == 0 {
			common = space
		}
		k := 0
		for k < len(common) && k < len(space) && common[k] == space[k] {
			k++
		}
		common = common[:k]
	}
	if len(common) == 0 {
		return d.findFirstIndent(lines)
	}
	common = bytes.Clone(common)
	return func(line []byte, _ *facts) ([]byte, bool) {
		rest, ok := bytes.CutPrefix(line, common)
		return rest, ok
	}
}

// findFirstIndent finds white space before most lines with a header.
func (d *Decoder) findFirstIndent(lines [][]byte) step {
	counts := map[int]int{}
	for _, l := range lines {
		if k := len(l) - len(bytes.TrimLeft(l, " \t")); k > 0 && headerOf(l[k:]) > word {
			counts[k]++
		}
	}
	for k, n := range counts {
		if n*10 >= len(lines)*6 {
			return func(line []byte, _ *facts) ([]byte, bool) {
				if len(line) < k || len(bytes.TrimLeft(line[:k], " \t")) > 0 {
					return line, false
				}
				return line[k:], true
			}
		}
	}
	return nil
}

// anchorOf returns where the header of a program begins behind something else, 0 if nowhere.
func anchorOf(b []byte) int {
	limit := min(len(b), 240)
	for i := 1; i < limit; i++ {
		if c := b[i-1]; c != ' ' && c != '\t' && c != ':' && c != ']' && c != '|' && c != '>' && c != ')' && c != ',' && c != ';' && c != '"' && c != '\'' && c != '`' && c != '=' {
			continue
		}
		switch c := b[i]; {
		case 'D' <= c && c <= 'W' && isKlog(b[i:]):
			return i
		case c == '{':
			if i+2 < len(b) && b[i+1] == '"' && b[i-1] != '=' && b[len(bytes.TrimRight(b, " \r`"))-1] == '}' && isLogged(b[i:]) {
				return i
			}
		case c == 't' || c == 'l':
			if h := headerOf(b[i:]); h == logfmt && b[i-1] == ' ' && bytes.IndexByte(b[:i], '=') < 0 {
				return i
			}
		case '0' <= c && c <= '9':
			if n, _ := stampLen(b[i:]); n > 0 && b[i-1] != '"' && b[i-1] != '=' {
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

// sameTag reports whether the same text stands before klog or JSON in several lines.
func sameTag(lines [][]byte) bool {
	var tag []byte
	for _, l := range lines {
		k := anchorOf(l)
		if k == 0 || l[k] != '{' && !isKlog(l[k:]) || hasLevel(l[:k]) || tag != nil && !bytes.Equal(tag, l[:k]) {
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
	names := map[string]bool{}
	texts := map[string]int{}
	for _, l := range lines {
		if headerOf(l) != none && headerOf(l) != syslog {
			bare++
			continue
		}
		k := anchorOf(l)
		if k == 0 || k > 160 || hasLevel(l[:k]) || len(bytes.Fields(l[:k])) > 8 {
			continue
		}
		n++
		p, ok := placeOfWords(l[:k])
		if ok {
			sure++
		}
		if isKlog(l[k:]) && !placed {
			sure++ // nothing else writes that in the middle of a line
		}
		names[p.Name] = true
		texts[string(l[:k])]++
	}
	if n == 0 || n*10 < len(lines)*6 || bare > n/2 || sure*2 < n && len(texts)*3 > n {
		return nil
	}
	if placed && sure*2 < n && !sameTag(lines) {
		return nil
	}
	named := len(names) > 1 && len(names)*2 <= n
	last := []byte(nil)
	return func(line []byte, f *facts) ([]byte, bool) {
		k := anchorOf(line)
		if k == 0 || k > 160 {
			if last == nil || !bytes.HasPrefix(line, last) {
				return line, false
			}
			k = len(last)
		}
		last = append(last[:0], line[:k]...)
		if o, ok := d.prefixes[string(line[:k])]; named || !ok || o.sure {
			d.note(line[:k], named, f)
		}
		return line[k:], true
	}
}
