package envelope

import (
	"bytes"
	"maps"
	"slices"
	"strconv"

	"crowsnest/internal/lazyre"
)

// step removes one layer of an envelope from a line, and stores the data in the layer in f. It returns false if the
// line lacks the layer. The returned text is valid until the next call.
type step func(line []byte, f *facts) ([]byte, bool)

const maxSteps = 7

// cutter is a step that also reads or changes the state of a decoder.
type cutter func(d *Decoder, line []byte, f *facts) (rest []byte, ok bool)

// frame is a kind of text that tools write before each line.
type frame struct {
	cut cutter
	// isSure reports whether the removed text was written by a tool, and not by the program itself. Nil means always. A
	// log has this frame if isSure returns true for six of ten framed lines, or if the remaining texts have the same
	// tag.
	isSure func(d *Decoder, line, rest []byte) bool
}

// frames are the known frames in the order in which they are tried.
var frames = []frame{
	{cut: cutExpr(lazyre.New(`^\[\d+\] (\S+): `), func(_ *Decoder, m [][]byte, f *facts) bool { // tag of a fluent-bit record
		f.addPath(m[1])
		return true
	}), isSure: func(_ *Decoder, _, rest []byte) bool { return hasPrefix(rest, "[") }},
	{cut: (*Decoder).cutSyslog},
	{cut: cutBracketedTime, isSure: (*Decoder).isSureTime},
	{cut: (*Decoder).cutTime, isSure: (*Decoder).isSureTime},
	{cut: cutExpr(gitLabStream, func(_ *Decoder, m [][]byte, f *facts) bool { // number and letter of a stream
		f.stream = m[1][0] | 0x20
		return true
	})},
	{cut: (*Decoder).cutLabels},
	{cut: cutExpr(bracketed, (*Decoder).addNames)},                                      // [pod/POD/CONTAINER]
	{cut: cutExpr(lazyre.New(`^([^ ]*?(?: [^ ]*?){0,2}?):[ \t]`), (*Decoder).addNames)}, // NAMESPACE/POD[CONTAINER]:
	{cut: cutExpr(lazyre.New(`^([^\s:]+\.(?:log|txt|out)(?:\.\d+)?)(?:(:\d+:|-\d+-)|:) ?`), // path, optionally followed by a line number
		func(d *Decoder, m [][]byte, f *facts) bool {
			o := d.originOf(m[1])
			if m[2] == nil && !o.strict {
				return false
			}
			f.file = merge(f.file, &o.place)
			return true
		})},
	{cut: cutExpr(lazyre.New(`^([^\s{}"=()|]{1,98}) +\| ?`), func(_ *Decoder, m [][]byte, f *facts) bool { // a service, which is never a pod
		f.file.Name = string(m[1])
		return true
	})},
	{cut: (*Decoder).cutWords},
}

var (
	gitLabStream = lazyre.New(`^\d\d([OE])[ +]`)
	bracketed    = lazyre.New(`^([\[(<][^\])>]{2,})[\])>]:? ?`)
	// longhornProcess matches the text that Longhorn's instance manager writes before each line of a process. It is the
	// name of an engine, of a replica, or of the instance manager itself. The name looks like a pod, but rules read the
	// volume from it.
	longhornProcess = lazyre.New(`^\[(?:longhorn-instance-manager|\S+-(?:e-\d+|[er]-[0-9a-f]{8}))\] time=`)
)

// marks find text before lines that contains no data. They are not used inside frames.
var marks = []func([][]byte) step{findMark, findNumbers, findIndent}

// cutExpr returns a cutter for text that matches an expression. note stores the data in the groups of the match. It
// returns false if the text is not a frame.
func cutExpr(expr *lazyre.Regexp, note func(d *Decoder, m [][]byte, f *facts) bool) cutter {
	return func(d *Decoder, line []byte, f *facts) ([]byte, bool) {
		m := expr.FindSubmatch(line[:min(len(line), 400)])
		if m == nil || !note(d, m, f) {
			return line, false
		}
		return line[len(m[0]):], true
	}
}

