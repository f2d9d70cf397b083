package plant

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = digits + lower + upper
)

var alphabets = map[string]string{
	"an": base62, "lo": digits + lower, "up": digits + upper, "low": lower, "d": digits,
	"hex": digits + "abcdef", "HEX": digits + "ABCDEF", "B32": upper + "234567",
	"url": base62 + "-_", "b64": base62 + "+/", "b64url": base62 + "-_",
	"pass": base62 + "!@#$%^*+~.-_/?", "pwurl": base62 + ".~-_",
}

// filler generates the secrets of one text.
type filler struct {
	rnd     *rand.Rand
	secrets []string
}

func fill(text string, rnd *rand.Rand) (string, []string) {
	f := &filler{rnd: rnd}
	text = placeholder.ReplaceAllStringFunc(text, func(p string) string {
		m := placeholder.FindStringSubmatch(p)
		n, _ := strconv.Atoi(m[2]) // the expression allows only digits
		return f.value(m[1], n)
	})
	return text, f.secrets
}

// random returns n characters; the first and the last are not punctuation.
func (f *filler) random(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[f.rnd.IntN(len(alphabet))]
	}
	if strings.ContainsAny(alphabet, "-/") {
		b[0], b[n-1] = base62[f.rnd.IntN(36)], base62[f.rnd.IntN(36)]
	}
	return string(b)
}

// secret remembers a secret and returns it.
func (f *filler) secret(s string) string {
	f.secrets = append(f.secrets, s)
	return s
}

func (f *filler) keep(name string, n int) string { return f.secret(f.random(alphabets[name], n)) }

func (f *filler) value(name string, n int) string {
	switch name {
	case "pw":
		return f.secret(f.password())
	case "pwurl":
		return f.keep(name, 12)
	case "lowword":
		return f.keep("low", 9)
	case "pwl":
		return f.keep("low", 12)
	case "uuid":
		return f.secret(f.uuid("hex"))
	case "UUID":
		return f.secret(f.uuid("HEX"))
	case "words":
		return f.words(n)
	case "bytes":
		return f.bytes(n, "%d", " ")
	case "hexbytes":
		return f.bytes(n, "0x%x", ", ")
	}
	if s := f.hash(name); s != "" {
		return s
	}
	if s := f.document(name); s != "" {
		return s
	}
	return f.keep(name, n)
}

// password returns a password like those of people and programs.
func (f *filler) password() string {
	switch f.rnd.IntN(3) {
	case 0:
		return f.random(alphabets["pass"], 12)
	case 1:
		return f.random(upper, 1) + f.random(lower, 6) + f.random(digits, 4) + f.random("!.-", 1) + f.random(lower, 1)
	default:
		return f.random(lower, 10)
	}
}

func (f *filler) uuid(alphabet string) string {
	a := alphabets[alphabet]
	return f.random(a, 8) + "-" + f.random(a, 4) + "-" + f.random(a, 4) + "-" + f.random(a, 4) + "-" + f.random(a, 12)
}

func (f *filler) words(n int) string {
	w := make([]string, n)
	for i := range w {
		w[i] = f.random(lower, 6)
	}
	return f.secret(strings.Join(w, " "))
}

func (f *filler) bytes(n int, verb, separator string) string {
	b := make([]string, n)
	for i := range b {
		b[i] = fmt.Sprintf(verb, base62[f.rnd.IntN(62)])
	}
	return f.secret(strings.Join(b, separator))
}

func (f *filler) hash(name string) string {
	switch name {
	case "bcrypt":
		return "$2a$10$" + f.keep("an", 53)
	case "sha512crypt":
		return "$6$" + f.random(base62, 16) + "$" + f.keep("an", 86)
	case "jwt":
		return "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOi" + f.keep("url", 60) + "." + f.keep("url", 86)
	}
	return ""
}

// document returns a secret of several words or lines. Its base64 is a secret
// as a whole.
func (f *filler) document(name string) string {
	rest, coded := strings.CutPrefix(name, "b64")
	if coded && rest != "" && rest != "url" {
		inner := &filler{rnd: f.rnd}
		return f.secret(base64.StdEncoding.EncodeToString([]byte(inner.document(rest))))
	}
	switch name {
	case "pem":
		return f.pem("")
	case "pemrsa":
		return f.pem("RSA ")
	case "pemec":
		return f.pem("EC ")
	case "pemssh":
		return f.pem("OPENSSH ")
	case "user":
		return "admin:" + f.password()
	case "plain":
		return "\x00admin\x00" + f.password()
	case "docker":
		return `{"auths":{"r.local":{"username":"u","password":"` + f.password() + `"}}}`
	case "kubeconfig":
		return "apiVersion: v1\nkind: Config\nusers:\n- name: a\n  user:\n    client-key-data: " + f.keep("b64", 200) + "\n"
	case "cloudinit":
		return "#cloud-config\nusers:\n- name: root\n  passwd: " + f.hash("sha512crypt") + "\n"
	}
	return ""
}

func (f *filler) pem(of string) string {
	return "-----BEGIN " + of + "PRIVATE KEY-----\n" + f.keep("b64", 64) + "\n" + f.keep("b64", 64) + "\n-----END " + of + "PRIVATE KEY-----"
}
