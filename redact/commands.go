package redact

import (
	"strings"

	"crowsnest/redact/internal/keys"
)

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
func (sc *scanner) tool(i int) string {
	at := max(sc.toolRead, i-toolWindow)
	for at < i {
		c := sc.s[at]
		if c == '|' || c == ';' || c == '\n' {
			sc.toolName = ""
		}
		if !isToolByte(c) {
			at++
			continue
		}
		from := at
		for at < i && isToolByte(sc.s[at]) {
			at++
		}
		if word := sc.s[from:at]; len(word) <= 20 {
			if _, found := tools[word]; found {
				sc.toolName, sc.toolAt = word, from
			}
		}
	}
	sc.steps += max(0, i-sc.toolRead)
	sc.toolRead = max(sc.toolRead, i)
	if sc.toolAt < i-toolWindow {
		return ""
	}
	return sc.toolName
}

func isToolByte(c byte) bool { return isAlnum(c) || c == '-' || c == '_' }

// shortFlag finds the secret of a flag of one letter, such as -P x and -px. The
// letter is at i.
func (sc *scanner) shortFlag(i, to int) span {
	if strings.IndexByte("pPkKwsaAXNUucv", sc.s[i]) < 0 {
		return span{}
	}
	letter := sc.s[i]
	tool, found := tools[sc.tool(i-1)]
	switch before := sc.s[max(0, i-64):i]; {
	case found:
	case (letter == 'p' || letter == 'P') && (strings.Contains(before, " -u ") || strings.Contains(before, " -U ")):
		if isDigit(sc.byteAt(to+1)) && smallNumber().MatchString(sc.s[to+1:sc.run(to+1, isDotted)]) {
			return span{} // a port
		}
		tool.spaced = "pP"
	default:
		return span{}
	}
	if to > i+1 {
		if strings.IndexByte(tool.user, letter) >= 0 && sc.s[i-2] != '-' {
			return sc.userPassword(sc.unquoted(i + 1))
		}
		if strings.IndexByte(tool.glued, letter) < 0 || sc.s[i-2] == '-' {
			return span{}
		}
		at := i + 1
		if sc.s[at] == ':' {
			at++
		}
		return sc.unquoted(at)
	}
	if letter == 'p' && tool.glued == "p" && sc.byteAt(to) == ':' {
		return sc.unquoted(to + 1)
	}
	at, found := sc.afterFlag(to)
	if !found || sc.s[at] == '-' {
		return span{}
	}
	v := value{key: key{from: i, to: to, class: keys.Strong}, sep: '=', at: at}
	switch {
	case letter == 'v' && !strings.Contains(sc.s[max(0, i-40):i], "password"):
		return span{}
	case strings.IndexByte(tool.user, letter) >= 0:
		p := span{at, at}
		for p.to < len(sc.s) && !isSpace(sc.s[p.to]) && !isQuote(sc.s[p.to]) {
			p.to++
		}
		if cut := strings.IndexAny(sc.s[p.from:p.to], "%,:"); cut >= 0 {
			return span{p.from + cut + 1, p.to}
		}
	case strings.IndexByte(tool.spaced, letter) >= 0:
		return sc.value(v)
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
	"net use ": {skip: 1}, "net user ": {skip: 1}, "wpa_passphrase ": {skip: 1}, "set_password vnc ": {}, "ConvertTo-SecureString ": {},
	"configure set ": {skip: 1, announced: true}, "config set ": {skip: 1, announced: true}, "git config ": {skip: 1, announced: true},
	"IDENTIFIED BY ": {}, "identified by ": {}, "requirepass ": {}, "masterauth ": {}, "rfc4106(gcm(aes)) ": {}, "bindpw ": {}, "rootpw ": {},
	"addauth digest ": {login: true}, "insecure-password ": {}, "snmp-server community ": {}, "stats auth ": {login: true}, "PSKsecrets ": {login: true}, "auth_pass ": {},
	"cloudflared service install ": {}, "tacacs-server key ": {}, "radius-server key ": {}, "enable secret ": {skip: 1}, "neighbor ": {skip: 1, announced: true},
	"PSK ": {}, "ldap_bind_pw ": {}, "authtoken ": {}, "--from-literal ": {}, "etcdctl user add ": {login: true}, "--base64 ": {},
}

// positional returns the word after a command that is its secret.
func (sc *scanner) positional(i int, what operand) span {
	announced := !what.announced
	for range what.skip + 4 {
		for isBlank(sc.byteAt(i)) {
			i++
		}
		if i >= len(sc.s) || isSpace(sc.s[i]) || sc.s[i] == '|' {
			return span{}
		}
		p := sc.word(i)
		text := sc.s[p.from:p.to]
		switch {
		case strings.HasPrefix(text, "-"):
		case what.skip > 0:
			what.skip--
			announced = announced || sc.r.keys.Classify(text) >= keys.Weak
		case !announced && sc.run(p.from, isKeyByte) == p.to && sc.r.keys.Classify(text) >= keys.Weak:
			announced = true
		case !announced || sc.r.isWord(text) || len(text) < 4 || text == Mask:
			return span{}
		case what.login:
			return sc.behindColon(p)
		default:
			return p
		}
		i = p.to
		if isQuote(sc.byteAt(i)) {
			i++
		}
	}
	return span{}
}

// word returns the word at i, or the text of the quotes there.
func (sc *scanner) word(i int) span {
	n := 0
	for sc.byteAt(i+n) == '\\' {
		n++
	}
	if isQuote(sc.byteAt(i + n)) {
		return sc.quoted(i+n, n)
	}
	return sc.unquoted(i)
}

// behindColon returns the password of user:password.
func (sc *scanner) behindColon(p span) span {
	if cut := strings.IndexByte(sc.s[p.from:p.to], ':'); cut > 0 && p.from+cut+1 < p.to {
		p.from += cut + 1
	}
	return p
}

// sinks are texts in the program at the end of a pipe that reads a secret.
var sinks = []string{
	"stdin", "sudo -S", "kinit", "cryptsetup", "chpasswd", "passphrase-fd", "realm ", "wg ", "smbpasswd", "vncpasswd", "-pass", "private-key", "luks",
}

// echoed finds the secret that a command line pipes into a program.
func (sc *scanner) echoed(i int) span {
	for strings.HasPrefix(sc.s[i:min(len(sc.s), i+3)], "-n ") || strings.HasPrefix(sc.s[i:min(len(sc.s), i+3)], "-e ") {
		i += 3
	}
	if i >= len(sc.s) {
		return span{}
	}
	p := sc.word(i)
	rest := sc.s[p.to:min(len(sc.s), p.to+160)]
	pipe := strings.IndexByte(rest, '|')
	if pipe < 0 || pipe > 40 {
		return span{}
	}
	for _, sink := range sinks {
		if strings.Contains(rest[pipe:], sink) {
			if sink == "chpasswd" {
				return sc.behindColon(p)
			}
			return p
		}
	}
	return span{}
}

// authCommand finds AUTH x and AUTH user x of Redis and SMTP, after AUTH.
func (sc *scanner) authCommand(from int) span {
	p := sc.unquoted(from)
	text := sc.s[p.from:p.to]
	for range 2 {
		switch text {
		case "default", "PLAIN", "LOGIN", "XOAUTH2", "response":
			if !isBlank(sc.byteAt(p.to)) || p.to+1 == len(sc.s) {
				return span{}
			}
			p = sc.unquoted(p.to + 1)
			text = sc.s[p.from:p.to]
		}
	}
	if len(text) < 4 || sc.r.isWord(text) || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_5") == "" || isNotSet(text) {
		return span{}
	}
	return p
}
