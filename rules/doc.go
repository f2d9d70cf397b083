// Package rules implements the rule language. It has packs, rules, matchers, overrides and
// their lint.
//
// A pack is a YAML file that an SRE edits in Git. The package compiles packs to rules, or
// returns all of their problems at once, each with file, line, column and the fix. It works
// with YAML and with the syntax of regular expressions, but does not handle log lines, episodes
// or time.
//
// All values that the package returns are immutable and safe for concurrent use.
package rules
