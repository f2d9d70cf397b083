//go:build !amd64

package literals

const vector = false

// find excludes no place. Without vector instructions Index does not call it.
func (p *pair) find([]byte, int) int { return 0 }
