package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gpuaas/agent/internal/blob"
)

// vaultDoor is a source with TLS that lets in who has the access of the moment.
type vaultDoor struct {
	*origin

	access atomic.Value // the path that is signed now
	uses   atomic.Int64 // how often each access may be used; 0: always
	asked  atomic.Int64 // how often somebody asked for access
}

// newVaultDoor makes one and tells, in the path of signed addresses, which access is used.
func newVaultDoor(t *testing.T, content []byte) *vaultDoor {
	t.Helper()
	v := &vaultDoor{origin: newOrigin(t, content)}
	v.Close()
	v.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.origin.asked.Add(1)
		v.mu.Lock()
		do := v.do
		v.mu.Unlock()
		do(w, r)
	}))
	t.Cleanup(v.Close)
	v.do = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != v.access.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if v.uses.Add(-1) == 0 {
			v.access.Store("/gone")
		}
		v.serve(w, r)
	}
	v.access.Store("/nobody")
	return v
}

// sign gives an address that is good for so many requests.
func (v *vaultDoor) sign(uses int64) func(context.Context, string) (blob.Access, error) {
	return func(context.Context, string) (blob.Access, error) {
		path := fmt.Sprintf("/signed-%d", v.asked.Add(1))
		v.uses.Store(uses)
		v.access.Store(path)
		return blob.Access{Address: v.URL + path + "?canary"}, nil
	}
}

func (v *vaultDoor) fetch(t *testing.T, to target, w blob.Want) error {
	t.Helper()
	return blob.Fetcher{Pause: quick.Pause, Transport: v.Client().Transport}.Fetch(t.Context(), w, to.part, to.notes)
}

// A source that refuses is read by a signed address, which is asked for once, and again
// whenever it is refused.
func TestASourceThatRefusesIsReadByWhatIsAskedFor(t *testing.T) {
	content := random(20 * mib)
	for name, uses := range map[string]int64{"one address": 0, "addresses that end": 2} {
		t.Run(name, func(t *testing.T) {
			v := newVaultDoor(t, content)
			w := wanted(content, v.origin)
			w.Parallel, w.Door = 1, &blob.Door{Ask: v.sign(uses), Places: w.Sources}
			to := newTarget(t)
			if err := v.fetch(t, to, w); err != nil || !bytes.Equal(to.content(t), content) {
				t.Fatalf("%v", err)
			}
			if n := v.asked.Load(); uses == 0 && n != 1 || uses > 0 && n < 2 {
				t.Errorf("access was asked for %d times", n)
			}
		})
	}
}

// A registry that keeps its bytes elsewhere is followed there once it was asked with a
// token, and the token stays with it.
func TestARegistryIsFollowedWithoutItsToken(t *testing.T) {
	content := random(mib)
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token of the registry went elsewhere")
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer elsewhere.Close()
	v := newVaultDoor(t, content)
	v.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer canary" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, elsewhere.URL+"/bytes", http.StatusTemporaryRedirect)
	})
	w := wanted(content, v.origin)
	w.Door = &blob.Door{Places: []string{v.URL}, Ask: func(context.Context, string) (blob.Access, error) {
		return blob.Access{Token: "canary"}, nil
	}}
	to := newTarget(t)
	if err := v.fetch(t, to, w); err != nil || !bytes.Equal(to.content(t), content) {
		t.Fatalf("%v", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A registry cannot send the agent, with the identity of its node, to the control plane.
func TestAttackARegistrySendsToTheControlPlane(t *testing.T) {
	content := random(mib)
	for _, path := range []string{"/internal/v1/nodes/x/tasks/wait", "/v2/acme/x/blobs/y", "/v2/../internal/v1/trust"} {
		v := newVaultDoor(t, content)
		v.answers(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			w.Header().Set("Location", "https://registry.gpuaas.internal"+path)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		w := wanted(content, v.origin)
		w.Door = &blob.Door{Places: w.Sources, Ask: func(context.Context, string) (blob.Access, error) {
			return blob.Access{Token: "canary"}, nil
		}}
		to := newTarget(t)
		fetcher := blob.Fetcher{Pause: quick.Pause, Home: roundTrip(func(r *http.Request) (*http.Response, error) {
			t.Errorf("%s was asked", r.URL)
			return nil, errors.New("no")
		}), Transport: v.Client().Transport}
		wantReason(t, fetcher.Fetch(t.Context(), w, to.part, to.notes), blob.Denied)
	}
}

// Whoever is given no access is told what the source answered and why; what cannot be asked
// now is tried again; and nobody asks for what is fetched without TLS.
func TestNoAccess(t *testing.T) {
	content := random(mib)
	refuses := func(err error) *blob.Door {
		return &blob.Door{Ask: func(context.Context, string) (blob.Access, error) { return blob.Access{}, err }}
	}
	v := newVaultDoor(t, content)
	w := wanted(content, v.origin)
	w.Door = refuses(errors.New("no source is known"))
	w.Door.Places = w.Sources
	err := v.fetch(t, newTarget(t), w)
	wantReason(t, err, blob.Denied)
	for _, part := range []string{"403", "no source is known"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	w.Door = refuses(&blob.Error{Reason: blob.Unreachable, Cause: errors.New("nobody answers")})
	w.Door.Places = w.Sources
	wantReason(t, v.fetch(t, newTarget(t), w), blob.Unreachable)
	plain := newOrigin(t, content)
	plain.answers(status(http.StatusForbidden))
	w = wanted(content, plain)
	w.Door = &blob.Door{Places: w.Sources, Ask: func(context.Context, string) (blob.Access, error) {
		t.Error("access was asked for without TLS")
		return blob.Access{}, nil
	}}
	wantReason(t, fetch(t.Context(), newTarget(t), w), blob.Denied)
}

// An address that was signed is a secret: no error names it, whatever becomes of it.
func TestASignedAddressIsInNoError(t *testing.T) {
	content := random(mib)
	gone := httptest.NewTLSServer(status(http.StatusTeapot))
	gone.Close()
	for name, to := range map[string]string{
		"nobody there":      gone.URL + "/canary?canary",
		"the control plane": "https://registry.gpuaas.internal/v2/canary",
		"no TLS":            "http://127.0.0.1/canary",
		"no address":        "https://%canary",
		"with a user":       "https://canary@127.0.0.1/",
	} {
		t.Run(name, func(t *testing.T) {
			v := newVaultDoor(t, content)
			w := wanted(content, v.origin)
			w.Door = &blob.Door{Places: w.Sources, Ask: func(context.Context, string) (blob.Access, error) {
				return blob.Access{Address: to}, nil
			}}
			err := v.fetch(t, newTarget(t), w)
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v", err)
			}
		})
	}
}
