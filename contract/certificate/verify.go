package certificate

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
)

const (
	// MaxBytes is how large a file may be.
	MaxBytes = 8 << 20

	mostFindings = 20
	maxPointer   = 1024
)

// Verify checks a file against public keys that the caller trusts. An error is
// of type FieldErrors and names the fields that were changed, added or removed.
// A problem without a path is about the file as a whole.
func Verify(raw []byte, keys []Key) (*Signed, error) {
	return read(raw, func(s *Signed) *FieldError { return s.checkSignature(keys) })
}

// Read reads a file without checking who signed it, to show it. In everything
// else it is as strict as Verify.
func Read(raw []byte) (*Signed, error) {
	return read(raw, func(*Signed) *FieldError { return nil })
}

func read(raw []byte, checkSignature func(*Signed) *FieldError) (*Signed, error) {
	if len(raw) > MaxBytes {
		return nil, whole("the file has %d bytes; at most %d can be right", len(raw), MaxBytes)
	}
	canonical, err := agentwire.Canonical(raw)
	if err != nil {
		return nil, whole("not a signed file: %v", err)
	}
	s, document, err := open(canonical)
	if err != nil {
		return nil, err
	}
	found, err := compare(document, s.Fields)
	if err != nil {
		return nil, err
	}
	if bad := checkSignature(s); bad != nil {
		found = append(found, bad)
	}
	if len(found) == 0 {
		found = s.checkContent(document)
	}
	if at := differsAt(raw, canonical); len(found) == 0 && at >= 0 {
		found = whole("byte %d differs from the canonical form that was issued; the fields themselves are unchanged", at)
	}
	if len(found) > 0 {
		return nil, found
	}
	return s, nil
}

func whole(format string, args ...any) FieldErrors {
	return FieldErrors{{Problem: fmt.Sprintf(format, args...)}}
}

// differsAt returns the first byte that is not as it was issued, or -1. The
// file may end with a line break.
func differsAt(raw, canonical []byte) int {
	if bytes.Equal(raw, canonical) || bytes.Equal(raw, append(slices.Clone(canonical), '\n')) {
		return -1
	}
	for i := range min(len(raw), len(canonical)) {
		if raw[i] != canonical[i] {
			return i
		}
	}
	return min(len(raw), len(canonical))
}

// open takes a file apart without believing any of it. It does not decode the
// document: its content is read only after its digests are right.
func open(canonical []byte) (*Signed, json.RawMessage, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &parts); err != nil {
		return nil, nil, whole("not a signed file: it must be a JSON object")
	}
	wanted := []string{"document", "fields", "signature"}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if !slices.Contains(wanted, name) {
			return nil, nil, FieldErrors{{
				"/" + pointerEscapes.Replace(name),
				"was added: a signed file has document, fields and signature",
			}}
		}
	}
	for _, name := range wanted {
		if parts[name] == nil {
			return nil, nil, FieldErrors{{"/" + name, "was removed: a signed file has document, fields and signature"}}
		}
	}
	if parts["document"][0] != '{' {
		return nil, nil, FieldErrors{{"/document", "must be an object"}}
	}
	s := &Signed{raw: canonical}
	if json.Unmarshal(parts["fields"], &s.Fields) != nil || s.Fields == nil {
		return nil, nil, FieldErrors{{"/fields", "must be digests by JSON pointer"}}
	}
	for at := range s.Fields {
		if len(at) > maxPointer {
			return nil, nil, FieldErrors{{"/fields", fmt.Sprintf("has a JSON pointer of %d bytes", len(at))}}
		}
	}
	if err := exactly(parts["signature"], &s.Signature); err != nil {
		return nil, nil, FieldErrors{{"/signature", err.Error()}}
	}
	return s, parts["document"], nil
}

// exactly decodes canonical JSON into a value that encodes to the very same
// bytes: nothing is unknown, left out or spelled in another way.
func exactly(canonical json.RawMessage, into any) error {
	if err := json.Unmarshal(canonical, into); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	again, err := canonicalOf(into)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, canonical) {
		return errors.New("has members that are unknown, missing or spelled in another way")
	}
	return nil
}

