package discover

import "strings"

// Level is the severity that a line states.
type Level int

// The levels, in order. LevelUnknown is between Info and Warning: a line without a
// level may be either.
const (
	LevelDebug Level = iota
	LevelInfo
	LevelUnknown
	LevelWarning
	LevelError
	LevelFatal
)

var levelNames = [...]string{"debug", "info", "unknown", "warning", "error", "fatal"}

// String returns the level as it is written.
func (l Level) String() string { return levelNames[l] }

// MarshalText writes the level.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// levelOf reads a level as logging libraries write it.
func levelOf(word string) (Level, bool) {
	if len(word) == 0 || len(word) > len("emergency") {
		return LevelUnknown, false
	}
	switch strings.ToLower(word) {
	case "trace", "debug", "dbg", "d", "verbose":
		return LevelDebug, true
	case "info", "information", "inf", "i", "notice", "n":
		return LevelInfo, true
	case "warn", "warning", "wrn", "w":
		return LevelWarning, true
	case "error", "err", "e":
		return LevelError, true
	case "fatal", "ftl", "f", "critical", "crit", "c", "panic", "dpanic", "emergency", "emerg", "alert":
		return LevelFatal, true
	}
	return LevelUnknown, false
}

// klogLevel reads the letter of a header of klog.
func klogLevel(c byte) Level {
	switch c {
	case 'I':
		return LevelInfo
	case 'W':
		return LevelWarning
	case 'E':
		return LevelError
	case 'F':
		return LevelFatal
	}
	return LevelUnknown
}
