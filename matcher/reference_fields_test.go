package matcher

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// refConsole is a line of zap's console encoder that ends with an object.
var refConsole = regexp.MustCompile(`(?is)^(?:[^\t]*\t)?(?:debug|info|warn|error|dpanic|panic|fatal)\t(?:.*\t)?(\{".*)$`)

// refFields returns the lookup of a line's fields.
func refFields(text string) func(string) (string, bool) {
	object := text
	if m := refConsole.FindStringSubmatch(text); m != nil {
		object = m[1]
	}
	if obj, ok := refObject(object); ok {
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
			block, _, found := strings.Cut(s[i+1:], "\n >")
			i += 1 + len(block)
			if found {
				i += 3
			}
			out[key] = strings.TrimPrefix(strings.ReplaceAll(block, "\n\t", "\n"), "\n")
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
			message = false
			continue
		}
		message = regexp.MustCompile(`.:\d+\]$`).MatchString(word)
	}
}

// refUnquote undoes %q, except for escaped ASCII letters.
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
		if err != nil || len(esc) > 2 && ' ' <= v[0] && v[0] <= '~' {
			return esc
		}
		return v
	})
}

// refObj is an object of JSON: keys in order, with values that are string, refLiteral,
// *refObj, or nil if there is none.
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

// value reads a value. It keeps the start of a truncated object.
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
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
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
