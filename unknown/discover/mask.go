package discover

import (
	"bytes"
	"strings"

	"crowsnest/redact"
)

// Placeholders for the parts of a line that vary.
const (
	maskNumber   = "<num>"
	maskDuration = "<dur>"
	maskTime     = "<time>"
	maskAddress  = "<ip>"
	maskURL      = "<url>"
	maskPath     = "<path>"
	maskObject   = "<obj>" // an object, in the form namespace/name or Kind/name
	maskName     = "<name>"
	maskID       = "<id>" // a UUID, a hash or a generated name
	maskType     = "<type>"
	maskAny      = "<*>" // a word that differed between lines of a pattern
	maskSecret   = redact.Mask
)

// span is a part of a text, which is either fixed or to be replaced by a placeholder.
type span struct {
	start, end int
	mask       string // placeholder; empty if the part is fixed
}

// spannedText is a text that is divided into spans.
type spannedText struct {
	text  string
	spans []span
}

// split divides a text into spans. It reuses the memory of the previous spans.
func (t *spannedText) split(text string) { t.text, t.spans = text, spans(t.spans[:0], text) }

// maskZeros also masks zeros, which the function spans does not mask. It reports whether the
// text has a zero.
func (t *spannedText) maskZeros() (has bool) {
	for i := range t.spans {
		if s := &t.spans[i]; s.mask == "" && t.text[s.start:s.end] == zero {
			s.mask, has = maskNumber, true
		}
	}
	return has
}

// kindIs precedes the kind in the Kubernetes notation for group, version and kind, which is
// "apps/v1, Kind=Deployment".
const kindIs = ", Kind="

// maxQuoted is the greatest length of a quoted text that counts as a name.
const maxQuoted = 253

// spans splits a text into spans and appends them to dst in order. The spans of a word have no
// gaps between them. White space and punctuation are fixed.
func spans(dst []span, text string) []span {
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == redact.Mask[0] && strings.HasPrefix(text[i:], redact.Mask):
			dst = append(dst, span{i, i + len(redact.Mask), maskSecret})
			i += len(redact.Mask)
		case c == '"' || c == '`' || c == '\'' && (i == 0 || !letterOrDigit(text[i-1])):
			end := quotedName(text, i)
			if end < 0 {
				dst = append(dst, span{i, i + 1, ""})
				i++
				continue
			}
			dst = append(dst, span{i, i + 1, ""}, span{i + 1, end, maskName}, span{end, end + 1, ""})
			if i = end + 1; text[end] == '\\' {
				dst = append(dst, span{i, i + 1, ""})
				i++
			}
		case wordStart(c):
			end := wordEnd(text, i)
			if i >= len(kindIs) && text[i-len(kindIs):i] == kindIs {
				dst = append(dst, span{i, end, maskType})
			} else {
				dst = appendWord(dst, text, i, end)
			}
			i = end
		default:
			dst = append(dst, span{i, i + 1, ""})
			i++
		}
	}
	return dst
}

// quotedName returns the index of the closing quote of the quote at i if the quoted text is a
// name, or -1 otherwise. A backslash may precede the closing quote. A quoted sentence is
// masked like any other text.
func quotedName(text string, i int) int {
	for k := i + 1; k < len(text) && k-i <= maxQuoted; k++ {
		switch c := text[k]; {
		case c == text[i], c == '\\' && k+1 < len(text) && text[k+1] == text[i]:
			if k == i+1 {
				return -1
			}
			return k
		case c <= ' ' || c == '\\':
			return -1
		}
	}
	return -1
}

func wordStart(c byte) bool {
	return letterOrDigit(c) || c == '/' || c == '*' || c == '_' || c == '.' || c == '-' || c == '$' || c == '@' || c >= 0x80
}

