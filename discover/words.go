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
	"killed": grave, "crash": grave, "crashed": grave, "crashes": grave, "crashing": grave, "crashloopbackoff": grave,
	"lost": grave, "has expired": grave, "is expired": grave, "data loss": grave, "split brain": grave, "no quorum": grave,
	"forbidden": grave, "unauthorized": grave, "denied": grave, "out of": grave, "no space": grave, "space exceeded": grave,
	"nospace": grave, "x509": grave, "gave up": grave, "exit status": grave, "exit code": grave, "giving up": grave, "exhausted": grave,
	"manual intervention": grave, "outage": grave,

	"error": ordinary, "errors": ordinary, "errored": ordinary, "err": ordinary, "fail": ordinary, "fails": ordinary,
	"failed": ordinary, "failing": ordinary, "failure": ordinary, "failures": ordinary, "cannot": ordinary, "can't": ordinary,
	"can not": ordinary, "could not": ordinary, "couldn't": ordinary, "unable": ordinary, "refused": ordinary,
	"timed out": ordinary, "deadline exceeded": ordinary, "invalid": ordinary, "unreachable": ordinary,
	"unavailable": ordinary, "rejected": ordinary, "aborted": ordinary, "aborting": ordinary, "not found": ordinary,
	"no such": ordinary, "no matches": ordinary, "unhealthy": ordinary, "broken": ordinary, "exception": ordinary,
	"mismatch": ordinary, "not equal": ordinary, "stuck": ordinary, "unexpected": ordinary, "not allowed": ordinary,
	"not permitted": ordinary, "insufficient": ordinary, "violates": ordinary, "violate": ordinary, "overloaded": ordinary,
	"exited": ordinary, "not exist": ordinary, "doesn't exist": ordinary, "unschedulable": ordinary,
	"is down": ordinary, "are down": ordinary, "offline": ordinary, "not reachable": ordinary, "not responding": ordinary,
	"unresponsive": ordinary, "hung": ordinary, "hangs": ordinary, "stalled": ordinary, "faulty": ordinary, "faulted": ordinary,
	"inconsistent": ordinary, "diverged": ordinary, "malformed": ordinary, "misconfigured": ordinary, "incompatible": ordinary,
	"overflow": ordinary, "leaked": ordinary, "leaking": ordinary, "not enough": ordinary, "not available": ordinary,
	"no available": ordinary, "no healthy": ordinary, "no endpoints": ordinary, "no leader": ordinary, "no free": ordinary,
	"no more": ordinary, "revoked": ordinary, "untrusted": ordinary, "not authorized": ordinary, "unauthenticated": ordinary,
	"authentication required": ordinary, "bad certificate": ordinary, "bad gateway": ordinary, "bad request": ordinary,
	"rate limited": ordinary, "many requests": ordinary, "needs remediation": ordinary, "disruption mode": ordinary,

	"retry": soft, "retrying": soft, "retries": soft, "backoff": soft, "throttling": soft, "throttled": soft, "slow": soft,
	"too long": soft, "too many": soft, "too large": soft, "too old": soft, "degraded": soft, "missing": soft, "skipping": soft,
	"conflict": soft, "does not": soft, "doesn't": soft, "did not": soft, "not ready": soft, "disabling": soft,
	"not completed": soft, "exceeded": soft, "stopped": soft, "terminated": soft, "orphan": soft, "disconnected": soft,
	"timeouts": soft, "timeout": soft, "expired": soft, "blocked": soft, "stale": soft, "dropped": soft, "dropping": soft,
	"discarded": soft, "discarding": soft, "lagging": soft, "overdue": soft, "interrupted": soft, "incomplete": soft,
	"preempted": soft, "evicted": soft, "unsupported": soft, "not supported": soft, "too few": soft, "not valid": soft,
	"not running": soft,
}

// patience is what words say of how a failure ends.
type patience uint8

const (
	// passing: it ends by itself, however often it comes.
	passing patience = 1 << iota
	// retries: the next try may work. It did not if the same is said for long.
	retries
	// waits: nothing has failed, something has not come yet. It may never come if
	// the same is said for long.
	waits
	// rests: what is waited for need not come. It takes back that something waits.
	rests
)

// patient are words of what usually ends by itself.
var patient = map[string]patience{
	"been modified": passing, "context canceled": passing, "too old": passing, "short watch": passing, "is deprecated": passing,
	"deprecated": passing, "optimistic": passing, "already exists": passing,

	"will retry": retries, "retrying": retries, "requeuing": retries, "requeueing": retries, "try again": retries,

	"waiting": waits, "wait for": waits, "waits for": waits, "still not": waits, "not ready": waits, "not completed": waits,

	"for next": rests, "before next": rests, "until next": rests, "for events": rests, "for changes": rests,
	"for signal": rests, "for signals": rests, "for work": rests, "for connections": rests, "for requests": rests,
	"for leadership": rests, "to become": rests, "for termination": rests, "for shutdown": rests,
}

// judgement is what the words of a text say.
type judgement struct {
	weight   weight
	patience patience
	softly   [4]byte // how the first soft word starts
}

// weigh takes a word that complains. Two soft ones of different kinds make an
// ordinary one: "not ready" may be said in passing, "not ready, timeout" is not.
func (j *judgement) weigh(word []byte, w weight) {
	if w == soft {
		var start [4]byte
		copy(start[:], word)
		switch j.softly {
		case [4]byte{}:
			j.softly = start
		case start:
		default:
			w = ordinary
		}
	}
	j.weight = max(j.weight, w)
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
		denied = string(word) == "no" || string(word) == "0" || string(word) == "without" || string(word) == "yet" || string(word) == "previous"
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
	if j.patience&rests != 0 {
		j.patience &^= rests | waits
	}
}

// add looks up a word, unless the one before it denies it, and both together: "no
// space" is a complaint.
func (j *judgement) add(word, both []byte, denied bool) {
	if !denied {
		j.weigh(word, complaints[string(word)])
		j.patience |= patient[string(word)]
	}
	if len(both) > len(word) {
		j.weigh(both, complaints[string(both)])
		j.patience |= patient[string(both)]
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
