package redact

import (
	"crowsnest/internal/text"
	"crowsnest/redact/internal/clean"
)

// maxSanitised bounds the result of Sanitise, in bytes.
const maxSanitised = 16 << 10

// Sanitise makes text harmless for terminals, chat and web pages that escape it.
// The result is one line of valid UTF-8 of at most 16 KiB, without control
// characters, ANSI sequences, bidirectional controls and invisible characters.
// All white space becomes spaces. Sanitise does not escape markup: the caller does.
func Sanitise[T ~string](s T) T {
	return text.Truncate(T(clean.Text(string(s), false)), maxSanitised)
}
