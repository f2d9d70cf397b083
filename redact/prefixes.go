package redact

import "strings"

// vendorTokens are the secrets whose makers gave them a form.
func vendorTokens() []tokenRule {
	var rules []tokenRule
	add := func(prefixes string, in func(byte) bool, least int, bound bool) {
		for _, p := range strings.Fields(prefixes) {
			rules = append(rules, tokenRule{prefix: p, in: in, min: least, bound: bound})
		}
	}
	addPlatforms(add)
	addServices(add)
	return rules
}

// addTokens adds the tokens that begin with one of these prefixes and go on with at
// least so many bytes of a class. The ones that are bound start a word.
type addTokens func(prefixes string, in func(byte) bool, least int, bound bool)

// addPlatforms adds the tokens of forges, clouds and infrastructure.
func addPlatforms(add addTokens) {
	// Code, artifacts and their pipelines.
	add("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", isWordByte, 20, false)
	add("glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glsoat- glimt- glagent- glffct- gloas- glwt- GR1348941", isDotted, 15, false)
	add("ATBB ATATT3 ATCTT3", isEncoded, 24, false)
	add("squ_ sqp_ sqa_ sgp_ bkua_ bkct_ CCIPAT_ CCIPRJ_ fio-u- ico-", isWordByte, 30, true)
	add("npm_ oy2 cio", isAlnum, 30, true)
	add("pypi-", isWordByte, 50, false)
	add("rubygems_ CLOJARS_", isWordByte, 24, true)
	add("dckr_pat_ dckr_oat_", isWordByte, 20, false)
	add("AKCp cmVmd", isAlnum, 56, true)
	add("API-", func(c byte) bool { return isUpper(c) || isDigit(c) }, 25, true)
	add("SWMTKN-1-", isWordByte, 40, true)
	// Clouds.
	add("LTAI AKID AKLT", isAlnum, 16, true)
	add("ABSK", isBase64, 60, true)
	add("AIza", isWordByte, 30, true)
	add("ya29. GOCSPX- 1//0", isDotted, 20, true)
	add("GOOG1E", isAlnum, 40, true)
	add("dop_v1_ doo_v1_ dor_v1_", isAlnum, 40, false)
	add("SCW", func(c byte) bool { return isUpper(c) || isDigit(c) }, 17, true)
	add("EXO", isHex, 20, true)
	add("ucat_", isAlnum, 20, true)
	add("YCAJE YCP YCM", isWordByte, 20, true)
	add("y0_ y1_ y2_ y3_ t1.", isDotted, 50, true)
	add("k8s-aws-v1.", isWordByte, 20, true)
	add("HRKU-", isWordByte, 30, false)
	add("fm1r_ fm1a_ fm2_ fo1_", isBase64, 40, true)
	add("rnd_ nfp_ nfc_ nfo_ nfb_ nfu_", isAlnum, 24, true)
	add("gAAAAA", isBase64, 60, true)                                          // Fernet: OpenStack
	add("v1.0-", func(c byte) bool { return isHex(c) || c == '-' }, 100, true) // Cloudflare origin CA
	add("sl.", isWordByte, 60, true)
	// Keys and tokens of infrastructure.
	add("hvs. hvb. hvr.", isWordByte, 20, true)
	add("b.AAAA", isWordByte, 20, true)
	add("AGE-SECRET-KEY- AGE-PLUGIN-", isWordByte, 20, false)
	add("tskey- nbp_ tk_", isWordByte, 24, true)
	add("privkey: nodekey-priv: mkey: ", isHex, 40, true)
	add("SU SA SO SC SN SX", isBase32, 56, true) // seeds of NATS
	add("A3-", isWordByte, 30, true)
	add("ops_eyJ", isEncoded, 20, true)
	add("sha256~", isWordByte, 40, false)
	add("dp.pt. dp.st. dp.sa. dp.ct. dp.scim. dp.audit. pul-", isDotted, 36, true)
	add("pscale_tkn_ pscale_pw_ pscale_oauth_ pnu_ sbp_ npg_", isEncoded, 12, true)
	add("dapi dkea dose", isHex, 32, true)
	add("eyJ ewog", isEncoded, 17, true) // JSON in base64: JWT, JWE and others
	add("LS0tLS1CRUdJTi TFMwdExTMUNSVWRKVGl", isBase64, 10, true)
	add("b3BlbnNzaC1rZXktdjE", isBase64, 10, true)
	add("MIIEvQIBADAN MIIEvAIBADAN MIIEvgIBADAN MIIEpAIBAAK MIIEowIBAAK MIIEpQIBAAK MIIJQgIBADAN MIIJKAIBAAK MIIJKQIBAAK MIGHAgEAMBMG MHcCAQEE MC4CAQAwBQYDK2Vw", isBase64, 20, false)
	add("H4sIA", isBase64, 40, true) // what was compressed: releases of helm, cloud-init
}

