// Package bench measures the stages that a line passes, on the logs and rules
// of test/traffic, and compares the counts with a plain reference. It consists
// of tests; `make bench` runs them and compares with testdata/bench.
//
// Folder peers has the program of `make bench-peers`, which compares whole
// processes with those of others.
package bench
