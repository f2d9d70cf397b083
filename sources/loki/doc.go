// Package loki reads log lines from Loki, each exactly once.
//
// It queries overlapping time ranges, as package rangeread describes. It does not use Loki's tail
// API, which loses lines without reporting it.
package loki
