// Package redact removes secrets from log text before anything stores, shows or sends it, and makes text harmless for
// terminals and chat.
//
// It finds secrets by the text before them (password=, "token":, --token, Authorization:), by their own form (ghp_...,
// JWT, PEM, AKIA...), and by the text around them (user:password@host). It does not depend on rules or log formats. It
// distinguishes JSON, escaped JSON, YAML, logfmt, klog, Go's %+v and command lines only by their separators.
//
// The knowledge about secrets is in rules.txt. That file has the forms of tokens, commands, flags, and vocabularies for
// keys and for prose.
//
// When in doubt, the package hides a text. It keeps names of objects, UUIDs, digests and prose about secrets.
//
// The comments of the package use these terms:
//
//   - A key is the text before a separator, such as password in password=x. The name of a secret is a key, or a word
//     with that meaning in prose. Its class states how certain it is that its value is a secret.
//   - A finder is a function that looks for a secret at one position of the text.
//   - Glue is the text between the name of a secret and its value.
package redact
