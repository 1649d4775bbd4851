package operation

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
)

// A file that its source does not give to everybody is fetched by an address that the
// control plane gives for exactly this file, and that stands in nothing which is written.
func TestAStepGetsAccessToWhatItFetches(t *testing.T) {
	content := bytes.Repeat([]byte("weights "), 1000)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("signature") != "canary-of-the-address" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(s.Close)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(roots, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", roots) // no other test of the package asks for roots of the system
	hash := sha256.Sum256(content)
	sum := hex.EncodeToString(hash[:])
	with := fmt.Sprintf(`{"url":"%s/w.bin","sha256":%q,"bytes":%d,"path":"/srv/w.bin","folders":true}`, s.URL, sum, len(content))
	b := newBench(t)
	b.mint = func(in agentwire.MintRequest) (agentwire.Credential, error) {
		return agentwire.Credential{}, errors.New("no artifact source reaches it")
	}
	o := b.one(agentwire.StepArtifactPullBlob, with)
	if o.Status != agentwire.StepFailed || o.Error == nil || o.Error.Code != "source_denied" {
		t.Fatalf("%+v", o)
	}
	var asked []agentwire.MintRequest
	b.mint = func(in agentwire.MintRequest) (agentwire.Credential, error) {
		asked = append(asked, in)
		return agentwire.Credential{Values: map[string]string{
			agentwire.ValueURL: s.URL + "/signed/w.bin?signature=canary-of-the-address",
		}}, nil
	}
	wantOutcome(t, b.one(agentwire.StepArtifactPullBlob, with), agentwire.StepSucceeded, true)
	if b.Read("/srv/w.bin") != string(content) {
		t.Error("the file is another one")
	}
	if len(asked) != 1 || asked[0].CredentialType != agentwire.CredentialSourceRead ||
		asked[0].Intent["source"] != s.URL+"/w.bin" || asked[0].Intent["digest"] != "sha256:"+sum {
		t.Errorf("asked for %+v", asked)
	}
	// An address that leads nowhere is in no outcome, line or note either.
	gone := httptest.NewTLSServer(nil)
	gone.Close()
	b.mint = func(agentwire.MintRequest) (agentwire.Credential, error) {
		return agentwire.Credential{Values: map[string]string{agentwire.ValueURL: gone.URL + "/canary-of-the-address"}}, nil
	}
	o = b.one(agentwire.StepArtifactPullBlob, strings.ReplaceAll(with, "w.bin", "x.bin"))
	if all := fmt.Sprintf("%+v %+v %v", o, o.Error, b.notes.values); strings.Contains(all, "canary") {
		t.Errorf("the address is in %s", all)
	}
}
