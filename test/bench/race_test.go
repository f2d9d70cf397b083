//go:build race

package bench

// slow is by how much logs are shorter where everything takes longer.
const slow = 8