// detect returns the steps that remove the envelope of the sample. It returns no steps if the lines have no envelope.
// placed reports whether the steps read times or places.
func (d *Decoder) detect(sample [][]byte) (chain []step, placed bool) {
	var lines [][]byte
	for _, l := range sample {
		if l = bytes.TrimRight(l, "\r\n"); len(bytes.TrimSpace(l)) > 0 {
			lines = append(lines, l)
		}
	}
	for len(chain) < maxSteps && len(lines) > 0 {
		next, places := d.findStep(lines, len(chain) == 0, placed)
		if next == nil {
			break
		}
		placed = places
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

// findStep returns the step for the outermost layer of the lines, or nil if they have no envelope. The second result
// reports whether this layer or a layer outside it states times or places.
func (d *Decoder) findStep(lines [][]byte, outermost, placed bool) (step, bool) {
	for _, u := range undos {
		if (outermost || !u.outermost) && u.found(lines) {
			var buf []byte
			return func(line []byte, _ *facts) ([]byte, bool) {
				buf = u.undo(buf[:0], line)
				return buf, true
			}, placed
		}
	}
	if d.isStructured(lines) || slices.ContainsFunc(lines, longhornProcess.Match) || mostLines(lines, func(l []byte) bool { return (headerOf(l).own() || isPairs(l)) && !isLabelled(l) }) {
		return nil, placed
	}
	d.findContainers(lines)
	for _, c := range frames {
		if d.haveFrame(c, lines) {
			return func(line []byte, f *facts) ([]byte, bool) { return c.cut(d, line, f) }, true
		}
	}
	if !placed { // text after a place comes from the container, unless it is another tag
		for _, find := range marks {
			if s := find(lines); s != nil {
				return s, false
			}
		}
	}
	return d.findAnchor(lines, placed), true
}

// isStructured reports whether the lines begin a table or a value over several lines.
func (d *Decoder) isStructured(lines [][]byte) bool {
	first := bytes.TrimSpace(lines[0])
	return string(first) == "[" || string(first) == "{" || d.beginsYAML(first, bytes.Join(lines[1:], []byte("\n"))) ||
		slices.ContainsFunc(lines[:min(len(lines), 3)], isResource) || slices.ContainsFunc(lines[:min(len(lines)-1, 3)], func(l []byte) bool { return d.sheetOf(l) != nil })
}

func (d *Decoder) haveFrame(c frame, lines [][]byte) bool {
	n, sure := 0, 0
	var rests [][]byte
	for _, l := range lines {
		var f facts
		if rest, ok := c.cut(d, l, &f); ok {
			n++
			rests = append(rests, bytes.Clone(rest))
			if c.isSure == nil || c.isSure(d, l, rest) {
				sure++
			}
		}
	}
	return n > 0 && n*10 >= len(lines)*6 && (sure*10 >= n*6 || haveSameTag(rests))
}

var (
	syslogHead = lazyre.New(`^(?:\d{1,7} )?<\d{1,3}>(1 )?`)
	syslogTag  = lazyre.New(`^ ([^\s\[\]{}()="/]*[^\s\[\]{}()="/:]) ([^\s{}="]{1,200}?)(\[[^\s{}="]*\])?:(?: |$)`)
	syslog5424 = lazyre.New(`^(\S*) (\S*) (\S*) \S* \S* (?:-|((?:\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])+)) ?\x{feff}?`)
	syslogData = lazyre.New(`([^\s=\[\]]+)="((?:[^"\\]|\\.)*)"`)
)

// cutSyslog removes from a line a header such as these:
//
//	<30>Nov 20 10:00:00 host kubelet[123]: text
//	<30>1 2025-11-20T10:00:00.123Z host kubelet 123 - - text
//	Thu 2025-11-20 10:00:00 UTC host kubelet[123]: text
func (d *Decoder) cutSyslog(line []byte, f *facts) ([]byte, bool) {
	head := syslogHead.FindSubmatch(line)
	b := line
	if head != nil {
		b = line[len(head[0]):]
	}
	if head != nil && head[1] != nil {
		m := syslog5424.FindSubmatch(b)
		if m == nil {
			return line, false
		}
		if n, _ := stampLen(m[1]); n > 0 {
			f.stamp, f.rank = m[1], 200
		} else if string(m[1]) != "-" {
			return line, false
		}
		d.addDaemon(m[2], m[3], f)
		for _, x := range syslogData.FindAllSubmatch(m[4], -1) {
			d.rec.fact(d.rec.class(x[1]), attrs, x[2], false, f)
		}
		return b[len(m[0]):], true
	}
	at := b[:d.timeLen(b)]
	m := syslogTag.FindSubmatch(b[len(at):])
	if len(at) == 0 || m == nil || isDigits(m[1]) || levelLen(b[len(at)+len(m[1])+2:]) > 0 {
		return line, false
	}
	text := b[len(at)+len(m[0]):]
	if head == nil && m[3] == nil && string(m[2]) != "kernel" && headerOf(text) == none {
		return line, false
	}
	f.stamp, f.rank, f.zoneless = at, 200, !bytes.HasSuffix(at, []byte("Z")) && bytes.IndexByte(at[min(len(at), 10):], '+') < 0
	d.addDaemon(m[1], m[2], f)
	return text, true
}

// hostDaemon matches names of programs that run as systemd units on nodes. Programs with other
// names may run in containers.
var hostDaemon = lazyre.New(`^(?:kube[a-z-]*|containerd|cri-?o|dockerd?|k3s[a-z-]*|rke2[a-z-]*|etcd|rancher-system-agent|systemd|podman)$`)

func (d *Decoder) addDaemon(host, name []byte, f *facts) {
	f.place[roleNode] = host
	if f.addPath(name) {
		return
	}
	if name = bytes.TrimSuffix(name, []byte(".service")); string(name) == "kernel" {
		f.place[roleTransport] = name
		return
	}
	if f.place[roleIdentifier] = name; hostDaemon.Match(name) {
		f.file.Unit = string(name) + ".service"
	}
}

// maxKnown is the maximum number of cached texts before lines.
const maxKnown = 20_000

// remember returns the cached result of read for text. If none is cached, it calls read.
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

// dayless matches a time without a date, or the seconds since a node started.
var dayless = lazyre.New(`^(?:(\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: [AaPp][Mm])?)|(\[ *\d+\.\d{6}\]))(?:[\] :]|$)`)

// timeLen returns the length of the time at the start of a line, or zero if there is none. It recognizes the time
// formats of syslog, journalctl and tools that add times.
func (d *Decoder) timeLen(b []byte) int {
	if n, _ := stampLen(b); n > 0 {
		for _, zone := range []string{" UTC", " +0000", " GMT"} {
			if bytes.HasPrefix(b[n:], []byte(zone)) {
				return n + len(zone)
			}
		}
		return n
	}
	for i := min(len(b), 40) - 1; i >= 10; i-- {
		if bytes.IndexByte([]byte(" \t]"), b[i]) < 0 || b[i-1] == ',' || b[0] == ' ' {
			continue
		}
		if _, _, ok := d.clock.parse(b[:i]); ok {
			return i
		}
	}
	if m := dayless.FindSubmatch(b[:min(len(b), 40)]); m != nil {
		return len(m[1]) + len(m[2])
	}
	return 0
}

func cutBracketedTime(d *Decoder, line []byte, f *facts) ([]byte, bool) {
	if len(line) == 0 || line[0] != '[' {
		return line, false
	}
	n := d.timeLen(line[1:]) + 1
	if n == 1 || n == len(line) || line[n] != ']' {
		return line, false
	}
	return f.cutTime(line, line[1:n], line[n+1:])
}

func (d *Decoder) cutTime(line []byte, f *facts) ([]byte, bool) {
	n := d.timeLen(line)
	if n == 0 || isCRI(line[n:]) {
		return line, false
	}
	return f.cutTime(line, line[:n], bytes.TrimPrefix(line[n:], []byte(":")))
}

// cutTime stores the time stamp if a separator follows it in the line.
func (f *facts) cutTime(line, stamp, rest []byte) ([]byte, bool) {
	if len(rest) > 0 {
		if bytes.IndexByte([]byte(" \t,|"), rest[0]) < 0 {
			return line, false
		}
		rest = rest[1:]
	}
	f.stamp, f.rank, f.zoneless = stamp, 200, isMonth(stamp[:3])
	return rest, true
}

// isSureTime reports whether a tool and not the program wrote the time before a line. This is the case if the time is
// more precise than the times of programs, or if the header of a program or other text of a tool follows.
func (d *Decoder) isSureTime(line, rest []byte) bool {
	n, fraction := stampLen(line)
	switch {
	case fraction >= 7 && n < len(line) && line[n] == ' ', headerOf(rest) > word, isLabelled(rest), gitLabStream.Match(rest):
		return true
	case len(line) > len(rest) && line[len(line)-len(rest)-1] == '\t':
		k := bytes.IndexByte(rest, '\t') // end of the level, in the console format of zap
		return k <= 0 || k > len("CRITICAL") || bytes.IndexByte(rest[:k], ' ') >= 0
	}
	k := anchorOf(rest)
	if k <= 0 {
		m := bracketed.FindSubmatch(rest)
		return m != nil && d.originOf(m[1]).strict
	}
	return d.originOf(rest[:k]).sure || hasPrefix(rest, "stdout ", "stderr ")
}

// labelled matches a line that begins with labels, such as {namespace="x", pod="y"}.
var labelled = lazyre.New(`^\{[A-Za-z0-9_]{1,58}="`)

func isLabelled(b []byte) bool { return labelled.Match(b) }

func isLabelName(b []byte) bool {
	return len(bytes.Trim(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")) == 0
}

func (d *Decoder) cutLabels(line []byte, f *facts) ([]byte, bool) {
	if !isLabelled(line) {
		return line, false
	}
	n := d.rec.labelSet(line, f)
	return bytes.TrimPrefix(line[n:], []byte(" ")), n > 0
}

// origin contains the data in the words before a line. sure means that the words name a pod. strict means that they
// contain nothing else.
type origin struct {
	place        Place
	sure, strict bool
}

func (d *Decoder) originOf(words []byte) *origin {
	return remember(&d.origins, words, func(words []byte) *origin {
		p, sure := placeOfWords(words)
		return &origin{p, sure, sure && !bytes.ContainsAny(words, "{}\"=\t") && !hasLevel(words)}
	})
}

// addNames stores the names in the first group of a match. It returns false if they do not name a pod.
func (d *Decoder) addNames(m [][]byte, f *facts) bool {
	o := d.originOf(m[1])
	if o.strict {
		f.file = merge(f.file, &o.place)
	}
	return o.strict
}

func (d *Decoder) cutWords(line []byte, f *facts) ([]byte, bool) {
	n := d.wordsLen(line)
	if n == 0 {
		return line, false
	}
	if name, _, _ := bytes.Cut(line[n:], []byte(" ")); d.containers && IsName(name) {
		n = min(n+len(name)+1, len(line))
	}
	f.file = merge(f.file, &d.originOf(line[:n]).place)
	return line[n:], true
}

// wordsLen returns the length of the words at the start of a line up to the name of a pod and the following space.
func (d *Decoder) wordsLen(line []byte) (n int) {
	for range 3 {
		k := bytes.IndexByte(line[n:min(len(line), n+254)], ' ')
		if k <= 0 || !IsName(line[n:n+k]) {
			return 0
		}
		if n += k + 1; remember(&d.pods, line[n-k-1:n-1], isPod) {
			return n
		}
	}
	return 0
}

func (d *Decoder) findContainers(lines [][]byte) {
	without, with, n := 0, 0, 0
	seconds := map[string]bool{}
	for _, l := range lines {
		k := d.wordsLen(l)
		if k == 0 {
			continue
		}
		n++
		without += btoi(headerOf(l[k:]) != none)
		if name, rest, ok := bytes.Cut(l[k:], []byte(" ")); ok && IsName(name) {
			seconds[string(name)] = true
			with += btoi(headerOf(rest) != none)
		}
	}
	d.containers = without <= with && (with > 0 || len(seconds) <= 1+n/3)
}

var mark = lazyre.New(`^[>|*#+\-;~$%:! \t│┃•›║·»¦]*(?://[ \t/]*)*`)

// findMark returns a step for a mark, such as the > of a quotation, that at least six of ten lines have.
func findMark(lines [][]byte) step {
	found := commonest(lines, func(l []byte) []byte { return bytes.TrimRight(mark.Find(l), " \t") })
	return cutPrefix(found, " ")
}

// findIndent returns a step for white space before all lines, or before six of ten headers.
func findIndent(lines [][]byte) step {
	indent := func(l []byte) []byte { return l[:len(l)-len(bytes.TrimLeft(l, " \t"))] }
	found := string(indent(slices.MinFunc(lines, func(a, b []byte) int { return len(indent(a)) - len(indent(b)) })))
	if found == "" {
		found = commonest(lines, func(l []byte) []byte {
			if looksLogged(bytes.TrimLeft(l, " \t")) {
				return indent(l)
			}
			return nil
		})
	}
	return cutPrefix(found, "")
}

// commonest returns the prefix that at least six of ten lines share. It returns "" if there is none.
func commonest(lines [][]byte, prefixOf func(line []byte) []byte) string {
	counts := map[string]int{}
	for _, l := range lines {
		if p := string(prefixOf(l)); p != "" {
			counts[p]++
		}
	}
	for _, p := range slices.Sorted(maps.Keys(counts)) {
		if counts[p]*10 >= len(lines)*6 {
			return p
		}
	}
	return ""
}

func cutPrefix(prefix, optional string) step {
	if prefix == "" {
		return nil
	}
	return func(line []byte, _ *facts) ([]byte, bool) {
		rest, ok := bytes.CutPrefix(line, []byte(prefix))
		if ok {
			rest = bytes.TrimPrefix(rest, []byte(optional))
		}
		return rest, ok
	}
}

var numbered = lazyre.New(`^[ #L\[(]*([0-9]{1,7})(?:[:.)|\]>-]*(?:\t| {1,4}(?:\| )?|$)|:)`)

// findNumbers returns a step for line numbers, which increase from line to line.
func findNumbers(lines [][]byte) step {
	first, last, n, headed := -1, -1, 0, 0
	for _, l := range lines {
		m := numbered.FindSubmatch(l)
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(string(m[1]))
		if n++; n == 1 {
			first = number
		}
		if number <= last {
			return nil
		}
		last = number
		headed += btoi(headerOf(l[len(m[0]):]) != none)
	}
	if n*10 < len(lines)*6 || n == 0 || headed*10 < n*4 && first != 1 || headed == 0 && n < 2 {
		return nil
	}
	return func(line []byte, _ *facts) ([]byte, bool) {
		m := numbered.Find(line[:min(len(line), 32)])
		return line[len(m):], m != nil
	}
}

const maxAnchor = 160

// anchorOf returns the position after other text at which the header of a program begins. It returns zero if there is
// none.
func anchorOf(b []byte) int {
	for i := 1; i < min(len(b), 240); i++ {
		before := b[i-1]
		if bytes.IndexByte([]byte(" \t:]|>),;\"'`="), before) < 0 {
			continue
		}
		found := false
		switch c := b[i]; {
		case 'D' <= c && c <= 'W':
			found = isKlog(b[i:])
		case c == '{':
			found = before != '=' && hasPrefix(b[i:], `{"`) && b[len(bytes.TrimRight(b, " \r`"))-1] == '}' && contains(b[i:], loggedKeys...)
		case c == 't' || c == 'l':
			found = before == ' ' && headerOf(b[i:]) == logfmt && bytes.IndexByte(b[:i], '=') < 0
		case '0' <= c && c <= '9':
			n, _ := stampLen(b[i:])
			found = n > 0 && before != '"' && before != '='
		}
		if found {
			return i
		}
	}
	return 0
}

var loggedKeys = []string{`"ts":`, `"time":`, `"timestamp":`, `"@timestamp":`, `"level":`, `"log":`, `"message":`, `"msg":`, `"line":`}

// completeJSON matches the beginning of a JSON line that a log library wrote.
var completeJSON = lazyre.New(`^\{"(?:ts|time|level|timestamp|@timestamp)":`)

// isComplete reports whether b is a klog line, or JSON that begins with a time or a level. Any text before it comes
// from a tool.
func isComplete(b []byte) bool { return isKlog(b) || completeJSON.Match(b) }

// haveSameTag reports whether several lines have the same text before klog or JSON.
func haveSameTag(lines [][]byte) bool {
	var first []byte
	for _, l := range lines {
		k := anchorOf(l)
		if k == 0 || l[k] != '{' && !isKlog(l[k:]) || hasLevel(l[:k]) && !isComplete(l[k:]) || first != nil && !bytes.Equal(first, l[:k]) {
			return false
		}
		first = l[:k]
	}
	return len(lines) > 1
}

// findAnchor returns a step for any other text before the headers of programs. If placed is set, an outer layer states
// a time or a place, so the text must name a pod.
func (d *Decoder) findAnchor(lines [][]byte, placed bool) step {
	n, sure, bare := 0, 0, 0
	names, texts := map[string]bool{}, map[string]int{}
	for _, l := range lines {
		k := anchorOf(l)
		led := k > 0 && k <= levelLen(l)+len(": ") && headerOf(l[k:]).own() // a person wrote a word such as "error:" before the line
		if h := headerOf(l); h != none && h != syslog && !led {
			bare++
			continue
		}
		if k == 0 || k > maxAnchor || hasLevel(l[:k]) && !led && !isComplete(l[k:]) || len(bytes.Fields(l[:k])) > 8 {
			continue
		}
		n++
		o := d.originOf(l[:k])
		sure += btoi(o.sure || led || isKlog(l[k:]) && !placed) // klog in the middle of a line is always text after a prefix
		names[o.place.Name] = true
		texts[string(l[:k])]++
	}
	if n == 0 || n*10 < len(lines)*6 || bare > n/2 || sure*2 < n && (len(texts)*3 > n || placed && !haveSameTag(lines)) {
		return nil
	}
	named := len(names) > 1 && len(names)*2 <= n
	var last []byte
	return func(line []byte, f *facts) ([]byte, bool) {
		k := anchorOf(line)
		if k == 0 || k > maxAnchor {
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
