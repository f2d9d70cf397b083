package kube

import (
	"cmp"
	"strings"
)

// BetterImage chooses between the image as requested and as named by the runtime: the
// one with a tag, else the first.
func BetterImage(asked, runs string) string {
	if !tagged(asked) && tagged(runs) {
		return runs
	}
	return cmp.Or(asked, runs)
}

func tagged(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	return strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') && !strings.HasPrefix(image, "sha256:")
}
