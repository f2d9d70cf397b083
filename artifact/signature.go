package artifact

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The forms in which cosign stores signatures that are made with a key.
const (
	simpleSigning   = "application/vnd.dev.cosign.simplesigning.v1+json"
	sigstoreBundle  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	signatureKey    = "dev.cosignproject.cosign/signature" // annotation of a layer
	simpleType      = "cosign container image signature"
	inTotoType      = "application/vnd.in-toto+json"
	signedPredicate = "https://sigstore.dev/cosign/sign/v1"
)

// Signature is a signature of an artifact's digest, not verified yet.
type Signature struct {
	// Form is the media type of the document that Payload comes from.
	Form string
	// Payload is the signed document, which names the digest.
	Payload []byte
	// Value is the signature (ASN.1, ECDSA with SHA-256).
	Value []byte
}

// simple is the payload of the form simpleSigning.
type simple struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// statement is the payload of the form sigstoreBundle.
type statement struct {
	Subject []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
	PredicateType string `json:"predicateType"`
}

// sign signs a digest as `cosign sign --key` does. reference is the repository.
func sign(key *ecdsa.PrivateKey, reference, digest string) (Signature, error) {
	var s simple
	s.Critical.Identity.Reference, s.Critical.Image.Digest, s.Critical.Type = reference, digest, simpleType
	payload, err := json.Marshal(s)
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	sum := sha256.Sum256(payload)
	value, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		return Signature{}, fmt.Errorf("sign: %w", err)
	}
	return Signature{simpleSigning, payload, value}, nil
}

// verify checks that one of the keys signed the artifact.
func verify(a *Artifact, keys []*ecdsa.PublicKey) error {
	if len(a.Signatures) == 0 {
		return fmt.Errorf("%s is not signed; sign it with crowsnest rules push --key, or with cosign sign --key", a.Digest)
	}
	var other string
	for _, s := range a.Signatures {
		if !slices.ContainsFunc(keys, s.by) {
			continue
		}
		of, err := s.digest()
		if err == nil && of == a.Digest {
			return nil
		}
		if other = of; err != nil {
			other = err.Error()
		}
	}
	if other != "" {
		return fmt.Errorf("the signature is not of %s but of something else: %s", a.Digest, other)
	}
	return fmt.Errorf("%s has %d signatures, and none was made with the given public key", a.Digest, len(a.Signatures))
}

// by reports whether the key made the signature.
func (s Signature) by(key *ecdsa.PublicKey) bool {
	signed := s.Payload
	if s.Form == sigstoreBundle { // DSSE signs the type with the payload
		signed = fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(inTotoType), inTotoType, len(s.Payload), s.Payload)
	}
	sum := sha256.Sum256(signed)
	return ecdsa.VerifyASN1(key, sum[:], s.Value)
}

// digest returns the digest that the payload names. The signature must be verified.
func (s Signature) digest() (string, error) {
	if s.Form == sigstoreBundle {
		var st statement
		if err := json.Unmarshal(s.Payload, &st); err != nil {
			return "", fmt.Errorf("its statement cannot be read: %w", err)
		}
		if st.PredicateType != signedPredicate || len(st.Subject) != 1 {
			return "", fmt.Errorf("a statement of the type %.80q, which approves nothing", st.PredicateType)
		}
		return "sha256:" + st.Subject[0].Digest["sha256"], nil
	}
	var p simple
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		return "", fmt.Errorf("its payload cannot be read: %w", err)
	}
	if p.Critical.Type != simpleType {
		return "", fmt.Errorf("a payload of the type %.80q", p.Critical.Type)
	}
	return p.Critical.Image.Digest, nil
}

// bundle is the part of a sigstore bundle that matters for signatures made with a key.
type bundle struct {
	Envelope struct {
		Payload     []byte `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Value []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// ofBundle returns the signature in a sigstore bundle.
func ofBundle(data []byte) (Signature, error) {
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return Signature{}, fmt.Errorf("the bundle cannot be read: %w", err)
	}
	if b.Envelope.PayloadType != inTotoType || len(b.Envelope.Signatures) != 1 {
		return Signature{}, errors.New("the bundle has no statement with one signature")
	}
	return Signature{sigstoreBundle, b.Envelope.Payload, b.Envelope.Signatures[0].Value}, nil
}

// PublicKeys reads the public keys of a PEM file, such as cosign.pub. Several keys in
// one file allow key rotation.
func PublicKeys(data []byte) ([]*ecdsa.PublicKey, error) {
	var out []*ecdsa.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if strings.Contains(block.Type, "PRIVATE") {
			return nil, errors.New("this is a private key; name the public key")
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a public key: %w", err)
		}
		key, is := parsed.(*ecdsa.PublicKey)
		if !is || key.Curve != elliptic.P256() {
			return nil, errors.New("the key is not ECDSA P-256, the kind that cosign generate-key-pair makes")
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("the file has no public key in PEM form (BEGIN PUBLIC KEY)")
	}
	return out, nil
}

// PrivateKey reads a private key in PEM form without a password (PKCS #8 or SEC 1).
func PrivateKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the file has no private key in PEM form")
	}
	if strings.Contains(block.Type, "ENCRYPTED") {
		return nil, errors.New("the key is encrypted; push without --key, and sign with cosign sign --key")
	}
	var parsed any
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if block.Type == "EC PRIVATE KEY" {
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	key, is := parsed.(*ecdsa.PrivateKey)
	if !is || key.Curve != elliptic.P256() {
		return nil, errors.New("the key is not ECDSA P-256; make one with openssl ecparam -genkey -noout -name prime256v1")
	}
	return key, nil
}
