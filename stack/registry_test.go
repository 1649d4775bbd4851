package stack

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The registry lets in whoever has a certificate of its CA, is killed and comes back with
// what it has, and is no engine that a stack has by itself.
func TestTheRegistryAsksForACertificateAndKeepsWhatItHas(t *testing.T) {
	if strings.Contains(fmt.Sprint(Needed()), string(Registry)) {
		t.Error("every stack has a registry")
	}
	s := start(t, Options{State: state(t), Only: []Engine{Registry}})
	p := s.Endpoints()
	known, err := ClientTLS(p.RegistryCAFile, p.RegistryCertFile, p.RegistryKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(as *tls.Config, method, path, body string) (status int, location string, _ error) {
		r, err := http.NewRequestWithContext(t.Context(), method, p.RegistryURL+path, strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		r.Header.Set("Content-Type", "application/octet-stream")
		answer, err := (&http.Transport{TLSClientConfig: as, DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			return 0, "", err
		}
		return answer.StatusCode, answer.Header.Get("Location"), answer.Body.Close()
	}
	stranger := known.Clone()
	stranger.Certificates = nil
	if status, _, err := ask(stranger, http.MethodGet, "/v2/", ""); err == nil {
		t.Errorf("without a certificate: status %d", status)
	}
	wants := func(what string, want int, method, path, body string) (location string) {
		t.Helper()
		got, location, err := ask(known, method, path, body)
		if err != nil || got != want {
			t.Errorf("%s: status %d, %v, want %d", what, got, err, want)
		}
		return location
	}
	const weights = "weights"
	sum := sha256.Sum256([]byte(weights))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	upload := wants("a push begins", http.StatusAccepted, http.MethodPost, "/v2/acme/llm/blobs/uploads/", "")
	wants("a push ends", http.StatusCreated, http.MethodPut, upload+"&digest="+digest, weights)
	wants("a pull", http.StatusOK, http.MethodGet, "/v2/acme/llm/blobs/"+digest, "")
	if err := errors.Join(s.Kill(Registry), s.Resume(Registry)); err != nil {
		t.Fatal(err)
	}
	wants("a pull after it was killed", http.StatusOK, http.MethodGet, "/v2/acme/llm/blobs/"+digest, "")
}
