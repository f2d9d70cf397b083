// Package packs keeps the rule packs that come from registries up to date: it fetches and
// verifies new versions, evaluates them as a shadow beside those in force, and promotes
// them.
package packs

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"crowsnest/daemon/config"
	"crowsnest/daemon/inforce"
	"crowsnest/daemon/loader"
	"crowsnest/episodes"
	"crowsnest/hits"
	"crowsnest/matcher"
)

// Host is the daemon that uses the packs. All methods are safe for concurrent use.
type Host interface {
	// Config returns the configuration in force, and InForce the rules.
	Config() *config.Config
	InForce() *inforce.Rules
	// Reload puts the copies of artifacts in force. It logs its error.
	Reload(ctx context.Context) error
	// Keeps reports whether the folder of the state belongs to this process.
	Keeps() bool

	// Shadow returns the shadow that reads lines, nil if none does. UseShadow replaces it
	// between two blocks of lines.
	Shadow() *Shadow
	UseShadow(s *Shadow)
	// Compare begins the comparison of a shadow if all its lines are matched.
	Compare(s *Shadow)

	// HasAgents reports whether agents ask this process for versions, and State states
	// these by repository.
	HasAgents() bool
	State(versions map[string]hits.Pack)

	// Remote reports whether an aggregator concludes in place of this process. Unsaved
	// returns how many bytes are kept for it, and Forward sends it hits. Named returns the
	// versions that it states; answered is false as long as they are unknown.
	Remote() bool
	Unsaved() int
	Forward(found []matcher.Hit, now time.Time)
	Named() (versions map[string]hits.Pack, answered bool)
}

// Options are what does not change.
type Options struct {
	Log     zerolog.Logger
	Now     func() time.Time
	Getenv  func(string) string
	Loader  *loader.Loader
	Loading sync.Locker     // held while rules are loaded or tried
	Engine  episodes.Config // of the engines of shadows
	Grace   time.Duration   // until a difference counts; 0: half a minute
}
