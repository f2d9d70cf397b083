// Package loader loads the rules that a configuration names, and keeps the last valid version
// of each file. It does not make them active.
package loader
