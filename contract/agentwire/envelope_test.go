package agentwire_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

const node = "0190b2f4-7c1e-7d3a-8f5b-2c6d9e0a1b3c"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)

// keyOf is a key that is the same in every run, which fuzzing needs.
func keyOf(name string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte((name + strings.Repeat(".", ed25519.SeedSize))[:ed25519.SeedSize]))
}

func verifier(name string) agentwire.Verifier {
	return agentwire.Verifier{ID: name, PublicKey: keyOf(name).Public().(ed25519.PublicKey), State: "active"}
}

func set() agentwire.VerifierSet {
	return agentwire.VerifierSet{
		Version: 3, Verifiers: []agentwire.Verifier{verifier("old"), verifier("new")},
		Revoked: []string{"stolen"},
	}
}

func envelope() agentwire.Envelope {
	return agentwire.Envelope{
		TaskID: "0190b2f4-7c1e-7d3a-8f5b-000000000001", NodeID: node, Type: agentwire.TypeDrain,
		Params: json.RawMessage(`{"reason":"<maintenance> & more","revoke_users":true}`), Generation: 4, Attempt: 1,
		IssuedAt: noon, ExpiresAt: noon.Add(15 * time.Minute), CorrelationID: "c1", TraceParent: "00-aa-bb-01",
		SignerVersion: "new",
	}
}

func signed(tb testing.TB, e agentwire.Envelope) agentwire.Envelope {
	tb.Helper()
	message, err := e.SignedBytes()
	if err != nil {
		tb.Fatal(err)
	}
	e.Signature = ed25519.Sign(keyOf(e.SignerVersion), message)
	return e
}

// overTheWire is what the node has in its hands.
func overTheWire(tb testing.TB, e agentwire.Envelope) agentwire.Envelope {
	tb.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		tb.Fatal(err)
	}
	var out agentwire.Envelope
	if err := json.Unmarshal(b, &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestASignedTaskIsAccepted(t *testing.T) {
	for _, by := range []string{"old", "new"} {
		e := envelope()
		e.SignerVersion = by
		e.IssuedAt, e.ExpiresAt = e.IssuedAt.In(time.FixedZone("", 3600)), e.ExpiresAt.Add(400*time.Microsecond)
		got, refusal := set().Verify(overTheWire(t, signed(t, e)), node, 4, noon)
		if refusal != nil {
			t.Fatal(refusal)
		}
		p, ok := got.Params.(*agentwire.DrainParams)
		if !ok || p.Reason != "<maintenance> & more" || !p.RevokeUsers || got.Spec.Type != agentwire.TypeDrain ||
			got.TaskID != e.TaskID {
			t.Errorf("%+v", got)
		}
	}
	e := signed(t, envelope())
	e.Params = json.RawMessage("{ \"revoke_users\" : true,\n \"reason\":\"\\u003cmaintenance> & more\" }")
	if _, refusal := set().Verify(e, node, 4, noon); refusal != nil {
		t.Errorf("the same parameters, written otherwise: %v", refusal)
	}
}

func TestEveryReasonOfARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agentwire.Envelope) // before it is signed
		forge  func(*agentwire.Envelope) // afterwards
		want   agentwire.Reason
	}{
		"unknown type": {
			change: func(e *agentwire.Envelope) { e.Type = "node.run_command" },
			want:   agentwire.RefusedUnknownType,
		},
		"no signature": {
			forge: func(e *agentwire.Envelope) { e.Signature = nil },
			want:  agentwire.RefusedBadSignature,
		},
		"signature of another": {
			forge: func(e *agentwire.Envelope) { e.SignerVersion = "old" },
			want:  agentwire.RefusedBadSignature,
		},
		"no canonical form": {
			forge: func(e *agentwire.Envelope) { e.Params = json.RawMessage(`{"a":1,"a":2}`) },
			want:  agentwire.RefusedBadSignature,
		},
		"no parameters at all": {forge: func(e *agentwire.Envelope) { e.Params = nil }, want: agentwire.RefusedBadSignature},
		"unknown signer": {
			change: func(e *agentwire.Envelope) { e.SignerVersion = "stranger" },
			want:   agentwire.RefusedUnknownSigner,
		},
		"no signer": {
			forge: func(e *agentwire.Envelope) { e.SignerVersion = "" },
			want:  agentwire.RefusedUnknownSigner,
		},
		"revoked signer": {
			change: func(e *agentwire.Envelope) { e.SignerVersion = "stolen" },
			want:   agentwire.RefusedRevokedSigner,
		},
		"expired": {change: func(e *agentwire.Envelope) { e.ExpiresAt = noon }, want: agentwire.RefusedExpired},
		"a clock that is late": {
			change: func(e *agentwire.Envelope) { e.IssuedAt = noon.Add(10 * time.Minute) },
			want:   agentwire.RefusedClockSkew,
		},
		"a clock that is early": {change: func(e *agentwire.Envelope) {
			e.IssuedAt, e.ExpiresAt = noon.Add(-10*time.Minute), noon.Add(-9*time.Minute)
		}, want: agentwire.RefusedExpired},
		"another node": {
			change: func(e *agentwire.Envelope) { e.NodeID = strings.Replace(node, "0190", "0191", 1) },
			want:   agentwire.RefusedWrongNode,
		},
		"older generation": {
			change: func(e *agentwire.Envelope) { e.Generation = 3 },
			want:   agentwire.RefusedStaleGeneration,
		},
		"unknown parameter": {
			change: func(e *agentwire.Envelope) { e.Params = json.RawMessage(`{"command":"rm"}`) },
			want:   agentwire.RefusedInvalidParams,
		},
		"parameter misspelt": {change: func(e *agentwire.Envelope) {
			e.Params = json.RawMessage(
				`{"reason":"a","Reason":"b"}`)
		}, want: agentwire.RefusedInvalidParams},
		"wrong parameter": {change: func(e *agentwire.Envelope) {
			e.Params = json.RawMessage(
				`{"resume":true,"revoke_users":true}`)
		}, want: agentwire.RefusedInvalidParams},
		"parameters are null": {
			change: func(e *agentwire.Envelope) { e.Params = json.RawMessage(`null`) },
			want:   agentwire.RefusedInvalidParams,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := envelope()
			if c.change != nil {
				c.change(&e)
			}
			e = signed(t, e)
			if c.forge != nil {
				c.forge(&e)
			}
			got, refusal := set().Verify(e, node, 4, noon)
			if refusal == nil || refusal.Reason != c.want || refusal.Detail == "" ||
				!strings.Contains(refusal.Error(), string(c.want)) {
				t.Errorf("%+v, want %s", refusal, c.want)
			}
			if got.Params != nil {
				t.Error("a refused task has parameters to act on")
			}
		})
	}
}

