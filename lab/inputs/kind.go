package inputs

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs/envelope"
	"crowsnest/lab/internal/unpack"
)

// minBlock is the number of NUL bytes that form a block.
const minBlock = 8

// headSize is the number of bytes that judge examines. It is the size of a tar header.
const headSize = 512

// kind is a file format that does not consist of lines of text.
type kind struct {
	name string
	fix  string // what the user can do
	// alien reports whether files of this kind never contain logs, so that they are skipped in
	// folders.
	alien bool
}

var (
	documentKind = kind{name: "a JSON document in which no field has lines of a log", fix: "export the lines as they were logged", alien: true}
	packedKind   = kind{name: "an archive or packed", fix: "unpack it and scan the folder"}
	journalKind  = kind{name: "a systemd journal", fix: "pass it as a file that is not packed"}
	rulePack     = kind{name: "a pack of rules", fix: "pass it with --rules", alien: true}
	binary       = kind{name: "not text", fix: "unpack or decrypt it, and pass the logs as text"}
	noLog        = kind{name: "a program, a picture or a document", alien: true}
)

// programs are the first bytes of executable files and of packages that contain them.
var programs = []string{"\x7fELF", "MZ", "\xca\xfe\xba\xbe", "\xcf\xfa\xed\xfe", "\x00asm", "\xed\xab\xee\xdb"}

// packHead matches the beginning of a rule pack.
var packHead = lazyre.New(`\A(?:#[^\n]*\n|---[^\n]*\n|\s*\n)*pack: *(?:\{ *(?:name|version):|\r?\n +(?:name|version):)`)

// judge returns the kind of an input from its first bytes. It returns false for lines of text.
func judge(head []byte) (kind, bool) {
	media, _, _ := strings.Cut(http.DetectContentType(head), "/")
	foreign := slices.Contains([]string{"image", "audio", "video", "font"}, media) ||
		slices.ContainsFunc(programs, func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) })
	isText := envelope.IsWide(head) || !isBinary(head)
	switch {
	case unpack.MayBe(head):
		return packedKind, true
	case bytes.HasPrefix(head, []byte(journalMagic)):
		return journalKind, true
	case packHead.Match(head):
		return rulePack, true
	case foreign && (!isText || head[0] >= 0x7f || head[0] == 0), bytes.HasPrefix(head, []byte("%PDF-")): // a text may begin with MZ
		return noLog, true
	}
	return binary, !isText
}

var withoutSpace = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "")

// isDocument reports whether head begins JSON that is one value instead of one entry per line,
// such as an array of objects, an object over several lines, or Loki's answer to a query.
func isDocument(head []byte) bool {
	first, rest, more := bytes.Cut(head, []byte("\n"))
	first = bytes.TrimRight(first, " \t\r")
	compact := withoutSpace.Replace(string(head))
	switch {
	case more && (string(first) == "{" || string(first) == "["):
		rest = bytes.TrimSpace(rest)
		return len(rest) > 0 && strings.ContainsRune("\"{[", rune(rest[0]))
	case strings.HasPrefix(compact, `[{"`), strings.HasPrefix(compact, `{"events":[{`), strings.HasPrefix(compact, `{"status":"success","data":{`):
		return true
	}
	return false
}

// isBinary reports whether head contains bytes that text does not contain. It ignores blocks of
// NUL bytes, because a power failure can leave them, and a few bytes of another character set.
func isBinary(head []byte) bool {
	head = bytes.Trim(head, "\x00")
	for part := range bytes.SplitSeq(head, make([]byte, minBlock)) {
		if bytes.IndexByte(bytes.Trim(part, "\x00"), 0) >= 0 {
			return true
		}
	}
	head = bytes.ReplaceAll(head, []byte{0}, nil)
	foreign := 0
	for rest := head; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		broken := r == utf8.RuneError && size == 1 && (utf8.FullRune(rest) || len(rest) >= utf8.UTFMax)
		if broken || r < ' ' && !bytes.ContainsRune([]byte("\t\n\r\v\f\b\x1b"), r) {
			foreign++
		}
		rest = rest[size:]
	}
	return foreign > len(head)*3/10
}

type unreadableError struct{ kind kind }

// Error returns a message with the kind of the input and the fix.
func (e *unreadableError) Error() string {
	if e.kind.fix == "" {
		return "is " + e.kind.name + ", not a log"
	}
	return fmt.Sprintf("is %s, not log lines; %s", e.kind.name, e.kind.fix)
}
