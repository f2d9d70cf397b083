package redact

import (
	"regexp"
	"strings"
)

// tokenRule finds secrets by how they begin.
type tokenRule struct {
	prefix string
	in     func(byte) bool // bytes that may follow
	min    int             // so many of them at least
	// bound asks that no letter or digit stands before the prefix. Long prefixes
	// do without, so that nothing in front of a token can hide it.
	bound bool
	// place, if set, decides instead of in and min.
	place place
}

// place names a method that looks closer at what a prefix announces. It is no
// func value, so that the scanner stays on the stack.
type place uint8

const (
	placeNone place = iota
	placeOpenAI
	placeVault
	placeAzure
	placeTerraform
	placeCluster
	placeRobot
	placePEM
	placeRest
	placeDataSource
	placeSecretObject
	placeTelegram
	placeTwilio
	placeAWS
	placeScheme
	placePath
)

func (sc *scanner) place(r *tokenRule, i int) span {
	switch r.place {
	case placeOpenAI:
		return sc.openAIKey(i)
	case placeVault:
		return sc.vaultToken(i)
	case placeAzure:
		return sc.azureSecret(i)
	case placeTerraform:
		return sc.terraformToken(i)
	case placeCluster:
		return sc.clusterToken(i)
	case placeRobot:
		return sc.robotAccount(i)
	case placePEM:
		return sc.privateKey(i)
	case placeRest:
		return span{i, len(sc.s)}
	case placeDataSource:
		return sc.dataSource(i)
	case placeSecretObject:
		return sc.secretObject(i)
	case placeTelegram:
		return sc.telegramToken(i)
	case placeTwilio:
		return sc.twilioKey(i)
	case placeAWS:
		return sc.awsKeyID(i)
	case placeScheme:
		return sc.scheme(i)
	case placePath:
		return sc.pathBehind(i + len(r.prefix))
	}
	return span{}
}

// tokenTable finds the rules by the first bytes of their prefixes.
type tokenTable struct {
	pairs pairSet          // of the first two
	rules [256][]tokenRule // by the first
}

// pairSet is a set of pairs of bytes.
type pairSet [1 << 16 / 64]uint64

func (p *pairSet) has(a, b byte) bool {
	n := uint16(a)<<8 | uint16(b)
	return p[n/64]&(1<<(n%64)) != 0
}

func (p *pairSet) add(a, b byte) {
	n := uint16(a)<<8 | uint16(b)
	p[n/64] |= 1 << (n % 64)
}

func newTokenTable() tokenTable {
	var t tokenTable
	for _, r := range append(vendorTokens(), places()...) {
		first := r.prefix[0]
		t.rules[first] = append(t.rules[first], r)
		t.pairs.add(first, r.prefix[1])
	}
	return t
}

// token looks for a secret that begins at i, or that a place at i announces.
func (sc *scanner) token(i int) span {
	rules := sc.r.tokens.rules[sc.s[i]]
	for n := range rules {
		r := &rules[n]
		if !strings.HasPrefix(sc.s[i:], r.prefix) || r.bound && sc.afterWord(i) {
			continue
		}
		if r.place != placeNone {
			if p := sc.place(r, i); !p.empty() {
				return p
			}
			continue
		}
		end := sc.run(i+len(r.prefix), r.in)
		if end-i-len(r.prefix) >= r.min {
			return span{i, end}
		}
	}
	return span{}
}

// run returns the end of the bytes from i on that are in a set.
func (sc *scanner) run(i int, in func(byte) bool) int {
	for i < len(sc.s) && in(sc.s[i]) {
		i++
	}
	return i
}

func isWordByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }
func isDotted(c byte) bool   { return isWordByte(c) || c == '.' }
func isBase64(c byte) bool {
	return isAlnum(c) || c == '+' || c == '/' || c == '=' || c == '_' || c == '-'
}
func isHex(c byte) bool     { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
func isBase36(c byte) bool  { return isDigit(c) || isLower(c) }
func isEncoded(c byte) bool { return isBase64(c) || c == '.' || c == '%' }

// vendorTokens are the secrets whose makers gave them a form.
func vendorTokens() []tokenRule {
	var rules []tokenRule
	add := func(prefixes string, in func(byte) bool, least int, bound bool) {
		for _, p := range strings.Fields(prefixes) {
			rules = append(rules, tokenRule{prefix: p, in: in, min: least, bound: bound})
		}
	}
	add("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", isWordByte, 20, false)
	add("glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- glffct-", isDotted, 15, false)
	add("xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxe. xoxc- xoxd- xapp- xwfp-", isEncoded, 10, false)
	add("sk_live_ sk_test_ rk_live_ rk_test_ whsec_", isWordByte, 10, false)
	add("SG.", isDotted, 40, true)
	add("npm_", isAlnum, 30, false)
	add("pypi-", isWordByte, 50, false)
	add("dckr_pat_ dckr_oat_", isWordByte, 20, false)
	add("hvs. hvb. hvr.", isWordByte, 20, true)
	add("b.AAAA", isWordByte, 20, true)
	add("glsa_ glc_", isBase64, 30, false)
	add("dop_v1_ doo_v1_ dor_v1_", isAlnum, 40, false)
	add("hf_ api_org_", isAlnum, 30, true)
	add("AGE-SECRET-KEY-1 AGE-PLUGIN-", isWordByte, 20, false)
	add("AIza", isWordByte, 30, true)
	add("ya29. GOCSPX- 1//0", isDotted, 20, true)
	add("NRAK- NRII- NRJS- NRIQ- NRRA-", isAlnum, 15, true)
	add("HRKU-", isWordByte, 30, false)
	add("shpat_ shpca_ shppa_ shpss_", isHex, 30, false)
	add("PMAK- lin_api_ rubygems_ sntrys_ sntryu_ pscale_tkn_ pscale_pw_ nfp_ sbp_ tskey- CCIPAT_ bkua_ CLOJARS_ xkeysib- ATATT3 ATCTT3", isEncoded, 24, true)
	add("dp.pt. dp.st. dp.sa. pul-", isDotted, 36, true)
	add("dapi", isHex, 32, true)
	add("key-", isHex, 32, true)
	add("gAAAAA", isBase64, 60, true) // Fernet: OpenStack
	add("sha256~", isWordByte, 40, false)
	add("AKCp", isAlnum, 60, true)
	add("eyJ ewogI", isEncoded, 17, true) // JSON in base64: JWT, JWE and others
	add("LS0tLS1CRUdJTi b3BlbnNzaC1rZXktdjE", isBase64, 10, true)
	add("ops_eyJ", isEncoded, 20, true)
	add("v1.0-", func(c byte) bool { return isHex(c) || c == '-' }, 100, true) // Cloudflare origin CA
	add("sk-ant- sk-proj- sk-or-v1- sk-svcacct- sk-admin-", isWordByte, 16, true)
	return rules
}

// places are the rest: what needs a closer look.
func places() []tokenRule {
	rules := []tokenRule{
		{prefix: "sk-", bound: true, place: placeOpenAI},
		{prefix: "s.", bound: true, place: placeVault},
		{prefix: "Q~", place: placeAzure},
		{prefix: ".atlasv1.", place: placeTerraform},
		{prefix: "K10", bound: true, place: placeCluster},
		{prefix: "robot$", place: placeRobot},
		{prefix: "-----BEGIN ", place: placePEM},
		{prefix: "PuTTY-User-Key-File", place: placeRest},
		{prefix: "@tcp(", place: placeDataSource},
		{prefix: "@unix(", place: placeDataSource},
		{prefix: "data", place: placeSecretObject},
		{prefix: "Data", place: placeSecretObject},
		{prefix: ":AA", place: placeTelegram},
	}
	for _, p := range []string{"SK", "AC"} {
		rules = append(rules, tokenRule{prefix: p, bound: true, place: placeTwilio})
	}
	for _, p := range strings.Fields("AKIA ASIA ABIA ACCA AGPA AIDA AROA AIPA ANPA ANVA APKA") {
		rules = append(rules, tokenRule{prefix: p, bound: true, place: placeAWS})
	}
	for _, p := range strings.Fields("be Be BE ba Ba BA ge Ge GE") {
		rules = append(rules, tokenRule{prefix: p, place: placeScheme})
	}
	for _, p := range []string{
		"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/",
		"discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/", "outlook.office.com/webhook/",
		"api.telegram.org/bot", "events.pagerduty.com/integration/", "hooks.zapier.com/hooks/", "maker.ifttt.com/",
		"open.feishu.cn/open-apis/bot/", "open.larksuite.com/open-apis/bot/",
	} {
		rules = append(rules, tokenRule{prefix: p, place: placePath})
	}
	return rules
}

// openAIKey wants a capital letter or a long part, so that names of objects,
// which are in lower case, stay.
func (sc *scanner) openAIKey(i int) span {
	end := sc.run(i+3, isWordByte)
	text := sc.s[i+3 : end]
	if len(text) < 20 {
		return span{}
	}
	if len(text) > maxKnown {
		return span{i, end}
	}
	for part := range strings.SplitSeq(text, "-") {
		if len(part) >= 32 {
			return span{i, end}
		}
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		return span{i, end}
	}
	return span{}
}

// vaultToken finds s. and 24 letters or digits. The name of a method in a stack
// trace has no digit and is followed by a bracket.
func (sc *scanner) vaultToken(i int) span {
	end := sc.run(i+2, isAlnum)
	if end-i-2 != 24 || strings.IndexByte(".)/", sc.byteAt(i-1)) >= 0 && i > 0 {
		return span{}
	}
	if sc.byteAt(end) == '(' && !strings.ContainsAny(sc.s[i+2:end], "0123456789") {
		return span{}
	}
	return span{i, end}
}

// azureSecret finds the mark within a client secret: three characters and a
// digit before it, 31 to 34 behind it.
func (sc *scanner) azureSecret(i int) span {
	in := func(c byte) bool { return isDotted(c) || c == '~' }
	end := sc.run(i+2, in)
	if i < 4 || !isDigit(sc.s[i-1]) || end-i-2 < 30 {
		return span{}
	}
	from := i - 1
	for from > 0 && i-from < 4 && in(sc.s[from-1]) {
		from--
	}
	return span{from, end}
}

// terraformToken is a name, the mark .atlasv1. and the secret.
func (sc *scanner) terraformToken(i int) span {
	end := sc.run(i+len(".atlasv1."), isBase64)
	from := i
	for from > 0 && i-from < 20 && isAlnum(sc.s[from-1]) {
		from--
	}
	if end-i < 40 {
		return span{}
	}
	return span{from, end}
}

// clusterToken is the token with which nodes join k3s and RKE2: K10, a digest,
// two colons and credentials.
func (sc *scanner) clusterToken(i int) span {
	end := sc.run(i+3, isHex)
	if end-i-3 < 40 {
		return span{}
	}
	return span{i, sc.unquoted(end).to}
}

// robotAccount hides the secret of a Harbor robot account, not its name.
func (sc *scanner) robotAccount(i int) span {
	end := sc.run(i+len("robot$"), func(c byte) bool { return isDotted(c) || c == '+' || c == '$' })
	if sc.byteAt(end) != ':' {
		return span{}
	}
	at := end + 1
	for isBlank(sc.byteAt(at)) {
		at++
	}
	p := sc.unquoted(at)
	if at > end+1 && sc.r.isWord(sc.s[p.from:p.to]) {
		return span{}
	}
	return p
}

func (sc *scanner) twilioKey(i int) span {
	end := sc.run(i+2, isAlnum)
	if end-i != 34 || sc.run(i+2, isHex) != end {
		return span{}
	}
	return span{i, end}
}

// telegramToken is the number of a bot, a colon and 35 characters.
func (sc *scanner) telegramToken(i int) span {
	end := sc.run(i+1, isWordByte)
	if end-i-1 < 33 || i < 8 {
		return span{}
	}
	for j := i - 8; j < i; j++ {
		if !isDigit(sc.s[j]) {
			return span{}
		}
	}
	return span{i + 1, end}
}

func (sc *scanner) awsKeyID(i int) span {
	end := sc.run(i, isAlnum)
	if end-i != 20 || sc.run(i, func(c byte) bool { return isUpper(c) || isDigit(c) }) != end {
		return span{}
	}
	sc.awsID = true
	return span{i, end}
}

var secretOfAWS = regexp.MustCompile(`[A-Za-z0-9/+]{40,}`)

// hideKeysOfAWS hides the secret access key that has no mark of its own: 40
// characters beside an access key id.
func hideKeysOfAWS(s string) string {
	return secretOfAWS.ReplaceAllStringFunc(s, func(m string) string {
		if len(m) > 40 || !strings.ContainsAny(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return m
		}
		return Mask
	})
}
