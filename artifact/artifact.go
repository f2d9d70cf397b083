package artifact

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"crowsnest/internal/lazyre"
	"crowsnest/rules"
)

// Type is the artifact type of a folder of packs. Each file is a layer of LayerType.
const (
	Type      = "application/vnd.crowsnest.packs.v1"
	LayerType = "application/vnd.crowsnest.pack.v1+yaml"
)

// Language is the newest version of the pack format that this program reads. An artifact
// states the version that it needs.
const Language = 1

// The annotations of a manifest, beside those for version and title.
const (
	languageKey = "dev.crowsnest.language"
	expiresKey  = "dev.crowsnest.expires"
)

// Bounds of an artifact. rules.MaxFileBytes bounds each file.
const (
	maxManifest = 512 << 10
	maxFiles    = 1000
	maxTotal    = 8 << 20 // bytes of all files
	maxText     = 128     // bytes of title and version
)

// fileName is a file that may be in an artifact: no hidden name, nothing above the
// folder, and nothing that a shell or another system interprets.
var fileName = lazyre.New(`^([A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*\.ya?ml$`)

// Info describes an artifact. The signature covers it.
type Info struct {
	// Title names the packs and stays the same in every version.
	Title string `json:"title"`
	// Version is a semantic version. A newer artifact has a higher one.
	Version string `json:"version"`
	// Language is the version of the pack format.
	Language int `json:"language"`
	// Expires is when the artifact is no longer accepted; zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// Expired reports whether the artifact is no longer accepted at a time.
func (i Info) Expired(now time.Time) bool { return !i.Expires.IsZero() && !now.Before(i.Expires) }

// CheckExpiry returns why the artifact is no longer accepted at a time, nil if it is.
func (i Info) CheckExpiry(now time.Time) error {
	if !i.Expired(now) {
		return nil
	}
	return fmt.Errorf("version %s of %s expired at %s; ask its publisher for a newer version", i.Version, i.Title, i.Expires.Format(time.RFC3339))
}

// Artifact is a folder of packs as it is published. It is immutable.
type Artifact struct {
	Info
	// Digest is the hash of Manifest, such as sha256:4f1b...
	Digest string
	// Manifest is the published description of the files, byte for byte.
	Manifest []byte
	// Files are the packs, ordered by name. Names are relative, with slashes.
	Files []rules.File
	// Signatures are those that the registry has; none of them is verified yet.
	Signatures []Signature
}

// New returns the artifact of a folder. The same files and the same info always have the
// same digest.
func New(files []rules.File, info Info) (*Artifact, error) {
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: Type, Config: ocispec.DescriptorEmptyJSON,
		Annotations: map[string]string{
			ocispec.AnnotationTitle: info.Title, ocispec.AnnotationVersion: info.Version,
			languageKey: strconv.Itoa(cmp.Or(info.Language, Language)),
		},
	}
	if !info.Expires.IsZero() {
		m.Annotations[expiresKey] = info.Expires.UTC().Format(time.RFC3339)
	}
	blobs := map[digest.Digest][]byte{}
	files = slices.SortedFunc(slices.Values(files), func(a, b rules.File) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range files {
		d := digest.FromBytes(f.Data)
		blobs[d] = f.Data
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: LayerType, Digest: d, Size: int64(len(f.Data)),
			Annotations: map[string]string{ocispec.AnnotationTitle: f.Name},
		})
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the manifest: %w", err)
	}
	return decode(manifest, func(d ocispec.Descriptor) ([]byte, error) { return blobs[d.Digest], nil })
}

// Refused is an error about an artifact itself, not about reaching it: the next try fails
// as well, until something else is published.
type Refused struct{ Reason error }

// Unwrap returns the reason.
func (r Refused) Unwrap() error { return r.Reason }

// Error implements error.
func (r Refused) Error() string { return r.Reason.Error() }

// decode checks a manifest, and reads its files with blob once all bounds are checked.
func decode(manifest []byte, blob func(ocispec.Descriptor) ([]byte, error)) (*Artifact, error) {
	a, layers, err := decodeManifest(manifest)
	if err != nil {
		return nil, Refused{err}
	}
	for _, l := range layers {
		name := l.Annotations[ocispec.AnnotationTitle]
		data, err := blob(l)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", name, err)
		}
		if int64(len(data)) != l.Size || digest.FromBytes(data) != l.Digest {
			return nil, Refused{fmt.Errorf("file %s is not what the manifest describes: it was changed or truncated", name)}
		}
		a.Files = append(a.Files, rules.File{Name: name, Data: data})
	}
	return a, nil
}

