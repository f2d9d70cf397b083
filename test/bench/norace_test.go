//go:build !race

package bench

// slow is the factor by which logs are shorter if everything is slower.
const slow = 1
