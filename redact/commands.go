package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

// commandReader reads flags and commands whose arguments are secrets.
type commandReader struct {
	valueReader
	toolRead int // end of the text searched for programs
	toolName string
	toolAt   int
}

// tools lists the programs that accept a secret with a one-letter flag: the letters
// whose value is the next word, those whose value follows without a space, and those
// of user%password or user,password.
var tools = map[string]struct{ spaced, glued, user string }{
	"ipmitool": {spaced: "Pk"}, "ipmi-chassis": {spaced: "p"}, "ipmipower": {spaced: "p"}, "racadm": {spaced: "p"}, "hponcfg": {spaced: "p"},
	"mysql": {glued: "p"}, "mysqldump": {glued: "p"}, "mysqladmin": {glued: "p"}, "mariadb": {glued: "p"}, "mariadb-dump": {glued: "p"},
	"mongo": {spaced: "p"}, "mongosh": {spaced: "p"}, "mongodump": {spaced: "p"}, "mongorestore": {spaced: "p"}, "mongoexport": {spaced: "p"},
	"redis-cli": {spaced: "a"}, "valkey-cli": {spaced: "a"}, "sqlcmd": {spaced: "P", glued: "P"}, "bcp": {spaced: "P", glued: "P"},
	"tsql": {spaced: "P"}, "cqlsh": {spaced: "p"}, "nodetool": {glued: "p", spaced: "p"}, "cypher-shell": {spaced: "p"},
	"sshpass": {spaced: "p", glued: "p"}, "login": {spaced: "p"}, "crane": {spaced: "p"}, "sendxmpp": {spaced: "p"},
	"ldapsearch": {spaced: "w"}, "ldapmodify": {spaced: "w"}, "ldapadd": {spaced: "w"}, "ldapdelete": {spaced: "w"}, "ldapwhoami": {spaced: "w"},
	"ldappasswd": {spaced: "wsa"}, "ipa-client-install": {spaced: "w"}, "ipa-server-install": {spaced: "pa"}, "ipa-replica-install": {spaced: "w"},
	"zip": {spaced: "P", glued: "P"}, "unzip": {spaced: "P", glued: "P"}, "7z": {glued: "p"}, "7za": {glued: "p"}, "7zz": {glued: "p"},
	"smbclient": {user: "U"}, "rpcclient": {user: "U"}, "net": {user: "U"}, "winexe": {user: "U"}, "smbget": {user: "U"}, "lftp": {user: "u"},
	"ssh-keygen": {spaced: "NP"}, "openssl": {spaced: "kK"}, "winrs": {spaced: "p", glued: "p"}, "useradd": {spaced: "p"}, "usermod": {spaced: "p"},
	"mosquitto_pub": {spaced: "P"}, "mosquitto_sub": {spaced: "P"}, "rdesktop": {spaced: "p"}, "ncftp": {spaced: "p"}, "twine": {spaced: "p"},
	"snmpwalk": {spaced: "cAX"}, "snmpget": {spaced: "cAX"}, "snmpset": {spaced: "cAX"}, "snmpgetnext": {spaced: "cAX"}, "snmptrap": {spaced: "cAX"},
	"snmpbulkwalk": {spaced: "cAX"}, "snmpbulkget": {spaced: "cAX"}, "snmptable": {spaced: "cAX"}, "snmpinform": {spaced: "cAX"},
	"curl": {user: "uU"}, "http": {user: "a"}, "https": {user: "a"},
	"knife": {spaced: "P"}, "asadm": {spaced: "P", glued: "P"}, "vsql": {spaced: "w"},
	"iscsiadm": {spaced: "v"}, "kadmin": {spaced: "w"}, "stress-auth": {spaced: "p"}, "xfreerdp": {glued: "p"}, "svcpass": {spaced: "p"},
}

// toolWindow is how far before a flag its program is looked for.
const toolWindow = 256

