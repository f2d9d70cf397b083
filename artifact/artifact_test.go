package artifact

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
	"oras.land/oras-go/v2/content"

	"crowsnest/rules"
	"crowsnest/test/packregistry"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func packs(text string) []rules.File {
	return []rules.File{{Name: "b.yaml", Data: []byte("b: " + text)}, {Name: "sub/a.yml", Data: []byte("a: " + text)}}
}

func artifactOf(t *testing.T, version, text string) *Artifact {
	t.Helper()
	a, err := New(packs(text), Info{Title: "packs", Version: version})
	require.NoError(t, err)
	return a
}

func open(t *testing.T, r *packregistry.Registry, reference string) *Remote {
	t.Helper()
	ref, err := ParseReference(r.Host + "/team/packs" + reference)
	require.NoError(t, err)
	out, err := Open(ref, Options{PlainHTTP: true, Username: "ada", Password: "x"})
	require.NoError(t, err)
	t.Cleanup(out.Close)
	return out
}

func publish(t *testing.T, r *packregistry.Registry, a *Artifact, key *ecdsa.PrivateKey) *Remote {
	t.Helper()
	remote := open(t, r, ":"+a.Version)
	require.NoError(t, remote.Push(t.Context(), a, "stable"))
	if key != nil {
		require.NoError(t, remote.Sign(t.Context(), a, key))
	}
	return remote
}

func TestSameFilesSameDigest(t *testing.T) {
	a := artifactOf(t, "1.0.0", "x")
	files := packs("x")
	files[0], files[1] = files[1], files[0]
	b, err := New(files, Info{Title: "packs", Version: "1.0.0"})
	require.NoError(t, err)
	require.Equal(t, a.Digest, b.Digest, "the order of files does not matter")
	require.Equal(t, "sha256:15564dda", b.Digest[:15], "the digest changes only with the form of artifacts, which others have pinned")
	require.NotEqual(t, a.Digest, artifactOf(t, "1.0.1", "x").Digest)
	require.NotEqual(t, a.Digest, artifactOf(t, "1.0.0", "y").Digest)
}

func TestPushedAndPulled(t *testing.T) {
	r, key := packregistry.Start(t), packregistry.NewKey(t)
	a := artifactOf(t, "1.0.0", "x")
	publish(t, r, a, key.PrivateKey)
	policy := Policy{Keys: []*ecdsa.PublicKey{&key.PublicKey}}
	for _, reference := range []string{":1.0.0", ":stable", "@" + a.Digest} {
		got, err := open(t, r, reference).Pull(t.Context())
		require.NoError(t, err, reference)
		require.NoError(t, policy.Check(got, now))
		require.Equal(t, a.Files, got.Files)
		require.Equal(t, a.Info, got.Info)
	}
	// Again: nothing changes, and there is still one signature.
	publish(t, r, a, key.PrivateKey)
	got, err := open(t, r, ":stable").Pull(t.Context())
	require.NoError(t, err)
	require.Len(t, got.Signatures, 1)
	// A second signer adds to the first.
	second := packregistry.NewKey(t)
	publish(t, r, a, second.PrivateKey)
	got, err = open(t, r, ":stable").Pull(t.Context())
	require.NoError(t, err)
	require.NoError(t, policy.Check(got, now))
	require.NoError(t, Policy{Keys: []*ecdsa.PublicKey{&second.PublicKey}}.Check(got, now))
	// A version never changes.
	other := artifactOf(t, "1.0.0", "y")
	require.ErrorContains(t, open(t, r, ":1.0.0").Push(t.Context(), other), "already published with other content")

	encoded, err := a.Encode()
	require.NoError(t, err)
	saved, err := Decode(encoded)
	require.NoError(t, err)
	require.Equal(t, a, saved)
	_, err = Decode([]byte(strings.Replace(string(encoded), base64.StdEncoding.EncodeToString(a.Files[0].Data), "eDogeQ==", 1)))
	require.ErrorContains(t, err, "changed or truncated")
}

