package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"gpuaas/cli/internal/failure"
)

// signInPatience is as long as the control plane remembers a sign-in.
const signInPatience = 10 * time.Minute

// Browser waits on this machine for a person to come back from the identity provider.
// Only who made the verifier can use what they bring (PKCE).
type Browser struct {
	listener net.Listener
	Verifier string
}

// Listen opens the port on this machine where the browser comes back; 0 for a free one.
func Listen(port int) (*Browser, error) {
	if port < 0 || port > 65535 {
		return nil, failure.New(failure.Usage, "usage", "", "--callback-port must be between 0 and 65535")
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &Browser{listener: l, Verifier: base64.RawURLEncoding.EncodeToString(secret[:])}, nil
}

// Close stops listening.
func (b *Browser) Close() { _ = b.listener.Close() }

// RedirectURI is where the identity provider sends the browser.
func (b *Browser) RedirectURI() string {
	return "http://" + b.listener.Addr().String() + "/callback"
}

// Challenge is what the control plane may know of the verifier.
func (b *Browser) Challenge() string {
	sum := sha256.Sum256([]byte(b.Verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Await is the code that the person brings back. Visits that do not know the state of this
// sign-in change nothing: anybody on this machine could make them.
func (b *Browser) Await(ctx context.Context, state string) (string, error) {
	type arrival struct{ code, refusal string }
	arrived := make(chan arrival, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		q := r.URL.Query()
		known := subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) == 1
		if !known || q.Get("code") == "" && q.Get("error") == "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("This is not the sign-in that gpuaas waits for.\n"))
			return
		}
		_, _ = w.Write([]byte("You can close this page and go back to the terminal.\n"))
		select {
		case arrived <- arrival{code: q.Get("code"), refusal: cmp.Or(q.Get("error_description"), q.Get("error"))}:
		default: // they came twice
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(b.listener) }()
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(ending) // lets the page above reach the browser
	}()
	patience := time.NewTimer(signInPatience)
	defer patience.Stop()
	select {
	case a := <-arrived:
		if a.code == "" {
			return "", failure.New(failure.Unauthenticated, "sign_in_refused", "try again: gpuaas login",
				"the identity provider refused: %s", a.refusal)
		}
		return a.code, nil
	case err := <-stopped:
		return "", errors.Join(errors.New("the listener for the browser stopped"), err)
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the browser: %w", ctx.Err())
	case <-patience.C:
		return "", failure.New(failure.Unavailable, "sign_in_timeout", "try again: gpuaas login",
			"nobody signed in within %s", signInPatience)
	}
}
