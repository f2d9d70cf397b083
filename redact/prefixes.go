package redact

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed tokens.txt
var vendorList string

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

// places returns the rules for prefixes that a method examines.
func places() []tokenRule {
	rules := []tokenRule{
		{prefix: "sk-", bound: true, place: placeOpenAI},
		{prefix: "s.", bound: true, in: isAlnum, place: placeVault},
		{prefix: "Q~", place: placeAzure},
		{prefix: ".atlasv1.", place: placeTerraform},
		{prefix: "SK", bound: true, in: isHex, place: placeTwilio},
		{prefix: "AC", bound: true, in: isHex, place: placeTwilio},
		{prefix: "K10", bound: true, place: placeCluster},
		{prefix: "robot$", place: placeRobot},
		{prefix: "-----BEGIN ", place: placePEM},
		{prefix: "PuTTY-User-Key-File", place: placeRest},
		{prefix: "@tcp(", place: placeDataSource},
		{prefix: "@unix(", place: placeDataSource},
		{prefix: "data", place: placeSecretObject},
		{prefix: "Data", place: placeSecretObject},
		{prefix: "map[string][]uint8{", place: placeBytes},
		{prefix: "map[string][]byte{", place: placeBytes},
		{prefix: ":AA", place: placeTelegram},
		{prefix: "@//", place: placeOracle},
		{prefix: "jdbc:oracle:", place: placeOracle},
		{prefix: "AUTH ", bound: true, place: placeAuth},
		{prefix: "SAMLResponse=", in: isEncoded, min: 20},
		{prefix: "/hooks/", place: placeHook},
		{prefix: "---- BEGIN ", place: placePEM},
		{prefix: "$ANSIBLE_VAULT", place: placeRest},
		{prefix: "chpasswd:", place: placeRest},
		{prefix: "echo ", bound: true, place: placeEcho},
		{prefix: "printf ", bound: true, place: placeEcho},
		{prefix: `" * `, place: placeQuoted},
		{prefix: "NRAL", place: placeMark},
		{prefix: "re_", bound: true, place: placeResend},
		{prefix: "pat", bound: true, place: placePersonal},
		{prefix: "-us", place: placeMark},
		{prefix: "PIN ", bound: true, place: placePIN},
	}
	add := func(what place, bound bool, prefixes ...string) {
		for _, p := range prefixes {
			rules = append(rules, tokenRule{prefix: p, bound: bound, place: what})
		}
	}
	add(placeUserPassword, false, "UserPassword(", "BasicAuth(", "PasswordAuth(", ".auth(", "StaticCredentials(")
	add(placeAnnounced, false, "passw", "Passw", "PASSW", "passphr", "Passphr", "credentials ")
	add(placeHash, false, "$2a$", "$2b$", "$2y$", "$1$", "$5$", "$6$", "$9$", "$y$", "$apr1$", "$argon2", "$pbkdf2", "$scrypt$",
		"pbkdf2_sha256$", "SCRAM-SHA-", "{SSHA", "{SHA", "{CRYPT}", "{MD5}", "{SMD5}")
	for first := range positional {
		add(placePositional, true, first)
	}
	add(placeAWS, true, strings.Fields("AKIA ASIA ABIA ACCA AGPA AIDA AROA AIPA ANPA ANVA APKA")...)
	add(placeScheme, false, strings.Fields("bea Bea BEA bas Bas BAS gen Gen GEN")...)
	add(placePath, false,
		"hooks.slack.com/services/", "hooks.slack-gov.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/",
		"discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "webhook.office.com/", "outlook.office.com/webhook/",
		"api.telegram.org/bot", "events.pagerduty.com/integration/", "hooks.zapier.com/hooks/", "maker.ifttt.com/",
		"open.feishu.cn/open-apis/bot/", "open.larksuite.com/open-apis/bot/",
		"/v3/import/", "/api/v1/heartbeat/", "nosnch.in/", "hc-ping.com/", "collectors.sumologic.com/receiver/", "alert.victorops.com/integrations/", "api.squadcast.com/",
		"webexapis.com/v1/webhooks/incoming/", "api.opsgenie.com/v1/json/", "outlook.office365.com/webhook/",
	)
	return rules
}
