package sinks

import (
	"cmp"
	"slices"
	"time"

	"crowsnest/internal/blocks"
)

const maxPacked = 8 << 20

// EndedPack encodes ended episodes for snapshots. Only one encoding runs at a time. It is safe for concurrent use.
type EndedPack struct {
	pack blocks.Encoder[endedKey, EndedEpisode]
}

type endedKey struct {
	fingerprint string
	starts      time.Time
}

// Encode returns the encoded episodes, which UnpackEnded decodes. If they take more than 8
// MiB, it omits the oldest ones. It sorts in.
func (p *EndedPack) Encode(in []EndedEpisode) ([][]byte, error) {
	slices.SortFunc(in, func(a, b EndedEpisode) int {
		return cmp.Or(a.EndsAt.Compare(b.EndsAt), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	blocks, err := p.pack.Encode(in, func(e EndedEpisode) endedKey { return endedKey{e.Fingerprint, e.StartsAt} })
	size := 0
	for i, b := range slices.Backward(blocks) {
		if size += len(b); size > maxPacked {
			return blocks[i+1:], err
		}
	}
	return blocks, err
}

// UnpackEnded decodes the episodes that Encode encoded. It may return more than a receiver
// needs, but State.Import uses only episodes to which its marks refer.
func UnpackEnded(packed [][]byte) []EndedEpisode { return blocks.Decode[EndedEpisode](packed) }