// bundleOf returns a sigstore bundle as newer versions of cosign write it.
func bundleOf(t *testing.T, key *ecdsa.PrivateKey, predicate, of string) []byte {
	t.Helper()
	statement := fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`,
		strings.TrimPrefix(of, "sha256:"), predicate)
	sum := sha256.Sum256(fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(inTotoType), inTotoType, len(statement), statement))
	value, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	require.NoError(t, err)
	return fmt.Appendf(nil, `{"mediaType":%q,"verificationMaterial":{"publicKey":{"hint":"x"}},"dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":%q}]}}`,
		sigstoreBundle, base64.StdEncoding.EncodeToString([]byte(statement)), inTotoType, base64.StdEncoding.EncodeToString(value))
}

// refer pushes a bundle that refers to an artifact.
func refer(t *testing.T, r *Remote, a *Artifact, bundle []byte) {
	t.Helper()
	subject := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, a.Manifest)
	layer := content.NewDescriptorFromBytes(sigstoreBundle, bundle)
	m := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: sigstoreBundle, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{layer}, Subject: &subject,
	}
	m.SchemaVersion = 2
	put(t, r, m, bundle)
}

// put pushes any manifest, and returns its digest.
func put(t *testing.T, r *Remote, m ocispec.Manifest, blobs ...[]byte) string {
	t.Helper()
	data, err := json.Marshal(m)
	require.NoError(t, err)
	r.repo.MaxMetadataBytes = 4 << 20
	require.NoError(t, r.upload(t.Context(), append(blobs, []byte("{}"))...))
	d := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data)
	if m.Subject == nil {
		require.NoError(t, r.repo.PushReference(t.Context(), d, strings.NewReader(string(data)), "stable"))
	} else {
		require.NoError(t, r.repo.Push(t.Context(), d, strings.NewReader(string(data))))
	}
	return d.Digest.String()
}

// A signature that cosign made, with the public key of its fixture in containers/image.
func TestSignatureOfCosign(t *testing.T) {
	keys, err := PublicKeys([]byte(`-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEFNLqFhf4fiN6o/glAuYnq2jYUeL0
