// Package redact removes secrets from log text before anything stores, shows or
// sends it, and makes text harmless for terminals and chat.
//
// It finds secrets by the text before them (password=, "token":, --token,
// Authorization:), by their own form (ghp_..., JWT, PEM, AKIA...), and by the
// text around them (user:password@host). It knows nothing of rules or log
// formats: it distinguishes JSON, escaped JSON, YAML, logfmt, klog, Go's %+v and
// command lines only by their separators.
//
// What is known of secrets is in rules.txt: forms of tokens, commands, flags, and
// vocabularies of keys and of prose.
//
// If in doubt, it hides. It keeps names of objects, uuids, digests and prose about
// secrets.
package redact
