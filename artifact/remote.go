package artifact

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Bounds of what a registry may answer.
const (
	maxSignatures = 32
	maxSignature  = 64 << 10 // bytes of a payload or bundle
	maxRedirects  = 3
	headerTimeout = 20 * time.Second
)

// Options are for the connection to a registry.
type Options struct {
	// PlainHTTP connects without TLS. Everything that is sent, credentials included, can
	// be read and changed on the way.
	PlainHTTP bool
	// Username and Password are for this registry. Without them the credentials of
	// Docker's configuration are used ($DOCKER_CONFIG/config.json).
	Username, Password string
}

// Remote is a connection to one artifact in a registry. It is safe for concurrent use.
type Remote struct {
	Reference
	repo *remote.Repository
	http *http.Client
}

// Open returns a connection to an artifact. It does not connect yet.
func Open(ref Reference, opt Options) (*Remote, error) {
	repo, err := remote.NewRepository(ref.Repository())
	if err != nil {
		return nil, err
	}
	next := http.DefaultTransport.(*http.Transport).Clone()
	next.ResponseHeaderTimeout = headerTimeout
	client := &http.Client{
		Transport:     guard{host: ref.ref.Host(), plain: opt.PlainHTTP, next: next},
		CheckRedirect: checkRedirect,
	}
	creds := auth.StaticCredential(ref.ref.Registry, auth.Credential{Username: opt.Username, Password: opt.Password})
	if opt.Username == "" {
		store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the credentials of Docker: %w", err)
		}
		creds = credentials.Credential(store)
	}
	repo.PlainHTTP, repo.MaxMetadataBytes, repo.SkipReferrersGC = opt.PlainHTTP, maxManifest, true
	repo.Client = &auth.Client{Client: client, Cache: auth.NewCache(), Credential: creds, Header: http.Header{"User-Agent": {"crowsnest"}}}
	return &Remote{Reference: ref, repo: repo, http: client}, nil
}

// guard refuses requests without TLS, wherever a redirect or a challenge leads. With
// plain it allows them to the host of the reference only.
type guard struct {
	host  string
	plain bool
	next  *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && (!g.plain || req.URL.Host != g.host) {
		return nil, fmt.Errorf("the registry leads to %s://%s without TLS, which is refused", req.URL.Scheme, req.URL.Host)
	}
	return g.next.RoundTrip(req)
}

// CloseIdleConnections passes the call on.
func (g guard) CloseIdleConnections() { g.next.CloseIdleConnections() }

// checkRedirect follows the few redirects by which registries lead to their storage. What
// is read there is checked by its digest; credentials are not sent to other hosts.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return errors.New("a redirect of an upload is refused")
	}
	return nil
}

// Close closes idle connections.
func (r *Remote) Close() { r.http.CloseIdleConnections() }

// Resolve returns the digest of what the reference names now. It costs one request.
func (r *Remote) Resolve(ctx context.Context) (string, error) {
	d, err := r.repo.Resolve(ctx, r.ref.Reference)
	if err != nil {
		return "", r.explain(err)
	}
	return d.Digest.String(), nil
}

// Pull fetches the artifact with its signatures, and checks that it is complete and
// within all bounds. Whether to trust it is for Policy.Check.
func (r *Remote) Pull(ctx context.Context) (*Artifact, error) {
	d, err := r.repo.Resolve(ctx, r.ref.Reference)
	if err != nil {
		return nil, r.explain(err)
	}
	if d.Size > maxManifest {
		return nil, r.explain(Refused{fmt.Errorf("the manifest has %d bytes, more than %d", d.Size, maxManifest)})
	}
	manifest, err := content.FetchAll(ctx, r.repo, d)
	if err != nil {
		return nil, r.explain(err)
	}
	a, err := decode(manifest, func(l ocispec.Descriptor) ([]byte, error) { return content.FetchAll(ctx, r.repo.Blobs(), l) })
	if err != nil {
		return nil, r.explain(err)
	}
	if a.Signatures, err = r.signatures(ctx, d); err != nil {
		return nil, r.explain(fmt.Errorf("read its signatures: %w", err))
	}
	return a, nil
}

// signatureTag is the tag under which cosign stores signatures of a digest.
func signatureTag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// signatures returns the signatures under the tag, and those that refer to the artifact.
func (r *Remote) signatures(ctx context.Context, of ocispec.Descriptor) ([]Signature, error) {
	var out []Signature
	manifests := []ocispec.Descriptor{}
	tagged, err := r.repo.Resolve(ctx, signatureTag(of.Digest.String()))
	if err == nil {
		manifests = append(manifests, tagged)
	} else if !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	err = r.repo.Referrers(ctx, of, "", func(page []ocispec.Descriptor) error {
		manifests = append(manifests, page...) // not all registries state their types
		if len(manifests) > maxSignatures {
			return fmt.Errorf("more than %d", maxSignatures)
		}
		return nil
	})
	if err != nil && len(manifests) == 0 && !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	for _, m := range manifests {
		found, err := r.signaturesIn(ctx, m)
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > maxSignatures {
			return nil, fmt.Errorf("more than %d", maxSignatures)
		}
	}
	return out, nil
}

// signaturesIn returns the signatures of one manifest.
func (r *Remote) signaturesIn(ctx context.Context, d ocispec.Descriptor) ([]Signature, error) {
	m, err := r.manifest(ctx, d)
	if err != nil {
		return nil, err
	}
	if len(m.Layers) > maxSignatures {
		return nil, fmt.Errorf("more than %d", maxSignatures)
	}
	var out []Signature
	for _, l := range m.Layers {
		if l.MediaType != simpleSigning && l.MediaType != sigstoreBundle {
			continue
		}
		if l.Size > maxSignature {
			return nil, fmt.Errorf("one has %d bytes, more than %d", l.Size, maxSignature)
		}
		data, err := content.FetchAll(ctx, r.repo.Blobs(), l)
		if err != nil {
			return nil, err
		}
		s := Signature{Form: simpleSigning, Payload: data}
		if l.MediaType == sigstoreBundle {
			s, err = ofBundle(data)
		} else {
			s.Value, err = base64.StdEncoding.DecodeString(l.Annotations[signatureKey])
		}
		if err == nil { // what cannot be read proves nothing, and others may be valid
			out = append(out, s)
		}
	}
	return out, nil
}

func (r *Remote) manifest(ctx context.Context, d ocispec.Descriptor) (m ocispec.Manifest, err error) {
	if d.Size > maxManifest {
		return m, fmt.Errorf("manifest %s has %d bytes, more than %d", d.Digest, d.Size, maxManifest)
	}
	data, err := content.FetchAll(ctx, r.repo.Manifests(), d)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("manifest %s is not JSON: %w", d.Digest, err)
	}
	return m, nil
}

// explain adds the reference and, where it is known, the fix to an error.
func (r *Remote) explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return fmt.Errorf("%s: the registry does not have it; check name and tag, and the credentials if it is private", r)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: access is denied; log in with docker login %s, or set CROWSNEST_REGISTRY_USERNAME and CROWSNEST_REGISTRY_PASSWORD: %w", r, r.ref.Registry, err)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrInvalidDescriptorSize):
		return fmt.Errorf("%s: what the registry sends is not what its digest says: it was changed: %w", r, Refused{err})
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the registry did not answer in time: %w", r, err)
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s: the registry does not use TLS; if this is meant, allow plain HTTP: %w", r, err)
	}
	return fmt.Errorf("%s: %w", r, err)
}