// wordEnd returns the end of the word that starts at i. A URL ends at white space. Any other
// word ends at a character that separates words in prose or in dumps of structs.
func wordEnd(text string, i int) int {
	k := i
	for k < len(text) {
		c := text[k]
		if c == ':' && strings.HasPrefix(text[k:], "://") {
			for k < len(text) && text[k] > ' ' && text[k] != '"' && text[k] != '\'' && text[k] != '`' && text[k] != '>' && text[k] != ')' {
				k++
			}
			break
		}
		if c == '\'' && k+1 < len(text) && k > i && letter(text[k-1]) && letter(text[k+1]) {
			k++
			continue
		}
		if separatesWords(c) {
			break
		}
		k++
	}
	for k > i+1 && strings.IndexByte(".:!?", text[k-1]) >= 0 {
		k--
	}
	return k
}

func separatesWords(c byte) bool {
	switch c {
	case '"', '\'', '`', '(', ')', '{', '}', '[', ']', '<', '>', ',', ';', '=', '|', '\\':
		return true
	}
	return c <= ' '
}

// appendWord appends the spans of a word. A word such as "key:value" has three.
func appendWord(dst []span, text string, start, end int) []span {
	word := text[start:end]
	if mask := classify(word); mask != "" || strings.IndexByte(word, ':') < 0 {
		return append(dst, span{start, end, mask})
	}
	if strings.Count(word, ":") > 1 {
		return append(dst, span{start, end, maskName}) // a name such as system:serviceaccount:ns:name
	}
	k := start + strings.IndexByte(word, ':')
	if k > start {
		dst = append(dst, span{start, k, classify(text[start:k])})
	}
	dst = append(dst, span{k, k + 1, ""})
	if k+1 < end {
		dst = append(dst, span{k + 1, end, classify(text[k+1 : end])})
	}
	return dst
}

// fixedWords are words that contain digits but do not vary.
var fixedWords = map[string]bool{
	"x509": true, "k8s": true, "etcd3": true, "http2": true, "h2": true, "ipv4": true, "ipv6": true, "oauth2": true, "sha256": true,
	"base64": true, "s3": true, "ec2": true, "route53": true, "utf8": true, "utf-8": true, "tls1.2": true, "tls1.3": true, "i18n": true,
}

type shape struct {
	digits, letters, hex, dots, dashes, slashes, colons, uppers, others int
}

func shapeOf(word string) (s shape) {
	for i := range len(word) {
		switch c := word[i]; {
		case digit(c):
			s.digits++
		case letter(c):
			s.letters++
			if lower(c) <= 'f' {
				s.hex++
			}
			if upper(c) {
				s.uppers++
			}
		case c == '.':
			s.dots++
		case c == '-':
			s.dashes++
		case c == '/':
			s.slashes++
		case c == ':':
			s.colons++
		default:
			s.others++
		}
	}
	return s
}

// maxFixed is the greatest length of a word of prose. Longer words are names or data.
const maxFixed = 48

func classify(word string) string {
	s := shapeOf(word)
	switch {
	case s.slashes > 0:
		return classifyPath(word, s)
	case word[0] == '*' && s.dots > 0:
		return maskType
	case s.digits > 0:
		return classifyDigits(word, s)
	case len(word) > maxFixed || strings.IndexByte(word, '@') > 0:
		return maskID
	case s.dots >= 2 && s.letters > s.dots && word[0] != '.', s.dots > 0 && s.dashes > 0 && word[0] != '.':
		return maskName // a domain name such as machines.cluster.x-k8s.io
	case s.dashes >= 2 && s.letters > s.dashes && 'a' <= word[0] && word[0] <= 'z':
		return maskName
	}
	return ""
}

func classifyPath(word string, s shape) string {
	switch {
	case strings.Contains(word, "://"):
		return maskURL
	case s.letters == 0 && s.digits > 0:
		return maskNumber // a fraction such as 1/3, or a date
	case word[0] == '/' || s.slashes > 1 || strings.Contains(word, ".go:"):
		if len(word) == 1 {
			return ""
		}
		return maskPath
	case s.letters == 0:
		return ""
	}
	return maskObject
}

func classifyDigits(word string, s shape) string {
	if len(word) <= 6 && fixedWords[strings.ToLower(word)] || apiVersion(word) {
		return ""
	}
	if s.letters == 0 {
		switch {
		case word == zero:
			return ""
		case s.dots == 3 && s.digits >= 4, s.colons > 3:
			return maskAddress
		case s.colons >= 2 || s.dashes >= 2:
			return maskTime
		}
		return maskNumber
	}
	switch {
	case digit(word[0]) && duration(word):
		return maskDuration
	case len(word) >= 19 && digit(word[0]) && word[4] == '-' && word[10] == 'T':
		return maskTime
	case s.colons > 1 && s.letters == s.hex:
		return maskAddress
	}
	return maskID
}

