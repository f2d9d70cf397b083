package discover

import "strings"

// Level is the severity that a line states.
type Level int

// The levels, in order. LevelUnknown is between Info and Warning: a line without a
// level may be either.
const (
	levelDebug Level = iota
	levelInfo
	levelUnknown
	levelWarning
	levelError
	levelFatal
)

var levelNames = [...]string{"debug", "info", "unknown", "warning", "error", "fatal"}

// String returns the level as it is written.
func (l Level) String() string { return levelNames[l] }

// MarshalText writes the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// levelOf reads a level as logging libraries write it.
func levelOf(word string) (Level, bool) {
	if len(word) == 0 || len(word) > len("emergency") {
		return levelUnknown, false
	}
	switch strings.ToLower(word) {
	case "trace", "debug", "dbg", "d", "verbose":
		return levelDebug, true
	case "info", "information", "inf", "i", "notice", "n":
		return levelInfo, true
	case "warn", "warning", "wrn", "w":
		return levelWarning, true
	case "error", "err", "e":
		return levelError, true
	case "fatal", "ftl", "f", "critical", "crit", "c", "panic", "dpanic", "emergency", "emerg", "alert":
		return levelFatal, true
	}
	return levelUnknown, false
}

// klogLevel reads the letter of a header of klog.
func klogLevel(c byte) Level {
	switch c {
	case 'I':
		return levelInfo
	case 'W':
		return levelWarning
	case 'E':
		return levelError
	case 'F':
		return levelFatal
	}
	return levelUnknown
}
