package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"crowsnest/internal/lazyre"
)

// tokenKind is the kind of a token of LogQL.
type tokenKind int

const (
	tokenEnd      tokenKind = iota
	tokenWord               // a name or a keyword
	tokenText               // a quoted text; its value is unquoted
	tokenNumber             // a number without a unit
	tokenQuantity           // a number with a unit: a duration or a size
	tokenSymbol
)

type token struct {
	kind  tokenKind
	value string
	at    int // offset in the query
}

func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenText:
		return strconv.Quote(shorten(t.value))
	}
	return "`" + shorten(t.value) + "`"
}

// queryError is why a query cannot be translated, with the offset of what it is about.
type queryError struct {
	at      int
	message string
}

func (e *queryError) Error() string { return e.message }

func queryErrorf(at int, format string, args ...any) error {
	return &queryError{at, fmt.Sprintf(format, args...)}
}

var (
	wordToken   = lazyre.New(`^[A-Za-z_][A-Za-z0-9_]*`)
	numberToken = lazyre.New(`^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	// unitToken is what follows a number directly.
	unitToken = lazyre.New(`^[A-Za-zµ][A-Za-z0-9µ.]*`)
)

// symbols of LogQL, longer ones first.
var symbols = []string{"|=", "|~", "|>", "!=", "!~", "!>", "=~", "==", ">=", "<=", "{", "}", "(", ")", "[", "]", ",", "=", ">", "<", "|", "+", "-", "*", "/", "%", "^"}

// maxTokens bounds a query.
const maxTokens = 10_000

func lexLogQL(query string) ([]token, error) {
	var out []token
	for at := 0; ; {
		rest := strings.TrimLeft(query[at:], " \t\r\n")
		at = len(query) - len(rest)
		if strings.HasPrefix(rest, "#") {
			line, _, _ := strings.Cut(rest, "\n")
			at += len(line)
			continue
		}
		if at == len(query) {
			return append(out, token{at: at}), nil
		}
		t, size, err := lexToken(query[at:])
		if err != nil {
			return nil, queryErrorf(at, "%s", err)
		}
		t.at = at
		if out = append(out, t); len(out) > maxTokens {
			return nil, queryErrorf(at, "the query has more than %d words and symbols", maxTokens)
		}
		at += size
	}
}

// lexToken returns the first token of a text, and its length.
func lexToken(s string) (token, int, error) {
	switch c := s[0]; {
	case c == '"' || c == '`':
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return token{}, 0, fmt.Errorf("a text is not closed, or has an unknown escape: %s", shorten(s))
		}
		value, err := strconv.Unquote(quoted)
		return token{kind: tokenText, value: value}, len(quoted), err
	case '0' <= c && c <= '9':
		number := numberToken.FindString(s)
		unit := unitToken.FindString(s[len(number):])
		if unit == "" {
			return token{kind: tokenNumber, value: number}, len(number), nil
		}
		return token{kind: tokenQuantity, value: number + unit}, len(number) + len(unit), nil
	}
	if w := wordToken.FindString(s); w != "" {
		return token{kind: tokenWord, value: w}, len(w), nil
	}
	if i := slices.IndexFunc(symbols, func(x string) bool { return strings.HasPrefix(s, x) }); i >= 0 {
		return token{kind: tokenSymbol, value: symbols[i]}, len(symbols[i]), nil
	}
	return token{}, 0, fmt.Errorf("%q is no part of LogQL", shorten(strings.ToValidUTF8(s, "?")))
}