func apiVersion(word string) bool {
	if len(word) < 2 || len(word) > len("v1alpha10") || word[0] != 'v' || !digit(word[1]) {
		return false
	}
	rest := strings.TrimLeft(word[1:], "0123456789")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "alpha"), "beta")
	return strings.TrimLeft(rest, "0123456789") == ""
}

// duration reports whether a word consists of numbers with units, such as 1m30s, 994.8ms or
// 10Mi.
func duration(word string) bool {
	for word != "" {
		number := len(word) - len(strings.TrimLeft(word, "0123456789."))
		if number == 0 {
			return false
		}
		word = word[number:]
		unit := 0
		for unit < len(word) && (letter(word[unit]) || word[unit] >= 0x80) {
			unit++
		}
		if unit == 0 || unit > 3 {
			return false
		}
		word = word[unit:]
	}
	return true
}

// maskText returns a text with placeholders and with single spaces between its words.
func maskText(text string) []byte {
	var t spannedText
	t.split(text)
	return appendSpans(nil, &t)
}

// appendSpans appends a text with placeholders and with single spaces between its words. A run
// of equal placeholders, as in tables and lists, becomes one.
func appendSpans(dst []byte, t *spannedText) []byte {
	last, token := len(dst), len(dst) // start of the previous token, start of the current token
	end := func() {
		switch {
		case token == len(dst):
			return
		case token > last && isMask(dst[token:]) && bytes.Equal(bare(dst[last:token-1]), bare(dst[token:])):
			dst = append(dst[:last], dst[token:]...)
		default:
			last = token
		}
		dst = append(dst, ' ')
		token = len(dst)
	}
	for _, s := range t.spans {
		switch {
		case s.mask != "":
			dst = append(dst, s.mask...)
		case s.end == s.start+1 && t.text[s.start] <= ' ':
			end()
		case s.end == s.start+1 && t.text[s.start] == '\\': // omit backslashes before nested quotes
		default:
			dst = append(dst, t.text[s.start:s.end]...)
		}
	}
	end()
	return bytes.TrimSuffix(dst, []byte(" "))
}

func bare(token []byte) []byte { return bytes.TrimRight(token, ",;") }

// isMask reports whether a token consists only of a placeholder and punctuation.
func isMask(token []byte) bool {
	if bytes.IndexByte(token, '<') < 0 {
		return false
	}
	t := bytes.Trim(token, ",;:.()[]{}\"'`")
	return len(t) > 2 && t[0] == '<' && bytes.IndexByte(t, '>') == len(t)-1
}

// volatile reports whether a value is of a type that changes from event to event, such as a
// number, a time, a duration, an address with a port, a UID or a hash. With such a value in
// its key, a rule would send an alert for each line.
func volatile(value string) bool {
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '/' }) {
		switch classify(part) {
		case maskNumber, maskDuration, maskTime:
			return true
		}
		if host, port, ok := cutLast(part, ':'); ok && host != "" && allIn(port, "0123456789") {
			return true
		}
		if uid(part) || hash(part) || strings.HasPrefix(part, "sha256:") {
			return true
		}
	}
	return false
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	k := strings.LastIndexByte(s, sep)
	if k < 0 {
		return s, "", false
	}
	return s[:k], s[k+1:], true
}

func allIn(s, set string) bool { return s != "" && strings.Trim(s, set) == "" }

const hexDigits = "0123456789abcdef"

func uid(s string) bool {
	s = strings.ToLower(s)
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		return allIn(strings.ReplaceAll(s, "-", ""), hexDigits)
	}
	return false
}

const minHash = 8

// hash reports whether a text is a hash, which consists of hexadecimal digits, including
// letters.
func hash(s string) bool {
	s = strings.ToLower(s)
	return len(s) >= minHash && allIn(s, hexDigits) && strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdef")
}
