package artifact

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
)

// Push uploads the artifact under the tag of the reference and under more tags. Push
// never moves the tag of the reference to another digest: it returns an error instead.
func (r *Remote) Push(ctx context.Context, a *Artifact, tags ...string) error {
	there, err := r.repo.Resolve(ctx, r.Tag())
	switch {
	case err == nil && there.Digest.String() != a.Digest:
		return fmt.Errorf("%s is already published with other content (%s); publish changes as a new version", r, there.Digest)
	case err != nil && !errors.Is(err, errdef.ErrNotFound):
		return r.explain(err)
	}
	blobs := [][]byte{ocispec.DescriptorEmptyJSON.Data}
	for _, f := range a.Files {
		blobs = append(blobs, f.Data)
	}
	if err := r.upload(ctx, blobs...); err != nil {
		return r.explain(err)
	}
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, a.Manifest)
	for _, tag := range append([]string{r.Tag()}, tags...) {
		ref := registry.Reference{Registry: r.ref.Registry, Repository: r.ref.Repository, Reference: tag}
		if ref.ValidateReferenceAsTag() != nil {
			return fmt.Errorf("%q is not a tag", tag)
		}
		if err := r.repo.PushReference(ctx, d, bytes.NewReader(a.Manifest), tag); err != nil {
			return r.explain(err)
		}
	}
	return nil
}

// upload uploads what the registry does not have.
func (r *Remote) upload(ctx context.Context, blobs ...[]byte) error {
	for _, b := range blobs {
		d := content.NewDescriptorFromBytes("application/octet-stream", b)
		there, err := r.repo.Blobs().Exists(ctx, d)
		if err == nil && !there {
			err = r.repo.Blobs().Push(ctx, d, bytes.NewReader(b))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Sign signs an artifact that was pushed, and adds the signature to those in the registry
// in the form that cosign verifies. It does nothing if the key has signed it already.
func (r *Remote) Sign(ctx context.Context, a *Artifact, key *ecdsa.PrivateKey) error {
	tag := signatureTag(a.Digest)
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	there, err := r.repo.Resolve(ctx, tag)
	if err == nil {
		if m, err = r.manifest(ctx, there); err != nil {
			return r.explain(err)
		}
		known, err := r.signaturesIn(ctx, there)
		if err != nil {
			return r.explain(err)
		}
		if verify(&Artifact{Digest: a.Digest, Signatures: known}, []*ecdsa.PublicKey{&key.PublicKey}) == nil {
			return nil
		}
	} else if !errors.Is(err, errdef.ErrNotFound) {
		return r.explain(err)
	}
	s, err := sign(key, r.Repository(), a.Digest)
	if err != nil {
		return err
	}
	layer := content.NewDescriptorFromBytes(simpleSigning, s.Payload)
	layer.Annotations = map[string]string{signatureKey: base64.StdEncoding.EncodeToString(s.Value)}
	m.Layers = append(m.Layers, layer)
	config, err := signatureConfig(m.Layers)
	if err != nil {
		return err
	}
	m.Config = content.NewDescriptorFromBytes(ocispec.MediaTypeImageConfig, config)
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write the signature: %w", err)
	}
	if err := r.upload(ctx, config, s.Payload); err != nil {
		return r.explain(err)
	}
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data)
	return r.explainIf(r.repo.PushReference(ctx, d, bytes.NewReader(data), tag))
}

// signatureConfig returns the image configuration that cosign expects beside signatures.
func signatureConfig(layers []ocispec.Descriptor) ([]byte, error) {
	img := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{}}}
	for _, l := range layers {
		img.RootFS.DiffIDs = append(img.RootFS.DiffIDs, l.Digest)
	}
	return json.Marshal(img)
}

func (r *Remote) explainIf(err error) error {
	if err == nil {
		return nil
	}
	return r.explain(err)
}
