// Package discover finds complaints in logs that no rule covers, and turns a line
// into a rule.
//
// The production matcher reads the lines. A line that any part of a rule hits is
// covered. Of the other lines, discover keeps those that complain, by level or by
// wording, and those that report the same wait for a long time. It mines their
// messages for templates with a flat form of Drain: placeholders replace the words
// that vary, and messages of the same shape form one pattern. Patterns with the same
// cause form one group, and one rule covers the group where possible. The ranking
// puts severity before frequency and what is new before what is always there, and demotes groups whose program and module
// already have groups above them. All memory is bounded, and the report counts what
// the bounds evicted.
package discover
