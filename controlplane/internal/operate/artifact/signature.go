package artifact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Format is how a signature is written.
type Format string

// The formats of signatures.
const (
	// Bundle is a Sigstore bundle among the referrers, as cosign writes it since version 3.
	Bundle Format = "sigstore_bundle"
	// SimpleSigning is a manifest under the tag sha256-….sig, as cosign wrote it before.
	SimpleSigning Format = "simple_signing"
)

const (
	typeBundle        = "application/vnd.dev.sigstore.bundle.v0.3+json"
	typeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	typeInToto        = "application/vnd.in-toto+json"
	typeStatement     = "https://in-toto.io/Statement/v1"
	typeStatementV01  = "https://in-toto.io/Statement/v0.1"
	predicateSign     = "https://sigstore.dev/cosign/sign/v1"
	typeCosign        = "cosign container image signature"
	annotationSig     = "dev.cosignproject.cosign/signature"

	maxBundle  = 128 << 10
	maxPayload = 64 << 10
)

// subject is what a signature must be of.
type subject struct{ repository, digest string }

// by finds the key that signed a message and may sign for the repository.
func (of subject) by(keys []Key, message, signature []byte) (Key, error) {
	for _, k := range keys {
		if k.maySign(of.repository) && k.signed(message, signature) {
			return k, nil
		}
	}
	return Key{}, fmt.Errorf("it is by no key that is trusted now for %s", of.repository)
}

// bundle is what counts of a Sigstore bundle with a managed key. Its hint of a key is
// not authenticated, so every key is tried.
type bundle struct {
	MediaType string `json:"mediaType"`
	Envelope  *struct {
		Payload     []byte `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// checkBundle says which key signed a digest by a bundle. What is signed is believed only
// after the signature is.
func (of subject) checkBundle(raw []byte, keys []Key) (Key, error) {
	var b bundle
	if err := json.Unmarshal(raw, &b); err != nil {
		return Key{}, errors.New("the bundle cannot be read")
	}
	switch {
	case b.MediaType != typeBundle:
		return Key{}, errors.New("the bundle is of another version than v0.3")
	case b.Envelope == nil || len(b.Envelope.Signatures) != 1:
		return Key{}, errors.New("the bundle holds no envelope with one signature")
	case b.Envelope.PayloadType != typeInToto:
		return Key{}, errors.New("the bundle signs something else than a statement of in-toto")
	}
	e := b.Envelope
	key, err := of.by(keys, preAuthentication(e.PayloadType, e.Payload), e.Signatures[0].Sig)
	if err != nil {
		return Key{}, err
	}
	var s struct {
		Type      string `json:"_type"`
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return Key{}, errors.New("the statement cannot be read")
	}
	switch {
	case s.Type != typeStatement && s.Type != typeStatementV01:
		return Key{}, errors.New("the statement is of an unknown type")
	case s.Predicate != predicateSign:
		return Key{}, errors.New("the statement says something else than that the artifact is signed")
	}
	for _, one := range s.Subject {
		if "sha256:"+one.Digest["sha256"] == of.digest {
			return key, nil
		}
	}
	return Key{}, errors.New("it is of another digest")
}

// preAuthentication is what is signed of an envelope: DSSE writes type and payload with
// their lengths, so that nothing can be taken for the other.
func preAuthentication(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}

// checkSimple says which key signed a digest in a repository by a payload of the older
// form.
func (of subject) checkSimple(payload []byte, encoded string, keys []Key) (Key, error) {
	signature, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Key{}, errors.New("the signature is no base64")
	}
	key, err := of.by(keys, payload, signature)
	if err != nil {
		return Key{}, err
	}
	var p struct {
		Critical struct {
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Type string `json:"type"`
		} `json:"critical"`
	}
	switch err := json.Unmarshal(payload, &p); {
	case err != nil:
		return Key{}, errors.New("what is signed cannot be read")
	case p.Critical.Type != typeCosign:
		return Key{}, errors.New("what is signed is of an unknown type")
	case p.Critical.Image.Digest != of.digest:
		return Key{}, errors.New("it is of another digest")
	case !names(p.Critical.Identity.Reference, of.repository):
		return Key{}, errors.New("it is of another repository")
	}
	return key, nil
}

// names says whether a reference, with or without a tag or digest, is to a repository.
func names(reference, repository string) bool {
	rest, ok := strings.CutPrefix(reference, repository)
	return ok && (rest == "" || (rest[0] == ':' || rest[0] == '@') && !strings.Contains(rest, "/"))
}
