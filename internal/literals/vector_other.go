//go:build !amd64

package literals

const vector = false

func (p *pair) find([]byte, int) int { panic("there are no vector instructions") }
