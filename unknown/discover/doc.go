// Package discover finds lines that report errors and that no rule matches, and turns such a
// line into a rule.
//
// The production matcher reads the lines and returns those that no part of a rule matches.
// ComplaintReader judges each of these lines, for discover and for the daemon. A line complains
// by its level or by its wording. Placeholders replace the words that vary. Lines that are
// equal after this have one pattern, and patterns that differ in few words are joined. Patterns
// with the same cause form one group. One rule matches the whole group where possible. The
// ranking puts severity before frequency, and new patterns before permanent ones. It demotes
// groups of a component that already has higher groups. All memory is bounded, and the report
// counts the patterns that were evicted.
package discover