// Fields that are not signed could be changed on the way, so all are signed.
func TestEveryFieldIsSigned(t *testing.T) {
	for name, forge := range map[string]func(*agentwire.Envelope){
		"task id":        func(e *agentwire.Envelope) { e.TaskID += "0" },
		"node":           func(e *agentwire.Envelope) { e.NodeID += "0" },
		"type":           func(e *agentwire.Envelope) { e.Type = agentwire.TypeUninstall },
		"parameters":     func(e *agentwire.Envelope) { e.Params = json.RawMessage(`{"reason":"","revoke_users":false}`) },
		"generation":     func(e *agentwire.Envelope) { e.Generation++ },
		"attempt":        func(e *agentwire.Envelope) { e.Attempt++ },
		"issued at":      func(e *agentwire.Envelope) { e.IssuedAt = e.IssuedAt.Add(time.Millisecond) },
		"expires at":     func(e *agentwire.Envelope) { e.ExpiresAt = e.ExpiresAt.Add(time.Millisecond) },
		"correlation id": func(e *agentwire.Envelope) { e.CorrelationID = "" },
		"trace parent":   func(e *agentwire.Envelope) { e.TraceParent = "" },
		"one bit":        func(e *agentwire.Envelope) { e.Signature[10] ^= 1 },
		"not text":       func(e *agentwire.Envelope) { e.CorrelationID = "\xff" },
		"other not text": func(e *agentwire.Envelope) { e.TraceParent = "\xe2" },
	} {
		e := signed(t, envelope())
		forge(&e)
		if _, refusal := set().Verify(e, node, 0, noon); refusal == nil || refusal.Reason != agentwire.RefusedBadSignature {
			t.Errorf("%s can be changed: %v", name, refusal)
		}
	}
}

