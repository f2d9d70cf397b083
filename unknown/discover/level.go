package discover

import "strings"

// Level is the severity that a line states.
type Level int

// The levels in ascending order. LevelUnknown is between Info and Warning, because a line
// without a level may belong to either.
const (
	levelDebug Level = iota
	levelInfo
	levelUnknown
	levelWarning
	levelError
	levelFatal
)

var levelNames = [...]string{"debug", "info", "unknown", "warning", "error", "fatal"}

// String returns the name of the level.
func (l Level) String() string { return levelNames[l] }

// MarshalText returns the name of the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

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
