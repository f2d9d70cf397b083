// Package rules implements the rule language. It has packs, rules, matchers, overrides and their lint.
//
// A pack is a YAML file that an SRE edits in Git. The package compiles packs to rules, or returns all of their problems
// at once, each with file, line, column and the fix. It works with YAML and with the syntax of regular expressions, but
// does not handle log lines, episodes or time.
//
// The comments of the package use these terms:
//
//   - A document is a parsed file, either a pack or a file of overrides. A form is a rule as written, before it is
//     compiled.
//   - A part is `match`, `clear`, `unless` or a step of a sequence. A hit is a line that a part matches. A trigger is a
//     line with which a rule starts or continues to fire.
//   - The key of an alert is the values of the names in `by`. A stream is a log with its labels.
//   - The shipped packs are built into the program, in a compiled form. A released pack passed the lint before the
//     release.
//   - A symptom is a rule that names another rule, its cause, in `symptom_of`.
//
// All values that the package returns are immutable and safe for concurrent use.
package rules
