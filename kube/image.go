package kube

import (
	"cmp"
	"strings"
)

// BetterImage returns one of two names of an image, the requested one (asked) or that of the
// runtime (runs). It prefers a name with a tag, and otherwise asked.
func BetterImage(asked, runs string) string {
	if !isTagged(asked) && isTagged(runs) {
		return runs
	}
	return cmp.Or(asked, runs)
}

func isTagged(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	return strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') && !strings.HasPrefix(image, "sha256:")
}
