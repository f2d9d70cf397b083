// Package loader loads the rules that a configuration names, and keeps the last
// good version of each file. It does not put them in force.
package loader