// addServices adds the tokens of services that programs call.
func addServices(add addTokens) {
	// Watching and calling.
	add("NRAK- NRII- NRJS- NRIQ- NRRA- NRAA- NRSP-", isWordByte, 15, true)
	add("dt0c01. dt0s01. dt0s02. dt0s03. dt0s04. dt0s06. dt0s08. dt0s16. dt0a01.", isDotted, 24, true)
	add("glsa_ glc_", isBase64, 30, false)
	add("hcaik_ hcxik_ hcamk_ hcxmk_", isAlnum, 24, true)
	add("sntrys_ sntryu_ rootly_ lip_", isEncoded, 24, true)
	add("AAEAA", isBase64, 40, true) // Elastic: service tokens, enrolment
	// Chat and mail.
	add("xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxe. xoxc- xoxd- xapp- xwfp-", isEncoded, 10, false)
	add("syt_ syl_ mat_", isEncoded, 24, true)
	add("SG.", isDotted, 40, true)
	add("key-", isHex, 32, true)
	add("xkeysib- xsmtpsib-", isEncoded, 24, true)
	// Payment and business.
	add("sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ whsec_ sk_org_", isWordByte, 10, false)
	add("sq0atp- sq0csp- sq0idp- EAAA", isWordByte, 20, true)
	add("BQIAAA", isBase64, 20, true) // keytabs
	add("AQ", isBase64, 36, true)     // keys of Ceph
	add("EAAC EAAM EAAB EAAG AQED AQEy AQEt", isEncoded, 50, true)
	add("access_token$production$ access_token$sandbox$", isDollar, 20, false)
	add("shpat_ shpca_ shppa_ shpss_ shpua_ shprt_", isHex, 30, false)
	add("shippo_live_ shippo_test_ lob_live_", isWordByte, 32, true)
	add("live_", isWordByte, 40, true)
	add("rzp_live_ rzp_test_ FLWSECK- FLWSECK_TEST- EZAK EZTK duffel_live_ duffel_test_", isWordByte, 12, true)
	add("access-production- access-development- access-sandbox- pat-na1- pat-eu1-", isWordByte, 32, true)
	add("PMAK- lin_api_ lin_oauth_ CFPAT- figd_ figo_ tfp_ rdme_ ntn_ sm_aat_ sm_pat_ sm_sat_ patp_", isWordByte, 24, true)
	add("pat.", isDotted, 40, true)
	add("sb_secret_ napi_ STS.", isWordByte, 24, true)
	add("p8e- SSWS", isAlnum, 30, true)
	add("sk.eyJ pk.eyJ", isDotted, 40, true)
	add("akab-", isWordByte, 30, true)
	add("tk-us-", isWordByte, 40, true)
	// Models.
	add("sk-ant- sk-proj- sk-or-v1- sk-svcacct- sk-admin-", isWordByte, 16, true)
	add("hf_ api_org_ r8_ gsk_ pplx- xai- pcsk_ lsv2_pt_ lsv2_sk_ fw_ nvapi- tgp_v1_ jina_ csk- dsk- tvly-", isWordByte, 28, true)
}

// places are the rest: what needs a closer look.
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

func isBase32(c byte) bool { return isUpper(c) || c >= '2' && c <= '7' }
func isDollar(c byte) bool { return isAlnum(c) || c == '$' }
