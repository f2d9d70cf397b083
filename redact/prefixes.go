package redact

import (
	_ "embed"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed tokens.txt
var vendorList string

// tokenRules returns all rules.
func tokenRules() []tokenRule { return append(vendorTokens(), announcedSecrets()...) }

// vendorTokens returns the rules of tokens.txt.
func vendorTokens() []tokenRule {
	classes := map[string]func(byte) bool{
		"word": isWordByte, "dotted": isDotted, "encoded": isEncoded, "alnum": isAlnum, "base64": isBase64, "hex": isHex,
		"base32": func(c byte) bool { return isUpper(c) || c >= '2' && c <= '7' },
		"upper":  func(c byte) bool { return isUpper(c) || isDigit(c) },
		"dashed": func(c byte) bool { return isHex(c) || c == '-' },
		"dollar": func(c byte) bool { return isAlnum(c) || c == '$' },
	}
	var rules []tokenRule
	for row := range strings.Lines(vendorList) {
		f := strings.Fields(row)
		if len(f) < 4 || f[0] == "#" {
			continue
		}
		least, _ := strconv.Atoi(f[1])
		for _, prefix := range f[3:] {
			rules = append(rules, tokenRule{prefix: prefix, in: classes[f[0]], min: least, bound: f[2] == "start"})
		}
	}
	return rules
}

// announcedSecrets returns the rules for prefixes that a function examines.
func announcedSecrets() []tokenRule {
	rules := []tokenRule{{prefix: "SAMLResponse=", in: isEncoded, min: 20}}
	add := func(bound bool, in func(byte) bool, find finder, prefixes ...string) {
		for _, p := range prefixes {
			rules = append(rules, tokenRule{prefix: p, bound: bound, in: in, find: find})
		}
	}
	at := func(find func(t *input, i int) span, prefixes ...string) {
		add(false, nil, onInput(find), prefixes...)
	}
	wordAt := func(find func(t *input, i int) span, prefixes ...string) {
		add(true, nil, onInput(find), prefixes...)
	}
	scanBehind := func(bound bool, find func(sc *scanner, i int) span, prefixes ...string) {
		for _, p := range prefixes {
			add(bound, nil, func(sc *scanner, i int) span { return find(sc, i+len(p)) }, p)
		}
	}
	behind := func(bound bool, find func(t *input, i int) span, prefixes ...string) {
		scanBehind(bound, onInput(find), prefixes...)
	}
	wordAt(openAIKey, "sk-")
	wordAt(clusterToken, "K10")
	wordAt(resendKey, "re_")
	wordAt(personalToken, "pat")
	add(true, isAlnum, onInput(vaultToken), "s.")
	add(true, isHex, onInput(twilioKey), "SK", "AC")
	add(true, nil, awsKeyID, strings.Fields("AKIA ASIA ABIA ACCA AGPA AIDA AROA AIPA ANPA ANVA APKA")...)
	at(azureSecret, "Q~")
	at(terraformToken, ".atlasv1.")
	at(robotAccount, "robot$")
	at(privateKey, "-----BEGIN ", "---- BEGIN ")
	at(toEnd, "PuTTY-User-Key-File", "$ANSIBLE_VAULT", "chpasswd:")
	at(dataSource, "@tcp(", "@unix(")
	at(telegramToken, ":AA")
	at(oracleLogin, "@//", "jdbc:oracle:")
	at(hexBefore(len("NRAL")), "NRAL")
	at(hexBefore(len("-us")), "-us")
	at(scheme, strings.Fields("bea Bea BEA bas Bas BAS gen Gen GEN")...)
	at(passwordInProse, "passw", "Passw", "PASSW", "passphr", "Passphr", "credentials ")
	for _, w := range strings.Fields("pass secret token key psk pwd credential jwt otp seed salt communit dsn cookie") {
		add(false, nil, lookFrom, w, strings.ToUpper(w[:1])+w[1:], strings.ToUpper(w))
	}
	add(false, nil, lookFrom, "ction-str", "ction_str", "ctionStr", "CTION_STR", "_AUTH", "_auth", "pin_c", "pinC", "PIN_C", "PinC",
		"ess_sig", "ess-sig", "essSig", "ESS_SIG", "ery-code", "ery_code", "eryCode", "ERY_CODE", "masterau", "_pw", "-pw", "Pw", "_PW")
	for _, w := range [...]string{"pin code", "ery code"} {
		scanBehind(false, func(sc *scanner, i int) span { return lookFrom(sc, i-len("code")) }, w)
	}
	behind(true, secondArgument, "sp_addlogin ", "sp_password ")
	at(passwordHash, "$2a$", "$2b$", "$2y$", "$1$", "$5$", "$6$", "$9$", "$y$", "$apr1$", "$argon2", "$pbkdf2", "$scrypt$",
		"pbkdf2_sha256$", "SCRAM-SHA-", "{SSHA", "{SHA", "{CRYPT}", "{MD5}", "{SMD5}")
	add(false, nil, (*scanner).secretObject, "data", "Data")
	behind(false, rest, "map[string][]uint8{", "map[string][]byte{")
	behind(false, secondArgument, "UserPassword(", "BasicAuth(", "PasswordAuth(", ".auth(", "StaticCredentials(")
	behind(false, (*input).quotedAt, `" * `)
	behind(false, hook, "/hooks/")
	behind(true, authCommand, "AUTH")
	scanBehind(true, (*scanner).insertedValue, "VALUES (", "VALUES(", "values (", "values(")
	scanBehind(true, (*scanner).echoed, "echo ", "printf ")
	behind(true, pin, "PIN ")
	for _, first := range slices.Sorted(maps.Keys(positional)) {
		what := positional[first]
		add(true, nil, func(sc *scanner, i int) span { return sc.positional(i+len(first), what) }, first)
	}
	behind(false, secretPath,
		"hooks.slack.com/services/", "hooks.slack-gov.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/",
		"discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/", "outlook.office.com/webhook/",
		"api.telegram.org/bot", "events.pagerduty.com/integration/", "hooks.zapier.com/hooks/", "maker.ifttt.com/",
		"open.feishu.cn/open-apis/bot/", "open.larksuite.com/open-apis/bot/",
		"/v3/import/", "/api/v1/heartbeat/", "nosnch.in/", "hc-ping.com/", "collectors.sumologic.com/receiver/", "alert.victorops.com/integrations/", "api.squadcast.com/",
		"webexapis.com/v1/webhooks/incoming/", "api.opsgenie.com/v1/json/", "outlook.office365.com/webhook/",
	)
	return rules
}

// onInput returns a finder that needs only the text.
func onInput(find func(t *input, i int) span) finder {
	return func(sc *scanner, i int) span { return find(&sc.input, i) }
}
