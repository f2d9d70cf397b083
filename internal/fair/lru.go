package fair

import "github.com/hashicorp/golang-lru/v2/simplelru"

// NewLRU makes a cache that evicts the least recently used of more than n entries. n is at
// least 1.
func NewLRU[K comparable, V any](n int) *simplelru.LRU[K, V] {
	lru, _ := simplelru.NewLRU[K, V](n, nil) // n is positive, so there is no error
	return lru
}
