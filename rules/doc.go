// Package rules implements the rule language: packs, rules, matchers, overrides
// and their lint.
//
// A pack is a YAML file that an SRE edits in Git. The package compiles packs to
// rules, or returns all of their problems at once, each with file, line, column
// and the fix. It knows YAML and regular expression syntax. It does not know log
// lines, episodes or time.
//
// All values that it returns are immutable and safe for concurrent use.
package rules
