package inputs

import (
	"bytes"
	"strings"

	"crowsnest/matcher"
)

// LabelsOf returns the labels of a log that is followed: those of its path and of the
// options.
func LabelsOf(path string, opt Options) matcher.Labels {
	return (&collector{opt: opt}).labels(path)
}

// Problem returns why a file of this name and with this beginning cannot be followed, "" if
// it consists of lines of text.
func Problem(name string, head []byte) string {
	if isYAML(name) {
		return "is YAML, not a log"
	}
	if bytes.HasPrefix(head, gzipMagic) {
		return "is packed with gzip; scan it without --follow"
	}
	if k, bad := judge(head[:min(len(head), headSize)]); bad {
		return (&unreadableError{k}).Error()
	}
	return ""
}

// Origin returns the pod and the container that `kubectl logs --prefix` writes before a
// line, and the line without them; false if there are none.
func Origin(line []byte) (pod, container string, rest []byte, ok bool) {
	who, rest := prefixed(line)
	if who == nil {
		return "", "", line, false
	}
	pod, container, _ = strings.Cut(string(who), "/")
	return pod, container, rest, true
}
