package envelope

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A line that another program wrapped counts as understood only if the wrapper is a log
// line of its own.
func TestUnderstoodLines(t *testing.T) {
	for line, want := range map[string]bool{
		`time="2025-10-18 10:38:30" level=info msg="W1018 10:38:30.152270   51665 logging.go:55] [core] grpc: failed" component=kube-apiserver`: true,
		`somebody wrote this: W1018 10:38:30.152270   51665 logging.go:55] [core] grpc: failed`:                                                 false,
		`eyJhbGciOiJub25lIn0eyJhbGciOiJub25lIn0eyJhbGciOiJub25lIn0`:                                                                             false,
	} {
		require.Equal(t, want, !isOpaque([]byte(line)) && isOrdinary([]byte(line), false), line)
	}
}
