package kube

import (
	"cmp"
	"strings"
)

// BetterImage returns one of two names of a container's image. asked is the requested name, and runs is the name that
// the runtime reports. BetterImage returns a name with a tag if there is one, and otherwise asked.
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
