package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// isContent reports whether a key only means the content of something that is named
// beside it or by its parent.
func isContent(key string) bool {
	for _, word := range [...]string{"value", "content", "plain", "plaintext", "raw"} {
		if len(key) == len(word) && strings.EqualFold(key, word) {
			return true
		}
	}
	return false
}

// classOfParent is the class of the key that opens the object of k, as in
// {"password":{"value":"x"}}.
func (sc *scanner) classOfParent(k key) keys.Class {
	from := max(0, k.from-2*keys.Max)
	at := k.from - 1
	for depth := 0; at > from; at-- {
		switch sc.s[at] {
		case '}', ']':
			depth++
			continue
		case '{', '[':
			depth--
		}
		if depth < 0 {
			break
		}
	}
	parent, found := strings.CutSuffix(strings.TrimRight(strings.TrimSuffix(sc.s[from:max(at, from)], "map"), " "), ":")
	if !found {
		return keys.None
	}
	parent = strings.TrimRight(parent, `"'\ `)
	n := len(parent)
	for n > 0 && isKeyByte(parent[n-1]) {
		n--
	}
	if c := sc.r.keys.Classify(parent[n:]); c >= keys.Weak {
		return keys.Strong
	}
	return keys.None
}

// printsJWK reports whether the text has a JSON web key.
func (sc *scanner) printsJWK() bool {
	if !sc.jwkKnown {
		sc.jwkKnown, sc.isJWK = true, strings.Contains(sc.s, "kty")
	}
	return sc.isJWK
}

// classOfParameter is the class of a member of a JSON web key: those of the
// private part are secrets.
func classOfParameter(name string) keys.Class {
	switch name {
	case "d", "p", "q", "dp", "dq", "qi", "k":
		return keys.Strong
	}
	return keys.None
}

var nameBeforeValue = lazily(`(?i)(?:name|key)\\*["']?\s*[:=]\s*\\*["']?([A-Za-z0-9_.-]+?)\\*["']?(?:[,;\s]|\\+[nr])+\\*["']?$`)

// classOfName is for the variables of a container: the key "value" has the
// class of the name beside it, as in {"name":"DB_PASSWORD","value":"x"}.
func (sc *scanner) classOfName(k key) keys.Class {
	window := sc.s[max(0, k.from-2*keys.Max):k.from]
	if !strings.Contains(window, "ame") && !strings.Contains(window, "AME") && !strings.Contains(window, "ey") {
		return keys.None
	}
	m := nameBeforeValue().FindStringSubmatch(window)
	if m == nil {
		return keys.None
	}
	name := m[1]
	c := sc.r.keys.Classify(name)
	if c == keys.Weak {
		return keys.Strong
	}
	return c
}

// wraps returns the quote after the type that a value at i is printed with, and
// the number of backslashes before it: Some("x"), (*string)(0xc000)("x").
func (sc *scanner) wraps(i int) (quote, escapes int) {
	at := i
	for at < len(sc.s) && at-i < 48 && (isAlnum(sc.s[at]) || strings.IndexByte("_.*()=", sc.s[at]) >= 0 || sc.s[at] == ' ' && sc.s[at-1] == ')') {
		at++
	}
	if at == i || sc.byteAt(at-1) != '(' && sc.byteAt(at-1) != ' ' {
		return 0, 0
	}
	for sc.byteAt(at) == '\\' {
		at++
		escapes++
	}
	if sc.byteAt(at) != '"' {
		return 0, 0
	}
	return at, escapes
}

// isPhrase reports whether the value of a key is many words.
func isPhrase(key string) bool {
	return strings.HasSuffix(key, "mnemonic") || strings.HasSuffix(key, "phrase") && strings.HasPrefix(key, "seed")
}

// phraseAt is the small words from i on.
func (sc *scanner) phraseAt(i int) span {
	return span{i, sc.run(i, func(c byte) bool { return isLower(c) || c == ' ' || c == '+' })}
}
