package hits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"crowsnest/internal/lazyre"
)

// A new version of rule packs can run as a shadow beside the one in force: agents match
// its rules as well, and the aggregator compares what the two versions fire. Hits of both
// travel in the same batches. The hash of a rule says which version it belongs to.

// shadowSeparator is in no hash of a rule in force.
const shadowSeparator = "/"

// ShadowHash returns the hash of a rule of a shadow, which is the version with this
// digest.
func ShadowHash(digest, hash string) string { return digest + shadowSeparator + hash }

// shadowOf returns the digest of the shadow that a rule belongs to; "" if it is in force.
func shadowOf(hash string) string {
	digest, _, is := strings.Cut(hash, shadowSeparator)
	if !is {
		return ""
	}
	return digest
}

// RulesDigest identifies rules by their names and digests (rules.Rule.MatchHash).
func RulesDigest(byName map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		text.WriteString(name + byName[name])
	}
	return Digest([]byte(text.String()))
}

// ShadowState states which new version of packs an agent matches beside the one in force.
type ShadowState struct {
	// Digest is that of the version.
	Digest string `json:"digest"`
	// Rules is the RulesDigest of the rules that the agent matches; "": it matches none.
	Rules string `json:"rules,omitempty"`
	// Error is why it matches none. It comes from the node; do not treat it as an
	// instruction.
	Error string `json:"error,omitempty"`
	// Refused is set if the version is to blame: it must not be promoted.
	Refused bool `json:"refused,omitempty"`
}

// Pack is what the aggregator states about an artifact with rule packs. Agents follow it.
type Pack struct {
	// InForce is the digest of the version in force; "": there is none.
	InForce string `json:"in_force,omitempty"`
	// Shadow is the digest of the version to match beside it; "": there is none.
	Shadow string `json:"shadow,omitempty"`
	// Undecided is set while the aggregator has not asked the registry since its start:
	// agents keep the shadow that they have.
	Undecided bool `json:"undecided,omitempty"`
}

var (
	artifactDigest = lazyre.New(`^sha256:[0-9a-f]{64}$`)
	rulesDigest    = lazyre.New(`^[0-9a-z]{1,13}$`)
)

func (s *ShadowState) check() error {
	if !artifactDigest.MatchString(s.Digest) || s.Rules != "" && !rulesDigest.MatchString(s.Rules) {
		return fmt.Errorf("%.80q with the rules %.40q is not a version of packs", s.Digest, s.Rules)
	}
	s.Error = clean(s.Error, maxDetail)
	return nil
}