func TestASignatureOverATaskIsNoneOverAPackage(t *testing.T) {
	const version, digest = "1.2.3", "sha256:abc"
	good := ed25519.Sign(keyOf("old"), agentwire.PackageSignedBytes(version, digest))
	if err := set().VerifyPackage(version, digest, "old", good); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		version, digest, signer string
		signature               []byte
	}{
		"another version":   {"1.2.4", digest, "old", good},
		"another digest":    {version, "sha256:abd", "old", good},
		"a line moved over": {version + "\n" + digest, "", "old", good},
		"another signer":    {version, digest, "new", good},
		"unknown signer": {
			version, digest, "stranger",
			ed25519.Sign(keyOf("stranger"), agentwire.PackageSignedBytes(version, digest)),
		},
		"revoked signer": {
			version, digest, "stolen",
			ed25519.Sign(keyOf("stolen"), agentwire.PackageSignedBytes(version, digest)),
		},
		"no signature":     {version, digest, "old", nil},
		"of a task":        {version, digest, "new", signed(t, envelope()).Signature},
		"without a domain": {version, digest, "old", ed25519.Sign(keyOf("old"), []byte(version+"\n"+digest+"\n"))},
	} {
		if err := set().VerifyPackage(c.version, c.digest, c.signer, c.signature); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestAVerifierSetThatCannotBeUsed(t *testing.T) {
	many := make([]agentwire.Verifier, 9)
	for i := range many {
		many[i] = verifier("k" + string(rune('a'+i)))
	}
	if err := set().Validate(); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]agentwire.VerifierSet{
		"no version":        {Verifiers: many[:1]},
		"no keys":           {Version: 1},
		"too many keys":     {Version: 1, Verifiers: many},
		"a key without id":  {Version: 1, Verifiers: []agentwire.Verifier{{PublicKey: make([]byte, 32)}}},
		"a key too short":   {Version: 1, Verifiers: []agentwire.Verifier{{ID: "a", PublicKey: make([]byte, 31)}}},
		"the same id twice": {Version: 1, Verifiers: []agentwire.Verifier{verifier("a"), verifier("a")}},
		"good and revoked":  {Version: 1, Verifiers: many[:1], Revoked: []string{many[0].ID}},
		"too many revoked":  {Version: 1, Verifiers: many[:1], Revoked: make([]string, 65)},
	} {
		if s.Validate() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// Whatever is accepted means what was signed.
func FuzzVerify(f *testing.F) {
	original := signed(f, envelope())
	means, err := original.SignedBytes()
	if err != nil {
		f.Fatal(err)
	}
	whole, err := json.Marshal(original)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(bytes.Replace(whole, []byte(`"attempt":1`), []byte(`"attempt":2`), 1))
	f.Add(bytes.Replace(whole, []byte(`"revoke_users":true`), []byte(`"Revoke_users":true`), 1))
	f.Add([]byte(`{"params":{},"signer_version":"new","signature":""}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var e agentwire.Envelope
		if json.Unmarshal(wire, &e) != nil {
			return
		}
		got, refusal := set().Verify(e, node, 4, noon)
		if refusal != nil {
			if got.Params != nil || !slices.Contains(reasons, refusal.Reason) {
				t.Fatalf("%+v %v", got, refusal)
			}
			return
		}
		if now, err := e.SignedBytes(); err != nil || !bytes.Equal(now, means) {
			t.Fatalf("accepted what nobody signed: %s", wire)
		}
	})
}

var reasons = []agentwire.Reason{
	agentwire.RefusedUnknownType, agentwire.RefusedBadSignature, agentwire.RefusedUnknownSigner,
	agentwire.RefusedRevokedSigner, agentwire.RefusedExpired,
	agentwire.RefusedClockSkew, agentwire.RefusedWrongNode, agentwire.RefusedInvalidParams,
	agentwire.RefusedStaleGeneration,
}

func BenchmarkVerify(b *testing.B) {
	e, s := signed(b, envelope()), set()
	for b.Loop() {
		if _, refusal := s.Verify(e, node, 4, noon); refusal != nil {
			b.Fatal(refusal)
		}
	}
}
