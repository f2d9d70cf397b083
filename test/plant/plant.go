// Package plant generates texts with secrets and reports whether a secret
// survived redaction. It is for tests.
package plant

import (
	"embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strings"
)

//go:embed kinds/*.txt
var lists embed.FS

//go:embed ordinary.txt
var ordinary string

// The classes of kinds. Nothing of the first four may leak: a prefix, a name, a
// structure or a command line announces the secret. Prose announces it by words
// or only by its appearance. None means that it cannot be found.
const (
	Prefix    = "prefix"
	Key       = "key"
	Structure = "structure"
	Command   = "command"
	Prose     = "prose"
	None      = "none"
)

// Kind is one way to write secrets. In its text @{alphabet:length} stands for
// random characters that must not survive. If the text is a name and its value,
// Pair is that name.
type Kind struct{ Class, Name, Text, Pair string }

var (
	line        = regexp.MustCompile(`^(prefix|key|structure|command|prose|none) (\S+) \| (.+)$`)
	pair        = regexp.MustCompile(`^([A-Za-z0-9_.-]+)(?:=|: | = )(@\{[^}]*\})$`)
	placeholder = regexp.MustCompile(`@\{([A-Za-z0-9]+)(?::(\d+))?\}`)
	signs       = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\e`, "\x1b", `\z`, "\u200b")
)

// Kinds returns every kind. An error names the broken line of the list.
func Kinds() ([]Kind, error) {
	files, err := lists.ReadDir("kinds")
	if err != nil {
		return nil, err
	}
	var out []Kind
	for _, file := range files {
		b, err := lists.ReadFile("kinds/" + file.Name())
		if err != nil {
			return nil, err
		}
		for i, text := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			m := line.FindStringSubmatch(text)
			if m == nil {
				return nil, fmt.Errorf("%s:%d: %q is not a class, a name, | and a text", file.Name(), i+1, text)
			}
			k := Kind{Class: m[1], Name: strings.TrimSuffix(file.Name(), "txt") + m[2], Text: signs.Replace(m[3])}
			if p := pair.FindStringSubmatch(k.Text); p != nil {
				k.Pair = p[1]
			}
			out = append(out, k)
		}
	}
	return out, nil
}

// Half reports whether the kind belongs to the half that was held out while the
// patterns were written.
func (k Kind) Half() bool {
	h := fnv.New32a()
	h.Write([]byte(k.Name))
	return h.Sum32()>>8&1 == 1
}

// Fill fills the placeholders and returns the text and its secrets.
func (k Kind) Fill(rnd *rand.Rand) (text string, secrets []string) {
	return fill(k.Text, rnd)
}

// Ordinary returns lines without secrets, n variants of each line of the list.
func Ordinary(rnd *rand.Rand, n int) []string {
	var out []string
	for text := range strings.Lines(ordinary) {
		for range n {
			s, _ := fill(strings.TrimSuffix(text, "\n"), rnd)
			out = append(out, s)
		}
	}
	return out
}

// Survives returns a secret of which 6 consecutive characters are in out, or
// "". before is the text with the secrets: the rest of it may stay.
func Survives(before, out string, secrets []string) string {
	for _, s := range secrets {
		rest := strings.ReplaceAll(before, s, "")
		n := min(len(s), 6)
		for i := 0; i+n <= len(s); i++ {
			if part := s[i : i+n]; strings.Contains(out, part) && !strings.Contains(rest, part) {
				return s
			}
		}
	}
	return ""
}
