package certificate

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"gpuaas/contract/agentwire"
)

const (
	// Algorithm is the only signature algorithm.
	Algorithm = "ed25519"

	// domain keeps signatures of documents apart from those of anything else
	// that the same engine signs.
	domain = "gpuaas certificate 1\n"
)

// Signed is a file: a document, the digests of its leaves, and the signature
// over these.
type Signed struct {
	Document  Document          `json:"document"`
	Fields    map[string]string `json:"fields" doc:"SHA-256 of each leaf of the document, by JSON pointer."`
	Signature Signature         `json:"signature"`

	raw []byte // in canonical form
}

// Signature says who vouches for the digests.
type Signature struct {
	KeyID     string `json:"key_id"`
	Algorithm string `json:"algorithm" enum:"ed25519"`
	Value     string `json:"value" doc:"Base64."`
}

// Bytes returns the file as it is handed out.
func (s *Signed) Bytes() []byte { return slices.Clone(s.raw) }

// Digest returns what the next document of the node names.
func (s *Signed) Digest() string { return digest(s.raw) }

// DigestOf returns the digest of a JSON document, however it is spelled.
func DigestOf(document []byte) (string, error) {
	canonical, err := agentwire.Canonical(document)
	if err != nil {
		return "", err
	}
	return digest(canonical), nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Unsigned is a document that is ready to be signed.
type Unsigned struct {
	document Document
	keyID    string
	fields   map[string]string
	message  []byte
}

// Prepare makes a document ready to be signed with a key. It refuses an invalid
// one.
func Prepare(d Document, keyID string) (*Unsigned, error) {
	fillLists(reflect.ValueOf(&d).Elem())
	if err := d.Validate(); err != nil {
		return nil, err
	}
	raw, err := canonicalOf(d)
	if err != nil {
		return nil, err
	}
	leaves, err := leavesOf(raw)
	if err != nil {
		return nil, err
	}
	u := &Unsigned{document: d, keyID: keyID, fields: leaves.digests}
	if u.message, err = message(u.fields, keyID); err != nil {
		return nil, err
	}
	return u, nil
}

// fillLists turns missing lists into empty ones, in a copy. An empty list says
// that there is nothing, and readers need not know two ways to say so.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			fillLists(own.Elem())
			v.Set(own)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillLists(v.Field(i))
			}
		}
	case reflect.Slice:
		items := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(items, v)
		for i := range items.Len() {
			fillLists(items.Index(i))
		}
		v.Set(items)
	default: // has no lists inside
	}
}

// Message returns what must be signed.
func (u *Unsigned) Message() []byte { return slices.Clone(u.message) }

// Seal makes the file from a document and the signature of its message.
func (u *Unsigned) Seal(signature []byte) (*Signed, error) {
	s := &Signed{Document: u.document, Fields: u.fields, Signature: Signature{
		KeyID: u.keyID, Algorithm: Algorithm, Value: base64.StdEncoding.EncodeToString(signature),
	}}
	var err error
	s.raw, err = canonicalOf(s)
	return s, err
}

// message returns the digests and who signs them, after words with which no
// other signed thing begins.
func message(fields map[string]string, keyID string) ([]byte, error) {
	body, err := canonicalOf(map[string]any{"algorithm": Algorithm, "fields": fields, "format": Format, "key_id": keyID})
	if err != nil {
		return nil, err
	}
	return append([]byte(domain), body...), nil
}

func canonicalOf(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return agentwire.Canonical(raw)
}

// leaves is a document in its parts.
type leaves struct {
	digests map[string]string // of each leaf, by JSON pointer
	lists   map[string]int    // length of each list, by JSON pointer
}

func leavesOf(document []byte) (leaves, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return leaves{}, fmt.Errorf("decode: %w", err)
	}
	l := leaves{digests: map[string]string{}, lists: map[string]int{}}
	return l, l.add("", value)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// add records a value and all below it. Something empty is a leaf too: that a
// list is empty is a statement.
func (l leaves) add(at string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if err := l.add(at+"/"+pointerEscapes.Replace(name), member); err != nil {
				return err
			}
		}
		if len(v) > 0 {
			return nil
		}
	case []any:
		l.lists[at] = len(v)
		for i, item := range v {
			if err := l.add(fmt.Sprintf("%s/%d", at, i), item); err != nil {
				return err
			}
		}
		if len(v) > 0 {
			return nil
		}
	}
	canonical, err := canonicalOf(value)
	if err != nil {
		return err
	}
	l.digests[at] = digest(canonical)
	return nil
}

// Key is a public key with which documents are checked.
type Key struct {
	KeyID     string `json:"key_id" example:"gpuaas-certificates-1"`
	Algorithm string `json:"algorithm" enum:"ed25519"`
	PublicKey []byte `json:"public_key" doc:"Base64."`
}

// Fingerprint is short enough to be compared by eye or read out.
func (k Key) Fingerprint() string { return digest(k.PublicKey) }

// Keys is a file of keys, as the control plane publishes it.
type Keys struct {
	Keys []Key `json:"keys" nullable:"false" doc:"Those that sign now and all that ever did."`
}

// ParseKeys reads a file of keys.
func ParseKeys(raw []byte) ([]Key, error) {
	if _, err := agentwire.Canonical(raw); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var file Keys
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(file.Keys) == 0 {
		return nil, fmt.Errorf("read keys: there are none")
	}
	seen := map[string]bool{}
	for i, k := range file.Keys {
		switch {
		case k.Algorithm != Algorithm || len(k.PublicKey) != ed25519.PublicKeySize:
			return nil, fmt.Errorf("read keys: /keys/%d is no %s public key", i, Algorithm)
		case k.KeyID == "" || seen[k.KeyID]:
			return nil, fmt.Errorf("read keys: /keys/%d has no id of its own", i)
		}
		seen[k.KeyID] = true
	}
	return file.Keys, nil
}
