// Package bench measures the stages that a line passes, on the logs and rules of
// test/traffic, and holds what they count against a plain reference. It consists
// of tests; `make bench` runs them and compares with testdata/bench.
//
// Folder peers has the program behind `make bench-peers`, which compares whole
// processes with those of others.
package bench
