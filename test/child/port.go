package child

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports of servers are below the range that the system uses for connections: within
// it, a short connection may hold the port.
const (
	lowestPort  = 10000
	highestPort = 32000
)

var (
	portsMu sync.Mutex
	given   = map[int]bool{}
)

// FreePort returns a free port of loopback, below 32768, for a child to listen on. It
// returns each port only once in this process. It is safe for concurrent use.
func FreePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := lowestPort + rand.N(highestPort-lowestPort)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", Address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, err
		}
		given[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no port of 1000 tried between %d and %d is free", lowestPort, highestPort)
}

// Address returns the address of a port on loopback.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
