// Package loader loads the rule files that a configuration names, and keeps the last valid version of each file. The
// caller makes the loaded rules active.
package loader