// decodeManifest checks everything that a manifest states.
func decodeManifest(manifest []byte) (*Artifact, []ocispec.Descriptor, error) {
	if len(manifest) > maxManifest {
		return nil, nil, fmt.Errorf("the manifest has %d bytes, more than %d", len(manifest), maxManifest)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, nil, fmt.Errorf("the manifest is not JSON: %w", err)
	}
	if m.ArtifactType != Type {
		return nil, nil, fmt.Errorf("this is not an artifact of rule packs: its type is %q, not %q; publish packs with crowsnest rules push", cmp.Or(m.ArtifactType, m.Config.MediaType), Type)
	}
	info, err := infoOf(m.Annotations)
	if err != nil {
		return nil, nil, err
	}
	if err := checkLayers(m.Layers); err != nil {
		return nil, nil, err
	}
	return &Artifact{Info: info, Digest: digest.FromBytes(manifest).String(), Manifest: manifest}, m.Layers, nil
}

func infoOf(annotations map[string]string) (Info, error) {
	info := Info{Title: annotations[ocispec.AnnotationTitle], Version: annotations[ocispec.AnnotationVersion]}
	if info.Title == "" || len(info.Title) > maxText || len(info.Version) > maxText {
		return info, fmt.Errorf("the manifest has no usable title and version (annotations %s and %s, at most %d bytes each)", ocispec.AnnotationTitle, ocispec.AnnotationVersion, maxText)
	}
	if _, err := semver.StrictNewVersion(info.Version); err != nil {
		return info, fmt.Errorf("version %q is not a semantic version; use one such as 1.4.0", info.Version)
	}
	language, err := strconv.Atoi(annotations[languageKey])
	if err != nil || language < 1 {
		return info, fmt.Errorf("the manifest does not state the version of the pack format (annotation %s)", languageKey)
	}
	if info.Language = language; language > Language {
		return info, fmt.Errorf("the packs need version %d of the pack format, and this crowsnest reads up to %d; upgrade crowsnest", language, Language)
	}
	if text := annotations[expiresKey]; text != "" {
		if info.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return info, fmt.Errorf("the expiry %q is not a time as in RFC 3339 (annotation %s)", text, expiresKey)
		}
	}
	return info, nil
}

// checkLayers checks the files before any of them is fetched.
func checkLayers(layers []ocispec.Descriptor) error {
	if len(layers) == 0 || len(layers) > maxFiles {
		return fmt.Errorf("the artifact has %d files; 1 to %d are allowed", len(layers), maxFiles)
	}
	seen, total := map[string]bool{}, int64(0)
	for _, l := range layers {
		name := l.Annotations[ocispec.AnnotationTitle]
		switch {
		case len(name) > 255 || !fileName.MatchString(name):
			return fmt.Errorf("file name %.80q is not allowed; use letters, digits, '.', '_' and '-', no hidden names, and the suffix .yaml or .yml", name)
		case seen[strings.ToLower(name)]:
			return fmt.Errorf("file %s is in the artifact twice", name)
		case l.MediaType != LayerType:
			return fmt.Errorf("file %s has the media type %q, not %q", name, l.MediaType, LayerType)
		case l.Size < 0 || l.Size > rules.MaxFileBytes:
			return fmt.Errorf("file %s has %d bytes, more than %d", name, l.Size, rules.MaxFileBytes)
		case l.Digest.Validate() != nil || l.Digest.Algorithm() != digest.SHA256:
			return fmt.Errorf("file %s has no usable digest: %.80q", name, l.Digest)
		}
		if total += l.Size; total > maxTotal {
			return fmt.Errorf("the files together have more than %d MiB", maxTotal>>20)
		}
		seen[strings.ToLower(name)] = true
	}
	return nil
}

// saved is an artifact on disk.
type saved struct {
	Manifest []byte
	Blobs    [][]byte
}

// Encode returns the artifact, without its signatures, for Decode.
func (a *Artifact) Encode() ([]byte, error) {
	s := saved{Manifest: a.Manifest}
	for _, f := range a.Files {
		s.Blobs = append(s.Blobs, f.Data)
	}
	return json.Marshal(s)
}

// Decode reads what Encode returned, with the checks of Pull.
func Decode(data []byte) (*Artifact, error) {
	var s saved
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("the saved artifact cannot be read: %w", err)
	}
	blobs := map[digest.Digest][]byte{}
	for _, b := range s.Blobs {
		blobs[digest.FromBytes(b)] = b
	}
	return decode(s.Manifest, func(d ocispec.Descriptor) ([]byte, error) { return blobs[d.Digest], nil })
}

// Last returns what identifies the artifact once it is in use.
func (a *Artifact) Last() *Last { return &Last{a.Digest, a.Title, a.Version} }
