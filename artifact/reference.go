package artifact

import (
	"fmt"
	"path"

	"oras.land/oras-go/v2/registry"
)

// Reference names an artifact in a registry, by tag or by digest.
type Reference struct{ ref registry.Reference }

// ParseReference parses a reference such as registry.example.org/team/packs:1.4.0 or
// registry.example.org/team/packs@sha256:4f1b...
func ParseReference(text string) (Reference, error) {
	ref, err := registry.ParseReference(text)
	if err != nil {
		return Reference{}, fmt.Errorf("%.200q does not name an artifact; write registry/repository:tag or registry/repository@sha256:digest", text)
	}
	if ref.Reference == "" {
		return Reference{}, fmt.Errorf("%.200q has neither a tag nor a digest; add one, such as :1.4.0", text)
	}
	return Reference{ref}, nil
}

// String returns the reference as it was written.
func (r Reference) String() string { return r.ref.String() }

// Digest returns the digest, "" if the reference has a tag.
func (r Reference) Digest() string {
	if r.ref.ValidateReferenceAsDigest() != nil {
		return ""
	}
	return r.ref.Reference
}

// Tag returns the tag, "" if the reference has a digest.
func (r Reference) Tag() string {
	if r.Digest() != "" {
		return ""
	}
	return r.ref.Reference
}

// Repository returns the reference without tag and digest.
func (r Reference) Repository() string { return r.ref.Registry + "/" + r.ref.Repository }

// Name returns the last part of the repository.
func (r Reference) Name() string { return path.Base(r.ref.Repository) }
