package chaos

import "time"

// The figures of docs/reliability.md.
const (
	promisedKills   = 100
	promisedExit    = 6 * time.Second // from SIGTERM to the end of the process; its steps take up to 5.2 s if every peer hangs
	promisedFiles   = 500
	promisedRules   = 500
	promisedStart   = 2 * time.Second
	promisedReloads = 1000

	promisedReport = time.Minute // from the loss of a line to the alert about it
	promisedMiB    = 128.0       // largest peak of memory
	promisedAgain  = time.Second // longest time whose lines are read again after a kill
	promisedLife   = 300 * time.Millisecond

	promisedP50    = 300 * time.Millisecond // from a line to the accepted alert
	promisedP99    = time.Second
	promisedRate   = 10_000          // lines per second
	promisedReturn = 5 * time.Second // from the return of Alertmanager to the last alert
	promisedLine   = 1 << 30         // size of a line in bytes
	promisedConns  = 1000
)
