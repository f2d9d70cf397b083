package discover

// weight is how serious a word is: 0 is none.
type weight int8

// The weights of words. A soft word only makes a line worth a look.
const (
	soft     weight = 1
	ordinary weight = 2
	grave    weight = 3
)

// complaints are words that tell of a failure, whatever the level of their line
// is: vcluster writes the errors of its children as info, etcd says at info that
// it has lost its leader. Two words are looked up with a space between them.
var complaints = map[string]weight{
	"panic": grave, "panicked": grave, "panics": grave, "fatal": grave, "sigsegv": grave, "sigkill": grave, "segfault": grave,
	"corrupt": grave, "corrupted": grave, "corruption": grave, "deadlock": grave, "oom": grave, "oomkilled": grave,
	"killed": grave, "crash": grave, "crashed": grave, "crashloopbackoff": grave, "lost": grave, "has expired": grave, "is expired": grave,
	"forbidden": grave, "unauthorized": grave, "denied": grave, "out of": grave, "no space": grave, "space exceeded": grave,
	"nospace": grave, "x509": grave, "gave up": grave, "exit status": grave, "exit code": grave, "giving up": grave, "exhausted": grave,

	"error": ordinary, "errors": ordinary, "errored": ordinary, "err": ordinary, "fail": ordinary, "fails": ordinary,
	"failed": ordinary, "failing": ordinary, "failure": ordinary, "failures": ordinary, "cannot": ordinary, "can't": ordinary,
	"can not": ordinary, "could not": ordinary, "couldn't": ordinary, "unable": ordinary, "refused": ordinary,
	"timed out": ordinary, "deadline exceeded": ordinary, "invalid": ordinary, "unreachable": ordinary,
	"unavailable": ordinary, "rejected": ordinary, "aborted": ordinary, "aborting": ordinary, "not found": ordinary,
	"no such": ordinary, "no matches": ordinary, "unhealthy": ordinary, "broken": ordinary, "exception": ordinary,
	"mismatch": ordinary, "not equal": ordinary, "stuck": ordinary, "unexpected": ordinary, "not allowed": ordinary,
	"not permitted": ordinary, "insufficient": ordinary, "violates": ordinary, "violate": ordinary, "overloaded": ordinary,
	"exited": ordinary, "not exist": ordinary, "doesn't exist": ordinary, "unschedulable": ordinary,

	"retry": soft, "retrying": soft, "retries": soft, "backoff": soft, "throttling": soft, "throttled": soft, "slow": soft,
	"too long": soft, "too many": soft, "too large": soft, "too old": soft, "degraded": soft, "missing": soft, "skipping": soft,
	"conflict": soft, "does not": soft, "doesn't": soft, "did not": soft, "not ready": soft, "disabling": soft,
	"not completed": soft, "exceeded": soft, "stopped": soft, "terminated": soft, "orphan": soft, "disconnected": soft, "timeouts": soft, "timeout": soft, "expired": soft,
}

// passing are words of failures that usually end by themselves: the next try
// works, or what is waited for comes.
var passing = map[string]bool{
	"been modified": true, "will retry": true, "retrying": true, "requeuing": true, "requeueing": true, "throttling": true,
	"context canceled": true, "too old": true, "try again": true, "short watch": true, "is deprecated": true, "deprecated": true,
	"optimistic": true, "still waiting": true, "already exists": true,
}

// judgement is what the words of a text say.
type judgement struct {
	weight  weight
	passing bool
}

// longestWord bounds what is looked up.
const longestWord = 24

// judge looks at the words of a text. "no errors", "not yet expired",
// "error=<nil>" and "failed: 0" are no complaints.
func (j *judgement) judge(text []byte) {
	var buf [2*longestWord + 1]byte
	start, n, denied := 0, 0, false // the word before is buf[:start], and a space
	for i := 0; i <= len(text); i++ {
		// CrashLoopBackOff and NotFound are words too.
		camel := i > 0 && i < len(text) && n > 0 && upper(text[i]) && letter(text[i-1]) && !upper(text[i-1])
		if i < len(text) && wordByte(text, i) && !camel {
			if n < longestWord {
				buf[start+n] = lower(text[i])
				n++
			}
			continue
		}
		if n == 0 {
			continue
		}
		word, both := buf[start:start+n], buf[:start+n]
		if !naught(text[i:]) {
			j.add(word, both, denied)
		}
		denied = string(word) == "no" || string(word) == "0" || string(word) == "without" || string(word) == "yet"
		// This word is the one before the next, if nothing but a space is between.
		start = copy(buf[:], word)
		if n = 0; i < len(text) && (text[i] == ' ' || text[i] == '-' || camel) {
			buf[start] = ' '
			start++
		} else {
			start = 0
		}
		if camel {
			buf[start] = lower(text[i])
			n = 1
		}
	}
}

// add looks up a word, unless the one before it denies it, and both together: "no
// space" is a complaint.
func (j *judgement) add(word, both []byte, denied bool) {
	if !denied {
		j.weight = max(j.weight, complaints[string(word)])
		j.passing = j.passing || passing[string(word)]
	}
	if len(both) > len(word) {
		j.weight = max(j.weight, complaints[string(both)])
		j.passing = j.passing || passing[string(both)]
	}
}

// naught tells whether a text goes on with a value that says "nothing".
func naught(rest []byte) bool {
	if len(rest) < 2 || rest[0] != '=' && rest[0] != ':' {
		return false
	}
	rest = rest[1:]
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '"') {
		rest = rest[1:]
	}
	for _, v := range [...]string{"0", "<nil>", "nil", "null", "false", "none"} {
		if len(rest) >= len(v) && string(rest[:len(v)]) == v && (len(rest) == len(v) || !letterOrDigit(rest[len(v)]) && rest[len(v)] != '.' && rest[len(v)] != '/') {
			return true
		}
	}
	return false
}

// wordByte tells whether the byte at i belongs to a word: a letter, a digit, or an
// apostrophe between letters.
func wordByte(text []byte, i int) bool {
	if letterOrDigit(text[i]) {
		return true
	}
	return text[i] == '\'' && i > 0 && i+1 < len(text) && letter(text[i-1]) && letter(text[i+1])
}

func letter(c byte) bool        { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func digit(c byte) bool         { return '0' <= c && c <= '9' }
func letterOrDigit(c byte) bool { return letter(c) || digit(c) }
func upper(c byte) bool         { return 'A' <= c && c <= 'Z' }

func lower(c byte) byte {
	if upper(c) {
		return c | 0x20
	}
	return c
}