// compare finds where a document differs from its digests.
func compare(document json.RawMessage, signed map[string]string) (FieldErrors, error) {
	have, err := leavesOf(document)
	if err != nil {
		return nil, whole("not a signed file: %v", err)
	}
	var found FieldErrors
	lengths := listLengths(signed)
	explained := map[string]bool{} // lists of another length; everything below them has moved
	for at, n := range have.lists {
		if n != lengths[at] {
			explained[at] = true
		}
	}
	for at := range explained {
		if !under(parent(at), explained) {
			found = append(found, &FieldError{
				documentPath(at),
				fmt.Sprintf("has %d entries, and %d were signed", have.lists[at], lengths[at]),
			})
		}
	}
	for at := range have.digests {
		switch want, ok := signed[at]; {
		case under(at, explained) || want == have.digests[at]:
		case !ok:
			found = append(found, &FieldError{documentPath(at), "was added: it has no signed digest"})
		default:
			found = append(found, &FieldError{documentPath(at), "was changed: it is not what its signed digest says"})
		}
	}
	for at := range signed {
		if _, ok := have.digests[at]; !ok && !under(at, explained) {
			found = append(found, &FieldError{documentPath(at), "was removed: its signed digest is left over"})
		}
	}
	slices.SortStableFunc(found, func(a, b *FieldError) int { return strings.Compare(a.Path, b.Path) })
	if more := len(found) - mostFindings; more > 0 {
		found = append(found[:mostFindings], &FieldError{Problem: fmt.Sprintf("and %d more fields", more)})
	}
	return found, nil
}

func documentPath(at string) string { return "/document" + at }

// parent returns the pointer above another. The whole document has none.
func parent(at string) string {
	return at[:max(strings.LastIndexByte(at, '/'), 0)]
}

// under reports whether a place is one of the lists, or below one.
func under(at string, lists map[string]bool) bool {
	for ; at != ""; at = parent(at) {
		if lists[at] {
			return true
		}
	}
	return lists[""]
}

// listLengths returns how many entries each list had when it was signed. If
// something only looks like a list, that does no harm: only lists are asked
// for.
func listLengths(signed map[string]string) map[string]int {
	out := map[string]int{}
	for at := range signed {
		for at != "" {
			above := parent(at)
			if i, err := strconv.Atoi(at[len(above)+1:]); err == nil && i >= 0 && i < MaxBytes {
				out[above] = max(out[above], i+1)
			}
			at = above
		}
	}
	return out
}

func (s *Signed) checkSignature(keys []Key) *FieldError {
	if s.Signature.Algorithm != Algorithm {
		return &FieldError{"/signature/algorithm", fmt.Sprintf("%q is not %s", s.Signature.Algorithm, Algorithm)}
	}
	i := slices.IndexFunc(keys, func(k Key) bool { return k.KeyID == s.Signature.KeyID })
	if i < 0 {
		return &FieldError{"/signature/key_id", fmt.Sprintf("%q is none of the keys to check with", s.Signature.KeyID)}
	}
	value, err := base64.StdEncoding.Strict().DecodeString(s.Signature.Value)
	if err != nil || base64.StdEncoding.EncodeToString(value) != s.Signature.Value || len(value) != ed25519.SignatureSize {
		return &FieldError{"/signature/value", "is no signature in base64"}
	}
	text, err := message(s.Fields, s.Signature.KeyID)
	if err != nil {
		return &FieldError{"/fields", err.Error()}
	}
	if len(keys[i].PublicKey) != ed25519.PublicKeySize || !ed25519.Verify(keys[i].PublicKey, text, value) {
		return &FieldError{"/signature/value", fmt.Sprintf("is not the signature of key %s over these fields",
			s.Signature.KeyID)}
	}
	return nil
}

// checkContent reads a document whose digests and signature are right.
func (s *Signed) checkContent(document json.RawMessage) FieldErrors {
	if err := exactly(document, &s.Document); err != nil {
		return FieldErrors{{"/document", err.Error()}}
	}
	var bad FieldErrors
	if err := s.Document.Validate(); errors.As(err, &bad) {
		for _, b := range bad {
			b.Path = documentPath(b.Path)
		}
	}
	return bad
}