vRuLu/z39pmbVwS9ff5AYnlwaP9sxREajdLY9ynM6G1sy6AAmb7Z63TsLg==
-----END PUBLIC KEY-----
`))
	require.NoError(t, err)
	const digest = "sha256:634a8f35b5f16dcf4aaa0822adc0b1964bb786fca12f6831de8ddc45e5986a00"
	own, err := sign(packregistry.NewKey(t).PrivateKey, "192.168.64.2:5000/cosign-signed-single-sample", digest)
	require.NoError(t, err)
	value, err := base64.StdEncoding.DecodeString("MEYCIQDmtamqYPjMg81nqeBhptrPls44aA/r7PwLmspINJY4MwIhANKRpqe2E9UCBtGFdPoz/8jAbaQm4uP4h+IpwKTE6ClR")
	require.NoError(t, err)
	// The payload that this package signs is the one that cosign signed, byte for byte.
	s := Signature{simpleSigning, own.Payload, value}
	require.NoError(t, verify(&Artifact{Digest: digest, Signatures: []Signature{s}}, keys))
	require.Error(t, verify(&Artifact{Digest: digest, Signatures: []Signature{own}}, keys))
}

func TestSigstoreBundle(t *testing.T) {
	r, key := packregistry.Start(t), packregistry.NewKey(t)
	a := artifactOf(t, "1.0.0", "x")
	remote := publish(t, r, a, nil)
	refer(t, remote, a, bundleOf(t, key.PrivateKey, signedPredicate, a.Digest))
	got, err := open(t, r, ":stable").Pull(t.Context())
	require.NoError(t, err)
	require.NoError(t, Policy{Keys: []*ecdsa.PublicKey{&key.PublicKey}}.Check(got, now))
}

// Manifests that somebody with the right key has signed, and that are refused all the same.
func TestRefusedManifests(t *testing.T) {
	f := func(want string, change func(m *ocispec.Manifest)) {
		t.Helper()
		r, key := packregistry.Start(t), packregistry.NewKey(t)
		a := artifactOf(t, "1.0.0", "x")
		remote := publish(t, r, a, key.PrivateKey)
		var m ocispec.Manifest
		require.NoError(t, json.Unmarshal(a.Manifest, &m))
		change(&m)
		digest := put(t, remote, m)
		require.NoError(t, remote.Sign(t.Context(), &Artifact{Digest: digest}, key.PrivateKey))
		_, err := open(t, r, ":stable").Pull(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(Refused))
	}
	file := func(name string) func(m *ocispec.Manifest) {
		return func(m *ocispec.Manifest) { m.Layers[0].Annotations[ocispec.AnnotationTitle] = name }
	}
	for _, name := range []string{"../evil.yaml", "/etc/evil.yaml", "a/../../evil.yaml", ".hidden.yaml", "a/.git/x.yaml", `a\..\x.yaml`, "run.sh", "", "a\x00.yaml", "c:x.yaml", "-rf.yaml"} {
		f("is not allowed", file(name))
	}
	f("in the artifact twice", file("sub/A.yml"))
	f("has no usable digest", func(m *ocispec.Manifest) { m.Layers[0].Digest = "sha512:" + digest.Digest(strings.Repeat("0", 128)) })
	f("bytes, more than", func(m *ocispec.Manifest) { m.Layers[0].Size = 1 << 40 })
	f("bytes, more than", func(m *ocispec.Manifest) { m.Layers[0].Size = -1 })
	f("together have more than 8 MiB", func(m *ocispec.Manifest) {
		l := m.Layers[0]
		m.Layers = nil
		for i := range 9 {
			l.Size, l.Annotations = rules.MaxFileBytes, map[string]string{ocispec.AnnotationTitle: fmt.Sprintf("%d.yaml", i)}
			m.Layers = append(m.Layers, l)
		}
	})
	f("1 to 1000 are allowed", func(m *ocispec.Manifest) { m.Layers = nil })
	f("1 to 1000 are allowed", func(m *ocispec.Manifest) {
		m.Layers = nil
		for range 1001 {
			m.Layers = append(m.Layers, ocispec.Descriptor{})
		}
	})
	f("media type", func(m *ocispec.Manifest) { m.Layers[0].MediaType = "application/x-sh" })
	f("not an artifact of rule packs", func(m *ocispec.Manifest) { m.ArtifactType = "" })
	f("not an artifact of rule packs", func(m *ocispec.Manifest) { m.ArtifactType = "application/vnd.example" })
	f("upgrade crowsnest", func(m *ocispec.Manifest) { m.Annotations[languageKey] = "2" })
	f("version of the pack format", func(m *ocispec.Manifest) { delete(m.Annotations, languageKey) })
	f("not a semantic version", func(m *ocispec.Manifest) { m.Annotations[ocispec.AnnotationVersion] = "latest" })
	f("no usable title", func(m *ocispec.Manifest) { delete(m.Annotations, ocispec.AnnotationTitle) })
	f("is not a time", func(m *ocispec.Manifest) { m.Annotations[expiresKey] = "tomorrow" })
	f("bytes, more than", func(m *ocispec.Manifest) { m.Annotations["padding"] = strings.Repeat("x", maxManifest) })
}

// Artifacts that are complete, but forged or stale.
func TestRefusedByPolicy(t *testing.T) {
	key, other := packregistry.NewKey(t), packregistry.NewKey(t)
	f := func(want string, prepare func(r *packregistry.Registry, p *Policy)) {
		t.Helper()
		r := packregistry.Start(t)
		p := Policy{Keys: []*ecdsa.PublicKey{&key.PublicKey}}
		prepare(r, &p)
		a, err := open(t, r, ":stable").Pull(t.Context())
		require.NoError(t, err)
		err = p.Check(a, now)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(Refused))
	}
	signed := func(r *packregistry.Registry, version, text string) *Artifact {
		a := artifactOf(t, version, text)
		publish(t, r, a, key.PrivateKey)
		return a
	}
	f("is not signed", func(r *packregistry.Registry, _ *Policy) { publish(t, r, artifactOf(t, "1.0.0", "x"), nil) })
	f("none was made with the given public key", func(r *packregistry.Registry, _ *Policy) {
		publish(t, r, artifactOf(t, "1.0.0", "x"), other.PrivateKey)
	})
	f("neither a digest nor a public key", func(r *packregistry.Registry, p *Policy) { signed(r, "1.0.0", "x"); p.Keys = nil })
	f("is older than version 1.1.0, which is in use", func(r *packregistry.Registry, p *Policy) {
		p.Last = signed(r, "1.1.0", "y").Last()
		signed(r, "1.0.0", "x")
	})
	f("in use with other content", func(r *packregistry.Registry, p *Policy) {
		p.Last = artifactOf(t, "1.0.0", "y").Last()
		signed(r, "1.0.0", "x")
	})
	f("older than the required 2.0.0", func(r *packregistry.Registry, p *Policy) { signed(r, "1.9.9", "x"); p.MinVersion = "2.0.0" })
	f(`"storage" is in use`, func(r *packregistry.Registry, p *Policy) {
		signed(r, "2.0.0", "x")
		p.Last = &Last{Digest: "sha256:0", Title: "storage", Version: "1.0.0"}
	})
	f("its digest is", func(r *packregistry.Registry, p *Policy) {
		p.Digest = signed(r, "1.0.0", "x").Digest
		signed(r, "1.0.1", "y")
	})
	f("expired at 2026-11-23T12:00:00Z", func(r *packregistry.Registry, _ *Policy) {
		a, err := New(packs("x"), Info{Title: "packs", Version: "1.0.0", Expires: now})
		require.NoError(t, err)
		publish(t, r, a, key.PrivateKey)
	})
	// Signatures with the right key, of something else.
	f("of something else: sha256:", func(r *packregistry.Registry, _ *Policy) {
		good, bad := signed(r, "1.0.0", "x"), artifactOf(t, "1.0.1", "evil")
		remote := publish(t, r, bad, nil)
		d, err := remote.repo.Resolve(t.Context(), signatureTag(good.Digest))
		require.NoError(t, err)
		require.NoError(t, remote.repo.Tag(t.Context(), d, signatureTag(bad.Digest)))
	})
	bundled := func(r *packregistry.Registry, predicate, of string) {
		a := artifactOf(t, "1.0.0", "x")
		refer(t, publish(t, r, a, nil), a, bundleOf(t, key.PrivateKey, predicate, of))
	}
	f("of something else: sha256:00", func(r *packregistry.Registry, _ *Policy) { bundled(r, signedPredicate, "sha256:00") })
	f("approves nothing", func(r *packregistry.Registry, _ *Policy) {
		bundled(r, "https://spdx.dev/Document", artifactOf(t, "1.0.0", "x").Digest)
	})
	f("is not signed", func(r *packregistry.Registry, _ *Policy) {
		a := artifactOf(t, "1.0.0", "x")
		refer(t, publish(t, r, a, nil), a, []byte(`{"dsseEnvelope": 1}`))
	})
	tampered := func(change func(s *Signature)) func(*packregistry.Registry, *Policy) {
		return func(r *packregistry.Registry, _ *Policy) {
			a := artifactOf(t, "1.0.0", "x")
			remote := publish(t, r, a, nil)
			s, err := sign(key.PrivateKey, "x", a.Digest)
			require.NoError(t, err)
			change(&s)
			layer := content.NewDescriptorFromBytes(simpleSigning, s.Payload)
			layer.Annotations = map[string]string{signatureKey: base64.StdEncoding.EncodeToString(s.Value)}
			m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON, Layers: []ocispec.Descriptor{layer}}
			m.SchemaVersion = 2
			put(t, remote, m, s.Payload)
			d, err := remote.repo.Resolve(t.Context(), "stable")
			require.NoError(t, err)
			require.NoError(t, remote.repo.Tag(t.Context(), d, signatureTag(a.Digest)))
			require.NoError(t, remote.Push(t.Context(), a, "stable"))
		}
	}
	f("none was made with the given", tampered(func(s *Signature) { s.Payload = append(s.Payload, ' ') }))
	f("none was made with the given", tampered(func(s *Signature) { s.Value[len(s.Value)-1] ^= 1 }))
	f("none was made with the given", tampered(func(s *Signature) { s.Value = nil }))
	f("a payload of the type", tampered(func(s *Signature) {
		s.Payload = []byte(strings.Replace(string(s.Payload), simpleType, "a letter", 1))
		sum := sha256.Sum256(s.Payload)
		s.Value, _ = ecdsa.SignASN1(rand.Reader, key.PrivateKey, sum[:])
	}))
}

func TestRollBackIfAllowed(t *testing.T) {
	old := artifactOf(t, "1.0.0", "x")
	p := Policy{Digest: old.Digest, Last: artifactOf(t, "1.1.0", "y").Last()}
	require.Error(t, p.Check(old, now))
	p.AllowOlder = true
	require.NoError(t, p.Check(old, now))
}

// Registries that misbehave.
func TestBadRegistries(t *testing.T) {
	a := artifactOf(t, "1.0.0", "x")
	elsewhere := packregistry.Start(t)
	f := func(want string, instead func(w http.ResponseWriter, r *http.Request) bool) error {
		t.Helper()
		r := packregistry.Start(t)
		publish(t, r, a, nil)
		r.Instead(instead)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		before := elsewhere.Requests()
		_, err := open(t, r, ":stable").Pull(ctx)
		require.ErrorContains(t, err, want)
		require.Equal(t, before, elsewhere.Requests(), "nothing is sent elsewhere")
		return err
	}
	blobs := func(answer func(w http.ResponseWriter, r *http.Request)) func(w http.ResponseWriter, r *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			answer(w, r)
			return true
		}
	}
	body := func(text string) func(w http.ResponseWriter, r *http.Request) bool {
		return blobs(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
	}
	require.ErrorAs(t, f("it was changed", body("b: y")), new(Refused))
	f("", body("b"))
	f("", body("b: x and more"))
	f("without TLS, which is refused", blobs(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+elsewhere.Host+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	f("without TLS, which is refused", func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+elsewhere.Host+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	f("redirects", func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
		return true
	})
	f("did not answer in time", blobs(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	f("access is denied", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true })
	f("does not have it", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusNotFound); return true })
	// A registry that sends without end is not read without end.
	f("", func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			return false
		}
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return true
			}
		}
		return true
	})

	ref, err := ParseReference(elsewhere.Host + "/team/packs:1.0.0")
	require.NoError(t, err)
	tls, err := Open(ref, Options{})
	require.NoError(t, err)
	_, err = tls.Resolve(t.Context())
	require.ErrorContains(t, err, "does not use TLS")
	for _, text := range []string{"", "packs", "registry.example.org/packs", "registry.example.org/packs@sha256:12", "https://registry.example.org/packs:1"} {
		_, err := ParseReference(text)
		require.Error(t, err, text)
	}
}

// Credentials come from the options or from Docker's configuration, for both kinds of
// authentication.
func TestCredentials(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	a := artifactOf(t, "1.0.0", "x")
	basic := func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "ada" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	token := func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/token":
			if !basic(w, r) {
				_, _ = w.Write([]byte(`{"token": "abc"}`))
			}
			return true
		case r.Header.Get("Authorization") == "Bearer abc":
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for _, authenticate := range []func(http.ResponseWriter, *http.Request) bool{basic, token} {
		r := packregistry.Start(t)
		publish(t, r, a, nil)
		r.Instead(authenticate)
		ref, err := ParseReference(r.Host + "/team/packs:1.0.0")
		require.NoError(t, err)
		pull := func(opt Options) error {
			opt.PlainHTTP = true
			remote, err := Open(ref, opt)
			require.NoError(t, err)
			defer remote.Close()
			_, err = remote.Pull(t.Context())
			return err
		}
		require.NoError(t, pull(Options{Username: "ada", Password: "secret"}))
		require.ErrorContains(t, pull(Options{Username: "ada", Password: "wrong"}), "docker login "+r.Host)
		require.ErrorContains(t, pull(Options{}), "docker login "+r.Host)
		config := `{"auths": {"` + r.Host + `": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("ada:secret")) + `"}}}`
		require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
		require.NoError(t, pull(Options{}))
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "packs")
	last, err := InFolder(dir)
	require.NoError(t, err)
	require.Nil(t, last)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		a := artifactOf(t, version, version)
		require.NoError(t, Write(dir, a))
		last, err = InFolder(dir)
		require.NoError(t, err)
		require.Equal(t, a.Last(), last)
		files, err := ReadFolder(dir)
		require.NoError(t, err)
		require.Equal(t, a.Files, files)
		around, err := os.ReadDir(filepath.Dir(dir))
		require.NoError(t, err)
		require.Len(t, around, 1, "nothing else is left")
	}
	// What a kill left: a folder that is not complete, or one between the two renames.
	require.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(dir), ".packs.pull-new", "sub"), 0o755))
	require.NoError(t, Write(dir, artifactOf(t, "1.2.0", "z")))
	require.NoError(t, os.Rename(dir, filepath.Join(filepath.Dir(dir), ".packs.pull-old")))
	bad := artifactOf(t, "1.3.0", "z")
	bad.Files = append(bad.Files, rules.File{Name: "b.yaml/c.yaml"})
	require.Error(t, Write(dir, bad))
	last, err = InFolder(dir)
	require.NoError(t, err)
	require.Equal(t, "1.2.0", last.Version, "the previous version stays")

	mine := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(mine, "a.yaml"), nil, 0o644))
	_, err = InFolder(mine)
	require.ErrorContains(t, err, "did not write")
	require.ErrorContains(t, Write(filepath.Join(mine, "a.yaml"), bad), "is not a folder")
}

func TestKeys(t *testing.T) {
	key := packregistry.NewKey(t)
	private, err := os.ReadFile(key.Private)
	require.NoError(t, err)
	public, err := os.ReadFile(key.Public)
	require.NoError(t, err)
	got, err := PrivateKey(private)
	require.NoError(t, err)
	require.True(t, got.Equal(key.PrivateKey))
	both, err := PublicKeys(append(public, public...))
	require.NoError(t, err)
	require.Len(t, both, 2)
	_, err = PublicKeys(private)
	require.ErrorContains(t, err, "private key")
	_, err = PublicKeys([]byte("nonsense"))
	require.ErrorContains(t, err, "no public key")
	_, err = PrivateKey([]byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neA==\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"))
	require.ErrorContains(t, err, "encrypted")
}
