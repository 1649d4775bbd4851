package stack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// asRegistry asks the registry for something with a password.
func asRegistry(t *testing.T, p Endpoints, method, path, password, body string) (status int, location string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.RegistryURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	r.SetBasicAuth(p.RegistryUser, password)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Location")
}

// The registry lets in whoever knows its password, is killed and comes back with what it
// has, and is no engine that a stack has by itself.
func TestTheRegistryAsksForItsPasswordAndKeepsWhatItHas(t *testing.T) {
	if strings.Contains(fmt.Sprint(Needed()), string(Registry)) {
		t.Error("every stack has a registry")
	}
	s := start(t, Options{State: state(t), Only: []Engine{Registry}})
	p := s.Endpoints()
	raw, err := os.ReadFile(p.RegistryPasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	const weights = "weights"
	sum := sha256.Sum256([]byte(weights))
	password, digest := string(raw), "sha256:"+hex.EncodeToString(sum[:])
	wants := func(what string, want int, method, path, password, body string) (location string) {
		t.Helper()
		got, location := asRegistry(t, p, method, path, password, body)
		if got != want {
			t.Errorf("%s: status %d, want %d", what, got, want)
		}
		return location
	}
	wants("without the password", http.StatusUnauthorized, http.MethodGet, "/v2/", "", "")
	wants("with a wrong one", http.StatusUnauthorized, http.MethodGet, "/v2/", "wrong", "")
	upload := wants("a push begins", http.StatusAccepted, http.MethodPost, "/v2/acme/llm/blobs/uploads/", password, "")
	wants("a push ends", http.StatusCreated, http.MethodPut, upload+"&digest="+digest, password, weights)
	wants("a pull", http.StatusOK, http.MethodGet, "/v2/acme/llm/blobs/"+digest, password, "")
	if err := errors.Join(s.Kill(Registry), s.Resume(Registry)); err != nil {
		t.Fatal(err)
	}
	wants("a pull after it was killed", http.StatusOK, http.MethodGet, "/v2/acme/llm/blobs/"+digest, password, "")
}
