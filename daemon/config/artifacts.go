package config

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"crowsnest/artifact"
	"crowsnest/daemon/component"
	"crowsnest/sinks/upstream"
	"crowsnest/sources/agents"
	"crowsnest/strictyaml"
)

// Defaults of an artifact.
const (
	defaultInterval  = 5 * time.Minute
	defaultShadowFor = 24 * time.Hour
)

// Artifact is a folder of rule packs in an OCI registry, published by crowsnest rules push.
type Artifact struct {
	// Reference names the artifact: registry/repository@sha256:digest, or
	// registry/repository:tag, which may move to newer versions.
	Reference string `yaml:"reference" bounds:"1,1024" strict:"required"`
	// PublicKeyFile has the public keys of the publisher in PEM form, such as
	// cosign.pub; one of them must have signed. Required if Reference has a tag.
	PublicKeyFile string `yaml:"public_key_file" bounds:"0,4096"`
	// Interval is how often the registry is asked for a newer version, give or take a
	// tenth. Default 5m.
	Interval time.Duration `yaml:"interval" bounds:"10s,24h"`
	// MinVersion is the lowest version that is accepted, such as 1.4.0.
	MinVersion string `yaml:"min_version" bounds:"0,128"`
	// AllowOlder accepts an older version than the one in force, for a roll-back by tag.
	// A digest in Reference is accepted in any order.
	AllowOlder bool `yaml:"allow_older"`
	// PlainHTTP connects to the registry without TLS.
	PlainHTTP bool `yaml:"plain_http"`
	// Shadow evaluates a new version beside the one in force before it replaces it.
	// Agents and their aggregator need the same entry.
	Shadow *Shadow `yaml:"shadow"`

	Keys strictyaml.Keys `yaml:"-"`
}

// Shadow decides when a new version of an artifact replaces the one in force.
type Shadow struct {
	// For is how long both versions are evaluated. Default 1d.
	For time.Duration `yaml:"for" bounds:"1m,30d"`
	// Budget is how many alerts may differ in that time: those that only one of the
	// versions fires. Default 0.
	Budget int `yaml:"budget" bounds:"0,100000"`
}

// Ref returns the parsed reference, which check has accepted.
func (a *Artifact) Ref() artifact.Reference {
	ref, _ := artifact.ParseReference(a.Reference) // the zero value names nothing
	return ref
}

// Every returns Interval or its default.
func (a *Artifact) Every() time.Duration { return cmp.Or(a.Interval, defaultInterval) }

// ShadowFor returns how long a new version is evaluated beside the one in force; 0: it
// replaces that at once.
func (a *Artifact) ShadowFor() time.Duration {
	if a.Shadow == nil {
		return 0
	}
	return cmp.Or(a.Shadow.For, defaultShadowFor)
}

// Policy reads the public keys and returns which artifacts to accept in place of last,
// which may be nil.
func (a *Artifact) Policy(last *artifact.Last) (artifact.Policy, error) {
	ref := a.Ref()
	p := artifact.Policy{Digest: ref.Digest(), MinVersion: a.MinVersion, Last: last, AllowOlder: a.AllowOlder || ref.Digest() != ""}
	if a.PublicKeyFile == "" {
		return p, nil
	}
	data, err := os.ReadFile(a.PublicKeyFile)
	if err != nil {
		return p, err
	}
	if p.Keys, err = artifact.PublicKeys(data); err != nil {
		return p, fmt.Errorf("%s: %w", a.PublicKeyFile, err)
	}
	return p, nil
}

// checkArtifacts checks every artifact of the file.
func (c *Config) checkArtifacts(k *checker) {
	seen := map[string]bool{}
	for i := range c.Rules.Artifacts {
		a := &c.Rules.Artifacts[i]
		if a.Keys.Broken("reference") || a.Keys.Missing("reference") {
			continue
		}
		at := a.Keys.Value("reference")
		ref, err := artifact.ParseReference(a.Reference)
		if err != nil {
			message, fix := component.SplitFix(err.Error())
			k.add(at, "bad-value", "reference: "+message, fix)
			continue
		}
		if seen[ref.Repository()] {
			k.add(at, "duplicate-name", fmt.Sprintf("two artifacts have the repository %s", ref.Repository()), "remove one of them")
		}
		seen[ref.Repository()] = true
		if ref.Tag() != "" && a.PublicKeyFile == "" {
			k.add(at, "bad-value", "reference: everybody who can move the tag can change the rules", "set public_key_file, or name the digest ("+ref.Name()+"@sha256:...)")
		}
		if _, err := semver.StrictNewVersion(a.MinVersion); a.MinVersion != "" && err != nil {
			k.add(a.Keys.Value("min_version"), "bad-value", fmt.Sprintf("min_version: %q is not a semantic version", a.MinVersion), "write it like 1.4.0")
		}
		if a.Shadow != nil && ref.Digest() != "" && c.concludesElsewhere() {
			k.add(a.Keys.Key("shadow"), "bad-value", "shadow: agents need both the version in force and the new one, and reference names only one of them", "name a tag in reference, and set public_key_file")
		}
	}
	if len(c.Rules.Artifacts) > 0 && strings.TrimSpace(c.Storage.Path) == "" {
		k.add(c.Rules.Keys.Key("artifacts"), "bad-value", "artifacts: there is no folder for their copies", "set storage.path")
	}
}

// concludesElsewhere reports whether matching and concluding are two processes.
func (c *Config) concludesElsewhere() bool {
	return len(component.Of[upstream.Config](c.Sinks)) > 0 || len(component.Of[agents.Config](c.Sources)) > 0
}

// checkKeys reads the public keys of the artifacts.
func (c *Config) checkKeys() (out strictyaml.Problems) {
	for i := range c.Rules.Artifacts {
		a := &c.Rules.Artifacts[i]
		if _, err := a.Policy(nil); err != nil {
			message, fix := component.SplitFix(err.Error())
			out = append(out, a.Keys.Value("public_key_file").Problem(strictyaml.Error, "file", message, cmp.Or(fix, "create the file, or mount it, and let this user read it")))
		}
	}
	return out
}
