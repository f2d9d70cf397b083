package redact

import "strings"

// Lengths of words that are judged by their looks.
const (
	leastAnnounced = 16 // where a word before says what it is
	leastRandom    = 24 // where nothing does
	leastHex       = 32
	leastPlain     = 20 // of letters of one case and digits
	leastPiece     = 4  // of a word, between signs
)

// Sorts of bytes of a word, and what else is known of them.
const (
	sortUpper uint8 = 1 << iota
	sortLower
	sortDigit
	markHex // small letters and digits
	markWord
	markOther  // a letter beyond f
	markXDigit // of either case
	sortMask   = sortUpper | sortLower | sortDigit
)

var (
	sorts = newSorts()
	// weights are what a byte adds to the four counts of a shape, 16 bits each.
	weights = [16]uint64{
		sortUpper: 1, sortLower: 1 << 16, sortDigit: 1 << 32,
		sortLower | markHex: 1<<16 | 1<<48, sortDigit | markHex: 1<<32 | 1<<48,
	}
	changes = [64]uint8{sortUpper<<3 | sortDigit: 1, sortLower<<3 | sortUpper: 1, sortLower<<3 | sortDigit: 1, sortDigit<<3 | sortUpper: 1, sortDigit<<3 | sortLower: 1}
)

func newSorts() (sorts [256]uint8) {
	for i := range sorts {
		c := byte(i)
		switch {
		case isUpper(c):
			sorts[i] = sortUpper | markWord
			if c <= 'F' {
				sorts[i] |= markXDigit
			}
		case isLower(c) && c <= 'f':
			sorts[i] = sortLower | markWord | markHex | markXDigit
		case isLower(c):
			sorts[i] = sortLower | markWord | markOther
		case isDigit(c):
			sorts[i] = sortDigit | markWord | markHex | markXDigit
		case strings.IndexByte("+/_-", c) >= 0:
			sorts[i] = markWord
		}
	}
	return sorts
}

func inWord(c byte) bool { return sorts[c]&markWord != 0 }

