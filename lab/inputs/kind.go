package inputs

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"crowsnest/internal/lazyre"
	"crowsnest/lab/inputs/envelope"
)

// minBlock is the number of NULs that are a block.
const minBlock = 8

// headSize is the number of bytes that judge examines: the size of a tar header.
const headSize = 512

// kind is a file format that is not lines of text.
type kind struct {
	name string
	fix  string // remedy for the user
	// alien is a kind that never contains logs and is skipped in folders.
	alien bool
}

var magics = []struct {
	magic string
	kind
}{
	{"PK\x03\x04", kind{name: "a zip archive", fix: "unpack it with unzip and scan the folder"}},
	{"PK\x05\x06", kind{name: "an empty zip archive", fix: "collect it again"}},
	{"PK\x07\x08", kind{name: "a part of a zip archive", fix: "join the parts, unpack them with unzip and scan the folder"}},
	{"\xfd7zXZ\x00", kind{name: "packed with xz", fix: "unpack it with xz -d"}},
	{"\x28\xb5\x2f\xfd", kind{name: "packed with zstd", fix: "unpack it with zstd -d"}},
	{"\x50\x2a\x4d\x18", kind{name: "packed with zstd", fix: "unpack it with zstd -d"}},
	{"BZh", kind{name: "packed with bzip2", fix: "unpack it with bzip2 -d"}},
	{"7z\xbc\xaf\x27\x1c", kind{name: "a 7z archive", fix: "unpack it with 7z x and scan the folder"}},
	{"Rar!\x1a\x07", kind{name: "a rar archive", fix: "unpack it with unrar x and scan the folder"}},
	{"\x04\x22\x4d\x18", kind{name: "packed with lz4", fix: "unpack it with lz4 -d"}},
	{"\x1f\x9d", kind{name: "packed with compress", fix: "unpack it with uncompress"}},
	{"LZIP", kind{name: "packed with lzip", fix: "unpack it with lzip -d"}},
	{"\x89LZO\x00", kind{name: "packed with lzop", fix: "unpack it with lzop -d"}},
	{"\xff\x06\x00\x00sNaPpY", kind{name: "packed with snappy", fix: "unpack it first"}},
	{"MSCF", kind{name: "a cabinet archive", fix: "unpack it with cabextract and scan the folder"}},
	{"!<arch>\n", kind{name: "an ar archive", fix: "unpack it with ar x and scan the folder"}},
	{"070701", kind{name: "a cpio archive", fix: "unpack it with cpio -i and scan the folder"}},
	{"070702", kind{name: "a cpio archive", fix: "unpack it with cpio -i and scan the folder"}},
	{"070707", kind{name: "a cpio archive", fix: "unpack it with cpio -i and scan the folder"}},
	{"\xed\xab\xee\xdb", kind{name: "an rpm package", alien: true}},
	{"hsqs", kind{name: "a squashfs image", fix: "unpack it with unsquashfs and scan the folder"}},
	{"LPKSHHRH", kind{name: "a systemd journal", fix: "pass it as a file that is not packed"}},
	{"SQLite format 3\x00", kind{name: "an SQLite database", fix: "export its rows as text"}},
	{"Salted__", kind{name: "encrypted with openssl", fix: "decrypt it first"}},
	{"age-encryption.org/", kind{name: "encrypted with age", fix: "decrypt it first"}},
	{"-----BEGIN AGE ENCRYPTED FILE-----", kind{name: "encrypted with age", fix: "decrypt it first"}},
	{"-----BEGIN PGP MESSAGE-----", kind{name: "encrypted with PGP", fix: "decrypt it first"}},
	{"\xff\xfe\x00\x00", kind{name: "UTF-32 text", fix: "convert it with iconv -f UTF-32 -t UTF-8"}},
	{"\x7fELF", kind{name: "a program", alien: true}},
	{"MZ", kind{name: "a program", alien: true}},
	{"\xca\xfe\xba\xbe", kind{name: "a program", alien: true}},
	{"\xcf\xfa\xed\xfe", kind{name: "a program", alien: true}},
	{"\x00asm", kind{name: "a program", alien: true}},
	{"%PDF", kind{name: "a PDF document", alien: true}},
	{"\x89PNG", kind{name: "a picture", alien: true}},
	{"\xff\xd8\xff", kind{name: "a picture", alien: true}},
	{"GIF8", kind{name: "a picture", alien: true}},
	{"RIFF", kind{name: "a media file", alien: true}},
}

var (
	documentKind = kind{name: "a JSON document in which no field has lines of a log", fix: "export the lines as they were logged", alien: true}
	tarred       = kind{name: "a tar archive", fix: "unpack it with tar -xf and scan the folder"}
	binary       = kind{name: "not text", fix: "pass the logs as text"}
	rulePack     = kind{name: "a pack of rules", fix: "pass it with --rules", alien: true}
)

// packHead matches the beginning of a pack of rules.
var packHead = lazyre.New(`\A(?:#[^\n]*\n|---[^\n]*\n|\s*\n)*pack: *(?:\{ *(?:name|version):|\r?\n +(?:name|version):)`)

// judge returns the kind of an input from its first bytes; false means lines of
// text.
func judge(head []byte) (kind, bool) {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) && plausible(m.magic, head) {
			return m.kind, true
		}
	}
	switch {
	case isTar(head):
		return tarred, true
	case packHead.Match(head):
		return rulePack, true
	case envelope.IsWide(head):
		return kind{}, false
	case isBinary(head):
		return binary, true
	}
	return kind{}, false
}

// plausible reports whether an input is really of the kind of a magic that could
// also begin a line of text.
func plausible(magic string, head []byte) bool {
	rest := head[len(magic):]
	switch magic {
	case "BZh":
		return len(rest) > 6 && rest[0] >= '1' && rest[0] <= '9' && string(rest[1:5]) == "1AY&"
	case "070707": // odc continues with 70 octal digits
		return len(rest) > 70 && strings.Trim(string(rest[:70]), "01234567") == ""
	case "070701", "070702":
		return len(rest) > 104 && strings.Trim(string(rest[:104]), "0123456789abcdefABCDEF") == ""
	case "MZ", "RIFF", "LZIP", "hsqs", "MSCF":
		return isBinary(rest)
	}
	return true
}

// isTar reports whether a block is the header of a tar archive: its checksum must
// match its bytes.
func isTar(head []byte) bool {
	const from, to = 148, 156 // range of the checksum
	if len(head) < headSize || head[0] == 0 {
		return false
	}
	stated, err := strconv.ParseUint(strings.Trim(string(head[from:to]), " \x00"), 8, 32)
	if err != nil {
		return false
	}
	sum := uint64((to - from) * ' ')
	for i, b := range head[:headSize] {
		if i < from || i >= to {
			sum += uint64(b)
		}
	}
	return sum == stated
}

var withoutSpace = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "")

// isDocument detects JSON that is a single value instead of one entry per line: an
// array of objects, an object over several lines, or Loki's answer to a query.
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

// isBinary detects bytes that no text contains. Blocks of NULs are ignored: a power failure
// can leave them. A few bytes of another character set are allowed.
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

// Error names the kind of the input and the fix.
func (e *unreadableError) Error() string {
	if e.kind.fix == "" {
		return "is " + e.kind.name + ", not a log"
	}
	return fmt.Sprintf("is %s, not log lines; %s", e.kind.name, e.kind.fix)
}
