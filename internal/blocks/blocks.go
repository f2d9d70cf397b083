// Package blocks encodes lists of values in compressed blocks, and reuses the blocks of values that were encoded
// before.
package blocks

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"sync"
)

const (
	perBlock = 64      // number of values in one block
	maxValue = 1 << 20 // maximum average size of a value in a block, in bytes of JSON
)

// Encoder encodes lists that differ little from one call to the next and whose values never change, such as the list of
// ended episodes. It compresses the values in blocks and caches the blocks, so that the cost of a call depends only on
// the number of new values. The zero value is ready. It is safe for concurrent use.
type Encoder[K comparable, V any] struct {
	mu     sync.Mutex
	blocks []*block[K]
	in     map[K]*block[K]
}

type block[K comparable] struct {
	keys []K
	data []byte
}

// Encode returns the values as compressed JSON for Decode. key returns the identity of a value. The blocks may also
// contain values of earlier calls, so the reader must know which values are valid. The blocks are shared and read-only.
func (p *Encoder[K, V]) Encode(values []V, key func(V) K) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	live := map[*block[K]]int{}
	for _, v := range values {
		live[p.in[key(v)]]++
	}
	old := p.in
	p.in = make(map[K]*block[K], len(values))
	blocks := make([]*block[K], 0, len(values)/perBlock+1)
	for _, b := range p.blocks {
		if len(b.keys) == perBlock && live[b] >= perBlock/2 {
			blocks = append(blocks, b)
			for _, k := range b.keys {
				p.in[k] = b
			}
		}
	}
	var fresh []V
	add := func() error {
		b := &block[K]{}
		for _, v := range fresh {
			b.keys = append(b.keys, key(v))
			p.in[key(v)] = b
		}
		var err error
		b.data, err = deflate(fresh)
		blocks, fresh = append(blocks, b), fresh[:0]
		return err
	}
	var err error
	for _, v := range values {
		if p.in[key(v)] != nil {
			continue
		}
		if fresh = append(fresh, v); len(fresh) == perBlock && err == nil {
			err = add()
		}
	}
	if len(fresh) > 0 && err == nil {
		err = add()
	}
	if err != nil {
		p.in = old
		return nil, err
	}
	p.blocks = blocks
	out := make([][]byte, len(blocks))
	for i, b := range blocks {
		out[i] = b.data
	}
	return out, nil
}

// compressors are reused, because each one takes a megabyte of memory.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is valid, so there is no error
	return w
}}

func deflate(values any) ([]byte, error) {
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	if err := json.NewEncoder(w).Encode(values); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Decode returns the values in blocks from Encode. It skips unreadable blocks.
func Decode[V any](blocks [][]byte) []V {
	var out []V
	for _, b := range blocks {
		var values []V
		r := flate.NewReader(bytes.NewReader(b))
		if json.NewDecoder(io.LimitReader(r, perBlock*maxValue)).Decode(&values) == nil {
			out = append(out, values...)
		}
	}
	return out
}