// tool returns the program whose flags are at i, or "". It reads each byte once and
// remembers the last program.
func (t *commandReader) tool(i int) string {
	for at := max(t.toolRead, i-toolWindow); at < i; {
		from := at
		if at = t.runUpTo(at, i-at, isWordByte); at == from {
			if c := t.s[at]; c == '|' || c == ';' || c == '\n' {
				t.toolName = ""
			}
			at++
		} else if word := t.s[from:at]; len(word) <= 20 {
			if _, found := tools[word]; found {
				t.toolName, t.toolAt = word, from
			}
		}
	}
	t.toolRead = max(t.toolRead, i)
	if t.toolAt < i-toolWindow {
		return ""
	}
	return t.toolName
}

// shortFlag finds the secret of a flag of one letter, such as -P x and -px. The
// letter is at i.
func (t *commandReader) shortFlag(i, to int) span {
	letter := t.s[i]
	if strings.IndexByte("pPkKwsaAXNUucv", letter) < 0 {
		return span{}
	}
	tool, found := tools[t.tool(i-1)]
	has := func(letters string) bool { return strings.IndexByte(letters, letter) >= 0 }
	switch before := t.before(i, 64); {
	case found:
	case has("pP") && (strings.Contains(before, " -u ") || strings.Contains(before, " -U ")):
		if isDigit(t.byteAt(to+1)) && smallNumber().MatchString(t.s[to+1:t.run(to+1, isDotted)]) {
			return span{} // a port
		}
		tool.spaced = "pP"
	default:
		return span{}
	}
	if to > i+1 {
		switch {
		case t.s[i-2] == '-':
			return span{}
		case has(tool.user):
			return t.userPassword(t.unquoted(i + 1))
		case !has(tool.glued):
			return span{}
		case t.s[i+1] == ':':
			return t.unquoted(i + 2)
		}
		return t.unquoted(i + 1)
	}
	if letter == 'p' && tool.glued == "p" && t.byteAt(to) == ':' {
		return t.unquoted(to + 1)
	}
	if p := t.quotedAt(to); has(tool.glued) && !p.empty() { // -p'x'
		return p
	}
	at, found := t.afterFlag(to)
	switch {
	case !found || t.s[at] == '-', letter == 'v' && !strings.Contains(t.before(i, 40), "password"):
	case has(tool.user):
		p := span{at, t.run(at, func(c byte) bool { return !isSpace(c) && !isQuote(c) })}
		if cut := strings.IndexAny(t.of(p), "%,:"); cut >= 0 {
			return span{p.from + cut + 1, p.to}
		}
	case has(tool.spaced):
		return t.value(value{key: key{from: i, to: to, class: keys.Strong}, sep: '=', at: at})
	}
	return span{}
}

// operand says where the secret of a command is: how many words are before it, whether
// one of them must be the name of a secret, and whether it is user:password.
type operand struct {
	skip             int
	announced, login bool
}

// positional lists commands and statements that are followed by a secret.
var positional = map[string]operand{
	"vault login ": {}, "vault operator unseal ": {}, "vault unseal ": {}, "microk8s join ": {}, "authtoken.secret ": {}, "SSWS ": {}, "ngrok authtoken ": {}, "add-authtoken ": {},
	"add_user ": {skip: 1}, "change_password ": {skip: 1}, "htpasswd ": {skip: 2}, "mc alias set ": {skip: 3}, "mc config host add ": {skip: 3},
	"net use ": {}, "net user ": {skip: 1}, "wpa_passphrase ": {skip: 1}, "set_password vnc ": {}, "ConvertTo-SecureString ": {},
	"configure set ": {skip: 1, announced: true}, "config set ": {skip: 1, announced: true}, "git config ": {skip: 1, announced: true},
	"IDENTIFIED BY ": {}, "identified by ": {}, "requirepass ": {}, "masterauth ": {}, "rfc4106(gcm(aes)) ": {}, "bindpw ": {}, "rootpw ": {},
	"addauth digest ": {login: true}, "insecure-password ": {}, "snmp-server community ": {}, "stats auth ": {login: true}, "PSKsecrets ": {login: true}, "auth_pass ": {},
	"cloudflared service install ": {}, "tacacs-server key ": {}, "radius-server key ": {}, "enable secret ": {skip: 1}, "neighbor ": {skip: 1, announced: true},
	"PSK ": {}, "ldap_bind_pw ": {}, "authtoken ": {}, "--from-literal ": {}, "etcdctl user add ": {login: true}, "--base64 ": {},
}

