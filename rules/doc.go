// Package rules holds the rule language: packs, rules, matchers, overrides and
// their lint.
//
// A pack is a YAML file that an SRE edits in Git. The package turns packs into
// rules that can be evaluated, or into all of their problems at once, each with
// file, line, column and the fix. It knows YAML and regular expression syntax.
// It does not know log lines, episodes or time.
//
// Everything that it returns is immutable and safe for concurrent use.
package rules
