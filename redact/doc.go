// Package redact takes secrets out of log text before anything keeps, shows or
// sends it, and makes text harmless for terminals and chat.
//
// It finds secrets by what stands before them (password=, "token":, --token,
// Authorization:), by their own form (ghp_..., JWT, PEM, AKIA...), and by what
// is around them (user:password@host). It knows nothing of rules or log
// formats: JSON, escaped JSON, YAML, logfmt, klog, Go's %+v and command lines
// are told apart by their separators only.
//
// It errs on the side of hiding: what may be a secret is hidden. Names of
// objects, uuids, digests and prose about secrets stay.
package redact
