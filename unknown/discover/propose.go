package discover

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
	"crowsnest/matcher"
)

// Proposal is a rule that is proposed for a line.
type Proposal struct {
	// Texts are fixed texts of the message and its error. A line must contain all of them.
	Texts []string
	// Regex captures the object in the text of the line, in a group named Object. It is empty
	// if the object comes from a field or if there is no object.
	Regex string
	// Field is the field from which FieldRegex captures Object. Both are empty if Object is not
	// captured from a field.
	Field, FieldRegex string
	// Object is the name under which the rule captures the line's object for its key. It is
	// empty if the line names no object.
	Object string
	// Value is the name of the object in Line.
	Value string
	// Level is the level of the line.
	Level Level
	// Waits reports that the line says that something is missing or is tried again. Such a line is a failure only if it
	// repeats for a long time.
	Waits bool
	// Line is the example from which the rule was made. OtherLine is the same line with other values, or "" if no part
	// of Line varies. OtherValue is the name of the object in OtherLine.
	Line, OtherLine, OtherValue string

	message, err string // message of the line, and its error
}

// maxTestLine bounds the length of the lines in tests, in bytes, because a rule file is limited
// to 1 MiB.
const maxTestLine = 2 << 10

// longestText returns the longest text, which is the most distinctive one.
func (p *Proposal) longestText() string {
	return slices.MaxFunc(p.Texts, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// minText is the shortest length of a text that a rule searches for, in bytes.
const minText = 8

// Propose returns rules for a line, the most specific rule first. Each of them matches the line. It returns nil if the
// line contains no fixed text to search for. The line must have no CRI or Docker envelope.
func Propose(line string) []Proposal { return propose(line, "") }

// ProposeFor returns rules for the example of a pattern, see Propose. It does not use texts
// that vary between the lines of the pattern.
func ProposeFor(p Pattern) []Proposal {
	return propose(string(p.Example), string(p.Template+"\n"+p.Error))
}

// propose returns rules for a line. If template is not empty, it uses only texts that the
// template contains.
func propose(line, template string) []Proposal {
	if len(line) > maxTestLine {
		line = line[:maxTestLine]
	}
	line = strings.TrimSpace(strings.ToValidUTF8(line, "?"))
	var r lineReader
	reading := r.readLine(line)
	p := Proposal{Line: line, Level: reading.Level, Texts: fixedTexts(line, template, reading), Waits: waitsFor(reading), message: reading.Message, err: reading.Error}
	if len(p.Texts) == 0 {
		return nil
	}
	var out []Proposal
	for _, with := range []func(*Proposal, parsedLine) bool{withField, withText, withTail} {
		if q := p; with(&q, reading) {
			q.setOtherLine(reading)
			out = append(out, q)
		}
	}
	p.setOtherLine(reading)
	return append(out, p)
}

// waitsFor reports whether a line only says that something takes time.
func waitsFor(r parsedLine) bool {
	var j judgement
	// If a wait timed out, the program no longer waits.
	text := strings.ReplaceAll(r.Message+" "+r.Error, "timed out waiting for", "timed out")
	j.judge(maskText(text))
	return j.patience&(waits|retries) != 0 && j.weight < severe && r.Level < levelFatal
}

// fixedTexts returns the longest fixed text of the message and the longest fixed text of the
// error. It returns both, because the message "Reconciler error" alone would match too much,
// and other programs may log the same error.
func fixedTexts(line, template string, r parsedLine) []string {
	var out []string
	for _, part := range []string{r.Message, r.Error} {
		if text := fixedText(line, template, part); text != "" && !slices.ContainsFunc(out, func(o string) bool { return strings.Contains(o, text) }) {
			out = append(out, text)
		}
	}
	if len(out) == 2 && strings.Contains(out[1], out[0]) {
		out = out[1:]
	}
	return out
}

// fixedText returns a fixed text of part that the line contains verbatim. It prefers the first
// text with a word that indicates more than a network failure, and otherwise takes the longest
// text.
func fixedText(line, template, part string) string {
	longest := ""
	for _, text := range runs(part) {
		if text = longestRun(line, template, text); len(text) < minText {
			continue
		}
		var j judgement
		j.judge([]byte(text))
		if j.weight > 0 && !transport(strings.ToLower(text)) {
			return text
		}
		if len(text) > len(longest) {
			longest = text
		}
	}
	return longest
}

// longestRun returns the longest sequence of words of text that the line contains. Unless template
// is empty, the template must contain the sequence too. The words may be separated in the line
// by color codes, and some of them may vary between the lines of the pattern.
func longestRun(line, template, text string) string {
	ok := func(part string) bool {
		return strings.Contains(line, part) && (template == "" || strings.Contains(template, part))
	}
	best := ""
	for start := 0; len(text)-start > len(best); {
		for part := text[start:]; len(part) > len(best); part = strings.TrimRight(part[:max(strings.LastIndexByte(part, ' '), 0)], " \t:,;.()[]<>'-=|") {
			if part[0] != ' ' && ok(part) {
				best = part
				break
			}
		}
		k := strings.IndexByte(text[start:], ' ')
		if k < 0 {
			break
		}
		start += k + 1
	}
	return best
}

// runs returns the parts of text that do not vary.
func runs(text string) []string {
	var out []string
	start := 0
	add := func(end int) {
		if t := strings.Trim(text[start:end], " \t:,;.()[]<>'-=|"); t != "" {
			out = append(out, t)
		}
	}
	for _, s := range spans(nil, text) {
		if s.mask != "" || s.end == s.start+1 && strings.IndexByte("\"\\{}`\t", text[s.start]) >= 0 || text[s.start] >= 0x80 {
			add(s.start)
			start = s.end
		}
	}
	add(len(text))
	return out
}

// streamLabels are label names that streams probably have. A label hides a field of the same
// name.
var streamLabels = []string{"namespace", "pod", "container", "node", "app", "job", "image", "instance", "stream", "name", "level", "component"}

// objectFields are names of fields, in lower case, that identify the object of a line.
var objectFields = []string{
	"machine", "cluster", "node", "pod", "name", "object", "nodeGroup", "lease", "lock", "volume", "volumeName", "service", "ingress",
	"deployment", "request", "resource", "webhook", "crd", "kind", "key", "queue", "controller",
}

// pathFields are names of fields with values in which a slash does not separate a namespace
// from a name.
var pathFields = []string{"caller", "source", "file", "path", "location", "dir", "image", "logger", "ts", "time", "date", "apiVersion", "gvk", "stack"}

var (
	plainName = lazyre.New(`^[a-z][A-Za-z0-9_]*$`)
	kindName  = lazyre.New(`^[A-Z][A-Za-z0-9]*$`)
	oneName   = lazyre.New(`^[\w.:-]+(/[\w.:-]+)?$`)
)

// withField takes the object from a field. The field has the name of the controller's kind, the
// name of any kind, or another common name.
func withField(p *Proposal, _ parsedLine) bool {
	var fr matcher.FieldReader
	fr.Reset([]byte(p.Line))
	all := fr.All()
	find := func(ok func(matcher.NamedValue) bool) bool {
		i := slices.IndexFunc(all, func(v matcher.NamedValue) bool {
			return len(v.Value) > 1 && oneName.MatchString(v.Value) && !volatile(v.Value) && ok(v)
		})
		if i >= 0 {
			p.Object, p.Value = all[i].Name, all[i].Value
		}
		return i >= 0
	}
	kind, _ := fr.Lookup("controllerKind")
	if find(func(v matcher.NamedValue) bool { return v.Name == string(kind) && kindName.MatchString(v.Name) }) ||
		find(func(v matcher.NamedValue) bool { return kindName.MatchString(v.Name) && strings.Contains(v.Value, "/") }) {
		return true
	}
	if find(func(v matcher.NamedValue) bool {
		return strings.Contains(v.Value, "/") && !strings.Contains(v.Value, ".go:") && !slices.Contains(pathFields, v.Name) && plainName.MatchString(v.Name)
	}) {
		return true
	}
	_, namespaced := fr.Lookup("namespace")
	for _, name := range objectFields {
		if name == "name" && !namespaced {
			continue // the field may contain the name of a logger
		}
		if find(func(v matcher.NamedValue) bool { return v.Name == name }) {
			if slices.Contains(streamLabels, name) {
				p.Field, p.FieldRegex, p.Object = name, `(?P<object>\S+)`, "object"
			}
			return true
		}
	}
	return false
}

// withText takes the object from the message or the error. The object is a quoted name or
// namespace/name, and its label is the word before it.
func withText(p *Proposal, r parsedLine) bool {
	for _, part := range []string{r.Message, r.Error} {
		all := spans(nil, part)
		for i, s := range all {
			value := part[s.start:s.end]
			if s.mask != maskName && s.mask != maskObject || !oneName.MatchString(value) || volatile(value) {
				continue
			}
			quote := byte(0)
			if i > 0 && strings.IndexByte("\"'", part[s.start-1]) >= 0 {
				quote = part[s.start-1]
			}
			if p.capture(part[:s.start], value, quote) {
				return true
			}
		}
	}
	return false
}

// withTail takes the object from the JSON object at the end of a line. Rules read it as fields
// only if zap's console encoder wrote the line.
func withTail(p *Proposal, _ parsedLine) bool {
	k := strings.Index(p.Line, `{"`)
	if k <= 0 {
		return false
	}
	tail := Proposal{Line: p.Line[k:]}
	if !withField(&tail, parsedLine{}) {
		return false
	}
	name := tail.Object
	if tail.Field != "" {
		name = tail.Field
	}
	return p.captures(`"`+name+`": ?"(?P<`+tail.Object+`>[\w.:/-]+)"`, tail.Object, tail.Value)
}

// capture builds a regular expression for a value that follows the text in before. It reports
// whether the expression captures the value. quote is the quote around the value, or 0 if
// there is none.
func (p *Proposal) capture(before, value string, quote byte) bool {
	if quote != 0 {
		before = strings.TrimRight(before[:len(before)-1], `\`)
	}
	word := before[strings.LastIndexByte(strings.TrimRight(before, " "), ' ')+1:]
	bare := strings.Trim(word, " :,;()[]'=")
	if len(bare) < 3 || strings.Trim(strings.ToLower(bare), "abcdefghijklmnopqrstuvwxyz_") != "" || strings.IndexByte(word, '"') >= 0 {
		return false
	}
	name := strings.ToLower(bare)
	if slices.Contains(streamLabels, name) || slices.Contains(genericWords, name) {
		name = "object"
	}
	letters := `[\w.-]+`
	if strings.Contains(value, "/") {
		letters = `[\w.-]+/[\w.-]+`
	} else if strings.Contains(value, ":") {
		letters = `[\w.:-]+`
	}
	group := `(?P<` + name + `>` + letters + `)`
	switch quote {
	case '"':
		group = `\\*"` + group + `\\*"`
	case '\'':
		group = `'` + group + `'`
	}
	return p.captures(regexp.QuoteMeta(word)+group, name, value)
}

// captures stores a regular expression and returns true if the expression captures the value
// in the line.
func (p *Proposal) captures(expr, name, value string) bool {
	re, err := regexp.Compile(expr)
	if err != nil {
		return false
	}
	found := re.FindStringSubmatch(p.Line)
	if found == nil || found[1] != value {
		return false
	}
	p.Regex, p.Object, p.Value = expr, name, value
	return true
}

// genericWords are words that do not name an object.
var genericWords = []string{
	"for", "from", "with", "the", "and", "that", "syncing", "updating", "waiting", "failed", "error", "user", "because", "get",
	"list", "watch", "lock", "calling", "alertname", "severity", "resolves", "overflow", "time", "timestamp", "date", "uid", "hash",
}

// setOtherLine sets OtherLine to the line with another object, and with other numbers in the message and
// the error.
func (p *Proposal) setOtherLine(r parsedLine) {
	other := p.Line
	for _, part := range []string{r.Message, r.Error} {
		if k := strings.Index(other, part); part != "" && k >= 0 {
			other = other[:k] + varyNumbers(part) + other[k+len(part):]
		}
	}
	if p.Object != "" {
		for piece := range strings.SplitSeq(p.Value, "/") {
			if changed := replaceName(other, piece, "another-"+piece); p.containsTexts(changed) {
				other = changed
			}
		}
	}
	if !p.containsTexts(other) || other == p.Line {
		return
	}
	if p.Object != "" {
		if p.OtherValue = p.valueIn(other); p.OtherValue == p.Value || p.OtherValue == "" {
			p.OtherValue = ""
			return
		}
	}
	p.OtherLine = other
}

func (p *Proposal) containsTexts(line string) bool {
	return !slices.ContainsFunc(p.Texts, func(t string) bool { return !strings.Contains(line, t) })
}

func (p *Proposal) valueIn(line string) string {
	if p.Regex != "" {
		if found := regexp.MustCompile(p.Regex).FindStringSubmatch(line); found != nil {
			return found[1]
		}
		return ""
	}
	name := p.Object
	if p.Field != "" {
		name = p.Field
	}
	var fr matcher.FieldReader
	fr.Reset([]byte(line))
	v, _ := fr.Lookup(name)
	return string(v)
}

// varyNumbers changes the digits of numbers, durations, times and addresses.
func varyNumbers(text string) string {
	out := []byte(text)
	for _, s := range spans(nil, text) {
		switch s.mask {
		case maskNumber, maskDuration, maskTime, maskAddress:
			for i := s.start; i < s.end; i++ {
				if c := out[i]; '1' <= c && c <= '8' {
					out[i] = c + 1
				}
			}
		}
	}
	return string(out)
}

// replaceName replaces a name wherever it is not part of a longer name.
func replaceName(line, name, replacement string) string {
	var b strings.Builder
	for {
		k := strings.Index(line, name)
		if k < 0 || name == "" {
			break
		}
		end := k + len(name)
		alone := (k == 0 || !nameByte(line[k-1])) && (end == len(line) || !nameByte(line[end]))
		b.WriteString(line[:k])
		if alone {
			b.WriteString(replacement)
		} else {
			b.WriteString(name)
		}
		line = line[end:]
	}
	return b.String() + line
}

func nameByte(c byte) bool { return letterOrDigit(c) || c == '-' || c == '_' || c == '.' }
