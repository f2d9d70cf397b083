// Package discover finds what logs complain about and no rule watches, and turns
// a line into a rule.
//
// Lines are read with the production matcher; what a rule hits, in whatever part,
// is covered. Of the others those are kept that complain, by their level or by
// their words, or that wait for the same for long. Their messages are mined for
// templates with a flat form of Drain: what varies from line to line becomes a
// placeholder, and messages of the same shape are one pattern. Patterns of the same
// cause are one group, with one rule where one can find them all. Groups are ranked
// by how serious they sound before how often they come, and by how many of the same
// part of the same program are above. Everything is bounded, and what the bounds
// cost is counted.
package discover
