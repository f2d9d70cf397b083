// Package victorialogs reads log lines from VictoriaLogs, each exactly once.
//
// It queries overlapping time ranges, as package rangeread describes. It does not use live
// tailing, which does not say which lines it has not sent.
package victorialogs
