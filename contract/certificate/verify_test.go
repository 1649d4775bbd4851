package certificate_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"gpuaas/contract/certificate"
)

func TestVerifyAcceptsWhatWasIssued(t *testing.T) {
	first, second := both(t)
	for _, s := range []*certificate.Signed{first, second} {
		for _, raw := range [][]byte{s.Bytes(), append(s.Bytes(), '\n')} {
			got, err := certificate.Verify(raw, keys())
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest() != s.Digest() || got.Document.ID != s.Document.ID || !bytes.Equal(got.Bytes(), s.Bytes()) {
				t.Errorf("read %s back as %s", s.Document.ID, got.Document.ID)
			}
		}
	}
}

// member walks to a place of a decoded file.
func member(file map[string]any, names ...string) map[string]any {
	for _, n := range names {
		file = file[n].(map[string]any)
	}
	return file
}

func subject(file map[string]any, i int) map[string]any {
	return member(file, "document")["subjects"].([]any)[i].(map[string]any)
}

func TestVerifyNamesWhatWasChanged(t *testing.T) {
	_, second := both(t)
	other := bytes.Repeat([]byte{9}, ed25519.SeedSize)
	for name, tc := range map[string]struct {
		change func(file map[string]any)
		path   string
		says   string
	}{
		"level": {
			func(f map[string]any) { subject(f, 2)["level"] = "purge" }, "/document/subjects/2/level",
			"was changed",
		},
		"count as text": {
			func(f map[string]any) { subject(f, 1)["covered_bytes"] = "1920383410176" },
			"/document/subjects/1/covered_bytes", "was changed",
		},
		"canaries": {
			func(f map[string]any) { member(subject(f, 2), "verification")["canaries_found"] = 0 },
			"/document/subjects/2/verification/canaries_found", "was changed",
		},
		"time": {
			func(f map[string]any) { member(f, "document")["issued_at"] = "2026-03-04T05:50:08Z" },
			"/document/issued_at", "was changed",
		},
		"null": {
			func(f map[string]any) { member(f, "document")["validation"] = map[string]any{} },
			"/document/validation", "was changed",
		},
		"previous": {
			func(f map[string]any) { member(f, "document", "previous")["seq"] = 0 }, "/document/previous/seq",
			"was changed",
		},
		"member removed": {
			func(f map[string]any) { delete(member(f, "document", "node"), "hostname") },
			"/document/node/hostname", "was removed",
		},
		"member added": {
			func(f map[string]any) { member(f, "document", "node")["note"] = "clean" }, "/document/node/note",
			"was added",
		},
		"member renamed": {func(f map[string]any) {
			n := member(f, "document", "node")
			n["Hostname"] = n["hostname"]
			delete(n, "hostname")
		}, "/document/node/Hostname", "was added"},
		"entry removed": {func(f map[string]any) {
			d := member(f, "document")
			d["subjects"] = append(d["subjects"].([]any)[:2:2], d["subjects"].([]any)[3])
		}, "/document/subjects", "has 3 entries, and 4 were signed"},
		"list emptied": {
			func(f map[string]any) { member(f, "document")["overrides"] = []any{} }, "/document/overrides",
			"has 0 entries, and 1 were signed",
		},
		"entry added": {func(f map[string]any) {
			d := member(f, "document")
			d["not_covered"] = append(d["not_covered"].([]any), map[string]any{"what": "x"})
		}, "/document/not_covered", "has 3 entries, and 2 were signed"},
		"entries exchanged": {func(f map[string]any) {
			s := member(f, "document")["not_covered"].([]any)
			s[0], s[1] = s[1], s[0]
		}, "/document/not_covered/0/subject", "was changed"},
		"digest": {
			func(f map[string]any) { member(f, "fields")["/node/sku"] = "sha256:00" }, "/document/node/sku",
			"was changed",
		},
		"digest removed": {
			func(f map[string]any) { delete(member(f, "fields"), "/node/sku") }, "/document/node/sku",
			"was added",
		},
		"digest added": {
			func(f map[string]any) { member(f, "fields")["/node/x"] = "sha256:00" }, "/document/node/x",
			"was removed",
		},
		"field and digest": {func(f map[string]any) {
			subject(f, 2)["level"] = "purge"
			member(f, "fields")["/subjects/2/level"], _ = certificate.DigestOf([]byte(`"purge"`))
		}, "/signature/value", "not the signature"},
		"algorithm": {
			func(f map[string]any) { member(f, "signature")["algorithm"] = "none" }, "/signature/algorithm",
			"is not ed25519",
		},
		"key": {
			func(f map[string]any) { member(f, "signature")["key_id"] = "mine" }, "/signature/key_id",
			"none of the keys",
		},
		"no signature": {
			func(f map[string]any) { member(f, "signature")["value"] = "" }, "/signature/value",
			"no signature",
		},
		"encoding": {
			func(f map[string]any) { member(f, "signature")["value"] = "%%" }, "/signature/value",
			"no signature",
		},
		"more signature": {func(f map[string]any) { member(f, "signature")["note"] = "x" }, "/signature", "unknown"},
		"part removed":   {func(f map[string]any) { delete(f, "fields") }, "/fields", "was removed"},
		"part added":     {func(f map[string]any) { f["comment"] = "x" }, "/comment", "was added"},
		"no object":      {func(f map[string]any) { f["document"] = []any{} }, "/document", "must be an object"},
		"no digests":     {func(f map[string]any) { f["fields"] = nil }, "/fields", "must be digests"},
		"long pointer": {
			func(f map[string]any) { member(f, "fields")[strings.Repeat("/", 2000)] = "x" }, "/fields",
			"2000 bytes",
		},
		"forged": {func(f map[string]any) {
			member(f, "signature")["value"] = ed25519.Sign(ed25519.NewKeyFromSeed(other), []byte("x"))
		}, "/signature/value", "not the signature"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := certificate.Verify(edited(t, second, tc.change), keys())
			var first *certificate.FieldError
			if !errors.As(err, &first) || first.Path != tc.path || !strings.Contains(first.Problem, tc.says) {
				t.Errorf("got %v, want %s: %s", err, tc.path, tc.says)
			}
		})
	}
}