// hideWords hides words that are base64 of a text with a secret, and words that
// look random: upper-case and lower-case letters mixed with digits. It hides
// hexadecimal digests, uuids and shorter words only if the text before them
// announces a secret. Outside of long words it reads only every 16th byte.
func (sc *scanner) hideWords(s string) string {
	var out strings.Builder
	kept := 0
	for i := 0; i+leastAnnounced <= len(s); {
		j, seen := i+leastAnnounced-1, uint8(0)
		for j >= i && inWord(s[j]) {
			seen |= sorts[s[j]]
			j--
		}
		if j >= i {
			i = j + 1
			continue
		}
		end := i + leastAnnounced
		for end < len(s) && inWord(s[end]) {
			seen |= sorts[s[end]]
			end++
		}
		sc.steps += end - i
		from, to := 0, 0
		mixed := seen&(sortUpper|sortLower) == sortUpper|sortLower
		if mixed || seen&sortDigit != 0 && end-i >= leastPlain {
			from, to = sc.secretWord(s, i, end)
		}
		if to > from {
			from, to = widen(s, from, to)
			from = max(from, kept)
			out.WriteString(s[kept:from])
			out.WriteString(Mask)
			kept = to
		}
		i = max(end, to)
	}
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

// widen takes the neighbours of a random word that belong to it: after a dot and
// the like all, before it those that are no words.
func widen(s string, from, to int) (int, int) {
	for to < len(s) && s[to] == '=' {
		to++
	}
	for n := 0; n < 3 && to+1 < len(s) && strings.IndexByte(".!:~", s[to]) >= 0 && isAlnum(s[to+1]); n++ {
		for to++; to < len(s) && inWord(s[to]); {
			to++
		}
	}
	for n := 0; n < 3 && from > 1 && strings.IndexByte(".!:~", s[from-1]) >= 0; n++ {
		at := from - 1
		for at > 0 && from-at < maxKey && inWord(s[at-1]) {
			at--
		}
		if sh := shapeOf(s[at : from-1]); (sh.digit == 0 || sh.upper == 0) && (sh.upper < 2 || sh.lower < 2) {
			break
		}
		from = at
	}
	return from, to
}

// secretWord returns the part of the word s[from:to] that is a secret, or none.
func (sc *scanner) secretWord(s string, from, to int) (int, int) {
	before := s[max(0, from-64):from]
	if isUUID(s[from:to]) {
		if announces(before, true) {
			return from, to
		}
		return 0, 0
	}
	whole := shapeOf(s[from:to])
	if !whole.suspect() {
		return 0, 0
	}
	if whole.upper > 0 && whole.lower > 0 && sc.isCodedSecret(s[from:to]) {
		return from, to
	}
	isSecret := func(sh shape) bool {
		return sh.isSecret(true) && (sh.isSecret(false) || announces(before, false) || dotted(s, from, to, whole))
	}
	if isSecret(whole) {
		if isHarmless(before, s[from:to]) {
			return 0, 0
		}
		return from, to
	}
	least := leastPiece
	if whole.upper < 2 || whole.lower < 2 {
		least = leastPlain
	}
	for at := from; at < to; { // pieces between slashes and signs
		end := at
		for end < to && isAlnum(s[end]) {
			end++
		}
		if end-at < least {
			at = end + 1
			continue
		}
		behindName := end-at >= leastHex && at > from+1 && s[at-1] == '_'
		if p := shapeOf(s[at:end]); isSecret(p) || behindName && (p.hex == p.length || p.isSecret(true)) {
			if isHarmless(before, s[at:end]) {
				return 0, 0
			}
			return at, to
		}
		at = end + 1
	}
	return 0, 0
}

// dotted reports whether a word that looks random is followed by a dot and another
// long one, or stands after a long number and a colon, as parts of a token do.
func dotted(s string, from, to int, sh shape) bool {
	if to < len(s) && s[to] == '.' && sh.upper > 1 && sh.lower > 1 && (sh.digit > 0 || sh.changes*4 > sh.length) {
		end := to + 1
		for end < len(s) && isWordByte(s[end]) {
			end++
		}
		return end-to > leastAnnounced && strings.ContainsAny(s[to:end], "0123456789")
	}
	n := 2
	for n <= from && s[from-1] == ':' && isDigit(s[from-n]) {
		n++
	}
	return n > 12
}

// shape counts what a word is made of.
type shape struct {
	length, upper, lower, digit, hex int
	beyondHex                        bool
	changes                          int // of the sort of character, but for that of Word
}

func shapeOf(s string) shape {
	sh := shape{length: len(s)}
	other, last := uint8(0), uint8(0)
	for len(s) > 0 {
		n := min(len(s), 1<<15) // what fits into a quarter of the sum
		sum := uint64(0)
		for i := range n {
			sort := sorts[s[i]]
			sum += weights[sort&(sortMask|markHex)]
			other |= sort
			sh.changes += int(changes[last<<3|sort&sortMask])
			last = sort & sortMask
		}
		s = s[n:]
		sh.upper += int(sum & 0xffff)
		sh.lower += int(sum >> 16 & 0xffff)
		sh.digit += int(sum >> 32 & 0xffff)
		sh.hex += int(sum >> 48)
	}
	sh.beyondHex = other&markOther != 0
	return sh
}

// suspect is a fast filter that rules out words and names.
func (sh shape) suspect() bool { return sh.digit > 0 || sh.upper > 2 && sh.lower > 2 }

// isSecret judges a word. Of 100 neighbours in random text of letters of both
// cases and digits some 45 change the sort, in names less than 20.
func (sh shape) isSecret(announced bool) bool {
	least := 27
	switch {
	case sh.length >= 40:
		least = 21
	case sh.length > leastHex:
		least = 24
	}
	mixed := sh.upper >= 2 && sh.lower >= 2 && sh.changes*100 >= sh.length*least
	letters := sh.upper + sh.lower + sh.digit
	leastSmall := 22
	if letters == sh.length && letters >= 40 {
		leastSmall = 16
	}
	small := sh.upper == 0 && sh.beyondHex && sh.digit*100 >= sh.length*10 && sh.changes*100 >= sh.length*leastSmall
	hex := sh.hex == sh.length && sh.length >= leastHex
	if announced {
		mixed = sh.upper >= 2 && sh.lower >= 2 && (sh.changes*100 >= sh.length*18 || sh.length >= leastPlain && sh.upper*10 >= sh.length*3 || sh.digit > 0 && sh.changes*100 >= sh.length*12)
		return mixed || hex || sh.length >= leastPlain && (small || sh.lower == 0 && sh.upper > 3 && sh.digit > 2)
	}
	return mixed && letters >= leastRandom && sh.digit > 0 || mixed && letters >= 30 ||
		small && letters >= 40 && letters == sh.length
}

func isUUID(s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	hex := 0
	for i := range len(s) {
		hex += int(sorts[s[i]] & markXDigit)
	}
	return hex == (36-4)*int(markXDigit)
}

// Words before a random word, in lower case. An announcement says that it is a
// secret, a link may stand between the two, and what is harmless says that it is
// none.
var (
	announcements = words(`password passwd passphrase pass pw pwd bot token secret secrets credential credentials cookie psk seed mnemonic
		nkey privkey authkey apikey bearer session sessionid session_id authtoken jwt pat dsn otp passcode`)
	links = words(`is was of for value expected got want invalid new wrong bad id expired given mismatch with and code the a an as to`)
	keyOf = words(`api access secret private encryption shared aes hmac signing license account master root session auth authentication client
		ssh deploy host setup enrollment registration pre-shared preshared decryption data service integration routing ingestion storage acr bedrock recovery unseal static`)
	withID   = words("host request cluster node topic")
	harmless = words(`fingerprint digest checksum hash sha1 sha256 sha512 sha384 md5 public pub publickey public_key pubkey etag peer kid
		ssh-rsa ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521 message continue hostid host_id requestid request_id
		cluster_id clusterid topicid topic_id traceid trace_id correlationid uid nonce integrity pin-sha256 cabundle certificate cert crt`)
)

// announces reports whether the end of text says that a secret follows. A uuid
// must follow the word itself.
func announces(text string, uuid bool) bool {
	for range 4 {
		word, rest := lastWordOf(text)
		switch w := word.String(); {
		case uuid:
			return w == "token" || w == "secret" || w == "password" || w == "apikey" || w == "credential" || w == "" && endsWithMask(text)
		case w == "":
			return endsWithMask(text)
		case announcements[w], strings.HasSuffix(w, "_token"), strings.HasSuffix(w, "_secret"), strings.HasSuffix(w, "_key"):
			return true
		case w == "key":
			before, _ := lastWordOf(rest)
			return keyOf[before.String()]
		case w == "code":
			before, _ := lastWordOf(rest)
			return before.String() == "authorization" || before.String() == "auth"
		case !links[w] && !strings.HasSuffix(strings.TrimRight(rest, "\"'\\ "), "{"):
			return false
		}
		text = rest
	}
	return false
}

func endsWithMask(text string) bool {
	return strings.HasSuffix(strings.TrimRight(text, ` "'\:=(`), Mask)
}

// foldedWord is a word in lower case that needs no memory of its own.
type foldedWord struct {
	letters [24]byte
	n       int
}

// String returns the word, or "" if it is longer than any that is known.
func (w *foldedWord) String() string { return string(w.letters[:w.n]) }

// lastWordOf returns the last word of a text and what is before it.
func lastWordOf(text string) (word foldedWord, rest string) {
	to := len(text)
	for to > 0 && strings.IndexByte(" \t\"'`\\:=([{,", text[to-1]) >= 0 {
		to--
	}
	from := to
	for from > 0 && (isAlnum(text[from-1]) || text[from-1] == '_' || text[from-1] == '-') {
		from--
	}
	if from < to && to-from <= len(word.letters) {
		for i := from; i < to; i++ {
			word.letters[i-from] = text[i]
			if isUpper(text[i]) {
				word.letters[i-from] |= 0x20
			}
		}
		word.n = to - from
	}
	return word, text[:from]
}

// isHarmless reports whether the random word after a text is public: a fingerprint,
// the key of the other side, a certificate, or coded text, into which the scanner
// of codings has looked.
func isHarmless(before, word string) bool {
	last, rest := lastWordOf(before)
	if harmless[last.String()] {
		return true
	}
	second, _ := lastWordOf(rest)
	switch last.String() {
	case "id":
		return withID[second.String()]
	case "key":
		return second.String() == "public"
	}
	if strings.HasPrefix(word, "MII") && len(word) > 7 && word[5:7] == "CC" || strings.HasPrefix(word, "AAAA") && strings.Contains(before, "ssh-") {
		return true
	}
	if strings.HasPrefix(word, "sha512-") || strings.HasPrefix(word, "sha384-") || strings.HasPrefix(word, "sha256-") {
		return true
	}
	_, text := decodeBase64(word)
	return text
}
