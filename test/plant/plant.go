// Package plant makes texts with secrets in them and tells whether a secret got
// through. It is for tests.
package plant

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

//go:embed kinds.txt
var list string

// The alphabets of secrets.
const (
	hexDigits = "0123456789abcdef"
	base36    = "0123456789abcdefghijklmnopqrstuvwxyz"
	base62    = base36 + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	upper36   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// Kind is one way in which secrets are written. In its text §alphabet:length§
// stands for random characters that must not survive.
type Kind struct{ Name, Text string }

// Kinds returns every kind. An error names the line of the list that is broken.
func Kinds() ([]Kind, error) {
	signs := strings.NewReplacer("⏎", "\n", "␛", "\x1b", "○", "\u200b")
	var out []Kind
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, text, found := strings.Cut(line, "\t")
		if !found || !placeholder.MatchString(text) {
			return nil, fmt.Errorf("kinds: %q has no tab or no placeholder", line)
		}
		out = append(out, Kind{name, signs.Replace(text)})
	}
	return out, nil
}

var placeholder = regexp.MustCompile(`§(hex|base36|base62|upper|word|pass):(\d+)§`)

// Fill fills the placeholders and returns the text and the secrets in it.
func (k Kind) Fill(rnd *rand.Rand) (text string, secrets []string) {
	text = placeholder.ReplaceAllStringFunc(k.Text, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		n, _ := strconv.Atoi(m[2]) // digits, says the expression
		alphabet := map[string]string{
			"hex": hexDigits, "base36": base36, "base62": base62, "upper": upper36,
			"word": "abcdefghijklmnopqrstuvwxyz", "pass": base62 + "!@#$%^*+~.-_/?",
		}[m[1]]
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		if m[1] == "pass" { // as people choose them: no punctuation at the ends
			b[0], b[n-1] = base62[rnd.IntN(36)], base62[rnd.IntN(36)]
		}
		secrets = append(secrets, string(b))
		return string(b)
	})
	return text, secrets
}

// Survives returns a secret of which 6 characters in a row are in out, or "".
// before is the text that held them: what it says beside the secrets may stay.
func Survives(before, out string, secrets []string) string {
	for _, s := range secrets {
		n := min(len(s), 6)
		for i := 0; i+n <= len(s); i++ {
			if strings.Contains(out, s[i:i+n]) && !strings.Contains(strings.ReplaceAll(before, s, ""), s[i:i+n]) {
				return s
			}
		}
	}
	return ""
}