func TestVerifyRefusesWhatIsNoSignedFile(t *testing.T) {
	first, _ := both(t)
	text := string(first.Bytes())
	for name, raw := range map[string]string{
		"nothing": "", "no JSON": "hello", "a list": "[]", "null": "null", "an empty object": "{}",
		"too much":        strings.Repeat(" ", certificate.MaxBytes+1),
		"a name twice":    strings.Replace(text, `"hostname":"c07u31"`, `"hostname":"c07u31","hostname":"c07u32"`, 1),
		"a part twice":    strings.Replace(text, `{"document":`, `{"document":{},"document":`, 1),
		"not UTF-8":       strings.Replace(text, "c07u31", "c07u\xff", 1),
		"half a char":     strings.Replace(text, "c07u31", `c07u\ud800`, 1),
		"a fraction":      strings.Replace(text, `"seq":1`, `"seq":1.0`, 1),
		"two values":      text + text,
		"indented":        strings.Replace(text, `{"document"`, `{ "document"`, 1),
		"escaped":         strings.Replace(text, "c07u31", `\u006307u31`, 1),
		"another newline": text + "\n\n",
		"carriage return": text + "\r\n",
	} {
		if s, err := certificate.Verify([]byte(raw), keys()); err == nil || s != nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestVerifyNeedsTheRightKey(t *testing.T) {
	first, _ := both(t)
	wrong := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	for name, keys := range map[string][]certificate.Key{
		"none": nil, "another of the same name": {{KeyID: keyID, Algorithm: certificate.Algorithm, PublicKey: wrong}},
		"no key": {{KeyID: keyID}},
	} {
		if _, err := certificate.Verify(first.Bytes(), keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// If any byte is changed, the file is refused: every byte of a small file, and
// some of a large one.
func TestEveryByteCounts(t *testing.T) {
	small := receipt()
	small.Kind, small.Operation.Mode = certificate.Certificate, "full_decommission"
	small.Subjects, small.NotCovered, small.Validation, small.Machine.Serials, small.Operation.Actors = nil, nil, nil, nil,
		nil
	_, large := both(t)
	for file, step := range map[*certificate.Signed]int{signed(t, small): 1, large: 67} {
		raw := append(file.Bytes(), '\n')
		for i := 0; i < len(raw); i += step {
			was := raw[i]
			raw[i] ^= []byte{1, 0x20, 0x80}[i%3]
			if _, err := certificate.Verify(raw, keys()); err == nil {
				t.Errorf("byte %d changed from %q to %q and nobody noticed", i, was, raw[i])
			}
			raw[i] = was
		}
		if _, err := certificate.Verify(raw, keys()); err != nil {
			t.Error(err)
		}
	}
}

// The signature of anything else is not valid for a document: the message
// begins with its own words.
func TestMessageHasItsOwnDomain(t *testing.T) {
	u, err := certificate.Prepare(receipt(), keyID)
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(u.Message(), []byte("gpuaas certificate 1\n"))
	if !ok || !json.Valid(rest) || json.Valid(u.Message()) {
		t.Errorf("%.80s", u.Message())
	}
	s, err := u.Seal(ed25519.Sign(private(), rest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificate.Verify(s.Bytes(), keys()); err == nil {
		t.Error("a signature without the domain was accepted")
	}
}

func TestChains(t *testing.T) {
	first, second := both(t)
	third := func(change func(d *certificate.Document)) *certificate.Signed {
		d := receipt()
		d.ID, d.Seq, d.IssuedAt, d.Previous = "0190b2f4-7c1e-7d3a-8f5b-0000000000c3", 3, at(55),
			certificate.Previous{Seq: 2, Digest: second.Digest()}
		change(&d)
		return signed(t, d)
	}
	last := third(func(*certificate.Document) {})
	elsewhere := third(func(d *certificate.Document) {
		d.Node.ID, d.Seq, d.Previous = "0190b2f4-7c1e-7d3a-8f5b-00000000000d", 1, certificate.Previous{}
	})
	fork := third(func(d *certificate.Document) {
		d.Seq, d.Previous = 2, certificate.Previous{Seq: 1, Digest: first.Digest()}
	})
	for name, tc := range map[string]struct {
		files []*certificate.Signed
		nodes int
		says  string
	}{
		"in order":      {[]*certificate.Signed{first, second, last}, 1, ""},
		"in any order":  {[]*certificate.Signed{last, elsewhere, first, second}, 2, ""},
		"the end of it": {[]*certificate.Signed{last, second}, 1, ""},
		"missing":       {[]*certificate.Signed{first, last}, 0, "between number 1 and number 3 is missing"},
		"twice":         {[]*certificate.Signed{first, first}, 0, "given twice"},
		"fork":          {[]*certificate.Signed{first, second, fork}, 0, "two different documents with number 2"},
		"exchanged":     {[]*certificate.Signed{first, fork, last}, 0, "names another document as number 2"},
		"back in time": {
			[]*certificate.Signed{second, third(func(d *certificate.Document) { d.IssuedAt = at(21) })},
			0,
			"issued before",
		},
	} {
		chains, err := certificate.Chains(tc.files)
		if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) || tc.says == "" && err != nil ||
			len(chains) != tc.nodes {
			t.Errorf("%s: %d chains, %v", name, len(chains), err)
		}
	}
	chains, err := certificate.Chains([]*certificate.Signed{last, second})
	if err != nil || chains[0].Complete() || chains[0].Files[0] != second {
		t.Errorf("%v %v", chains, err)
	}
}

func TestParseKeys(t *testing.T) {
	good, err := json.Marshal(certificate.Keys{Keys: keys()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := certificate.ParseKeys(good)
	if err != nil || len(got) != 1 || got[0].Fingerprint() != keys()[0].Fingerprint() {
		t.Fatal(got, err)
	}
	one := strings.TrimSuffix(strings.TrimPrefix(string(good), `{"keys":[`), `]}`)
	for _, bad := range []string{
		"", "[]", "{}", `{"keys":[]}`, `{"keys":[{}]}`, `{"keys":[` + one + `,` + one + `]}`, `{"keys":[` + one +
			`],"more":1}`,
		strings.Replace(string(good), "ed25519", "rsa", 1), strings.Replace(string(good), keyID, "", 1), string(good) + "x",
	} {
		if _, err := certificate.ParseKeys([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// Nothing that nobody issued is accepted, and nothing breaks the reader.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"document":{},"fields":{"":"x","/":"y","/0/0":"z"},"signature":{}}`))
	f.Add([]byte(`{"document":{"a":[]},"fields":{"/a/1":"x"},"signature":{"algorithm":"ed25519","key_id":"gpuaas-certificates-1","value":""}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := certificate.Verify(raw, keys()); s != nil || err == nil {
			t.Fatalf("accepted what nobody issued: %s", raw)
		}
	})
}

// Whatever is cut out of an issued file and put in instead, the file is refused
// unless it is the same again.
func FuzzEditedFile(f *testing.F) {
	_, second := both(f)
	raw := second.Bytes()
	f.Add(uint(0), uint(0), []byte(" "))
	f.Add(uint(bytes.Index(raw, []byte(`"none"`))), uint(len(`"none"`)), []byte(`"purge"`))
	f.Add(uint(len(raw)), uint(0), []byte("\n"))
	f.Fuzz(func(t *testing.T, at, drop uint, insert []byte) {
		at %= uint(len(raw)) + 1
		drop %= uint(len(raw)) + 1 - at
		edited := append(append(append([]byte{}, raw[:at]...), insert...), raw[at+drop:]...)
		same := bytes.Equal(bytes.TrimSuffix(edited, []byte("\n")), raw)
		s, err := certificate.Verify(edited, keys())
		if (s == nil) == (err == nil) || (err == nil) != same {
			t.Fatalf("%d bytes at %d replaced by %q: %v", drop, at, insert, err)
		}
	})
}
