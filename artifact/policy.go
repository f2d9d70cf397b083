package artifact

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// Last is the artifact that is in use.
type Last struct {
	Digest  string `json:"digest"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

// Policy decides which artifacts are accepted. The zero value accepts none: a digest or
// keys are required.
type Policy struct {
	// Digest is the only digest that is accepted; "": that of every signed artifact.
	Digest string
	// Keys are the public keys of the signers, one of which must have signed. None:
	// Digest decides alone.
	Keys []*ecdsa.PublicKey
	// MinVersion is the lowest version that is accepted; "": all are.
	MinVersion string
	// Last is the artifact in use, which only a newer version of the same title may
	// replace; nil: there is none.
	Last *Last
	// AllowOlder accepts every title and version in place of Last.
	AllowOlder bool
}

// Check returns why an artifact is not accepted at a time, as Refused, or nil.
func (p Policy) Check(a *Artifact, now time.Time) error {
	if err := p.check(a, now); err != nil {
		return Refused{err}
	}
	return nil
}

func (p Policy) check(a *Artifact, now time.Time) error {
	if err := p.checkOrigin(a); err != nil {
		return err
	}
	if err := a.CheckExpiry(now); err != nil {
		return err
	}
	if p.MinVersion != "" && older(a.Version, p.MinVersion) {
		return fmt.Errorf("version %s of %s is older than the required %s", a.Version, a.Title, p.MinVersion)
	}
	if p.Last == nil || p.AllowOlder || a.Digest == p.Last.Digest {
		return nil
	}
	switch {
	case a.Title != p.Last.Title:
		return fmt.Errorf("it contains %q, but %q is in use; check the reference", a.Title, p.Last.Title)
	case older(a.Version, p.Last.Version):
		return fmt.Errorf("version %s of %s is older than version %s, which is in use: it may be a replay of an old artifact", a.Version, a.Title, p.Last.Version)
	case !older(p.Last.Version, a.Version):
		return fmt.Errorf("version %s of %s is in use with other content (%s instead of %s); publish changes as a new version", a.Version, a.Title, p.Last.Digest, a.Digest)
	}
	return nil
}

// checkOrigin checks digest and signature.
func (p Policy) checkOrigin(a *Artifact) error {
	if p.Digest == "" && len(p.Keys) == 0 {
		return errors.New("neither a digest nor a public key says which artifacts to trust")
	}
	if p.Digest != "" && a.Digest != p.Digest {
		return fmt.Errorf("its digest is %s, not %s", a.Digest, p.Digest)
	}
	if len(p.Keys) > 0 {
		return verify(a, p.Keys)
	}
	return nil
}

// older reports whether version a is older than b. Both are valid.
func older(a, b string) bool {
	va, errA := semver.StrictNewVersion(a)
	vb, errB := semver.StrictNewVersion(strings.TrimPrefix(b, "v"))
	return errA != nil || errB != nil || va.LessThan(vb)
}