// positional returns the word after a command that is its secret.
func (t *commandReader) positional(i int, what operand) span {
	announced := !what.announced
	for range what.skip + 4 {
		i = t.run(i, isBlank)
		if i >= len(t.s) || isSpace(t.s[i]) || t.s[i] == '|' {
			return span{}
		}
		p := t.word(i)
		text := t.of(p)
		switch {
		case strings.HasPrefix(text, "-"), strings.HasPrefix(text, `\\`), len(text) == 2 && text[1] == ':': // a flag, a share, a drive
		case what.skip > 0:
			what.skip--
			announced = announced || t.table.Classify(text) >= keys.Weak
		case !announced && t.run(p.from, isKeyByte) == p.to && t.table.Classify(text) >= keys.Weak:
			announced = true
		case !announced || isWord(text) || len(text) < 4 || text == Mask:
			return span{}
		case what.login:
			return afterColon(&t.input, p)
		default:
			return p
		}
		i = p.to
		if isQuote(t.byteAt(i)) {
			i++
		}
	}
	return span{}
}

// afterColon returns the password of user:password, or p if it has no colon.
func afterColon(t *input, p span) span {
	if cut := strings.IndexByte(t.of(p), ':'); cut > 0 && p.from+cut+1 < p.to {
		p.from += cut + 1
	}
	return p
}

// sinks are texts of commands that read a secret from a pipe.
var sinks = []string{
	"stdin", "sudo -S", "kinit", "cryptsetup", "chpasswd", "passphrase-fd", "realm ", "wg ", "smbpasswd", "vncpasswd", "-pass", "private-key", "luks",
}

// echoed finds the secret that a command line pipes into a program.
func (t *scanner) echoed(i int) span {
	for strings.HasPrefix(t.s[i:], "-n ") || strings.HasPrefix(t.s[i:], "-e ") {
		i += len("-n ")
	}
	if i >= len(t.s) {
		return span{}
	}
	p := t.word(i)
	rest := t.from(p.to, 160)
	if to := strings.TrimLeft(rest, `"'\ `); strings.HasPrefix(to, ">") { // a file with the name of a secret
		to = strings.TrimLeft(to, "> ")
		if cut := strings.IndexAny(to, " \"'\\\n;"); cut >= 0 {
			to = to[:cut]
		}
		if t.table.Classify(to) >= keys.Weak {
			return p
		}
		return span{}
	}
	pipe := strings.IndexByte(rest, '|')
	if pipe < 0 || pipe > 40 {
		return span{}
	}
	for _, sink := range sinks {
		if strings.Contains(rest[pipe:], sink) {
			if sink == "chpasswd" {
				return afterColon(&t.input, p)
			}
			return p
		}
	}
	return span{}
}

// authCommand finds AUTH x and AUTH user x of Redis and SMTP, after AUTH, also in quotes.
func authCommand(t *input, i int) span {
	i = t.runUpTo(i, 8, func(c byte) bool { return isQuote(c) || c == '\\' })
	if !isBlank(t.byteAt(i)) || i+1 >= len(t.s) {
		return span{}
	}
	p := t.word(i + 1)
	for range 2 {
		switch t.of(p) {
		case "default", "PLAIN", "LOGIN", "XOAUTH2", "response":
			at := t.runUpTo(p.to, 8, func(c byte) bool { return isQuote(c) || c == '\\' })
			if !isBlank(t.byteAt(at)) || at+1 == len(t.s) {
				return span{}
			}
			p = t.word(at + 1)
		}
	}
	text := t.of(p)
	if len(text) < 4 || isWord(text) || strings.Trim(text, capitals+"-_5") == "" || isNotSet(text) {
		return span{}
	}
	return p
}
