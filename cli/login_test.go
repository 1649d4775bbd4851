package cli

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"gpuaas/cli/internal/failure"
)

func TestLoginWithToken(t *testing.T) {
	f := newFakeAPI(t)
	b := newBench(t)
	got := b.must("login", "--url", f.URL, "--token-file", b.tokenFile(canary), "--context", "local")
	if !strings.Contains(got.err, "as Ada; local is now the current context") ||
		strings.Contains(got.err+got.stdout, canary) {
		t.Error(got)
	}
	b.must("whoami")
	calls := f.received()
	if len(calls) != 2 || calls[1].header.Get("Authorization") != "Bearer "+canary {
		t.Error(calls)
	}
	// Forgetting is not revoking: the token was not made by signing in.
	if got := b.must("logout"); !strings.Contains(got.err, "goes on working") || len(f.received()) != 2 {
		t.Error(got)
	}
	if text, err := os.ReadFile(b.file()); err != nil || strings.Contains(string(text), canary) {
		t.Error("the token is still there", err)
	}
	if got := b.run("logout"); got.exit != failure.Usage {
		t.Error(got)
	}
	b.must("login", "--token-file", b.tokenFile(canary)) // the current context needs no URL
	b.must("logout", "--revoke")
	if calls := f.received(); calls[len(calls)-1].operation != "sign-out" {
		t.Error(calls)
	}
}

func TestLoginIsRefused(t *testing.T) {
	f := newFakeAPI(t)
	f.on("get-me", refuse(401, "token_invalid", "the token is not known", "use another token"))
	b := newBench(t)
	got := b.run("login", "--url", f.URL, "--token-file", b.tokenFile(canary))
	if got.exit != failure.Unauthenticated || strings.Contains(got.err, canary) {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(b.file()); !os.IsNotExist(err) {
		t.Error("a context was kept although its token was refused", err)
	}
}

func TestLoginNamesContextsAfterHosts(t *testing.T) {
	f := newFakeAPI(t)
	b := newBench(t)
	b.must("login", "--url", f.URL, "--token-file", b.tokenFile(canary))
	want := strings.ReplaceAll(strings.TrimPrefix(f.URL, "http://"), ":", "-")
	if got := b.must("context", "show", want); !strings.Contains(got.stdout, f.URL) {
		t.Error(got)
	}
	b.must("login", "--url", f.URL, "--token-file", b.tokenFile("another"))
	if got := b.must("context", "list", "--no-headers"); strings.Count(got.stdout, "\n") != 1 {
		t.Error("the same control plane is there twice:\n" + got.stdout)
	}
}

// browser signs in like a person: it opens the URL that is printed, is sent to the identity
// provider in its mind, and comes back.
type browser struct {
	t         *testing.T
	api       *fakeAPI
	challenge string
	came      func(callback string) // with the redirect URI
	pages     []string
}

func newBrowser(t *testing.T, f *fakeAPI) *browser {
	b := &browser{t: t, api: f}
	f.on("start-oidc-sign-in", func(w http.ResponseWriter, r *http.Request) {
		calls := f.received()
		var body struct {
			RedirectURI   string `json:"redirect_uri"`
			CodeChallenge string `json:"code_challenge"`
		}
		if err := json.Unmarshal([]byte(calls[len(calls)-1].body), &body); err != nil {
			t.Error(err)
		}
		b.challenge = body.CodeChallenge
		answer(200, `{"authorization_url":"https://id.example.com/authorize?x=1","state":"the-state"}`)(w, r)
		go b.came(body.RedirectURI)
	})
	return b
}

func (b *browser) visit(address string) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(b.t.Context()), http.MethodGet, address, nil)
	if err != nil {
		b.t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Error(err)
		return
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Error(err)
	}
	b.pages = append(b.pages, fmt.Sprintf("%d %s", resp.StatusCode, page))
}

func TestLoginInBrowser(t *testing.T) {
	f := newFakeAPI(t)
	person := newBrowser(t, f)
	visited := make(chan struct{})
	person.came = func(callback string) {
		defer close(visited)
		person.visit(callback + "?code=stolen&state=guessed") // somebody else: changes nothing
		person.visit(callback)
		person.visit(callback + "?code=the-code&state=the-state")
	}
	b := newBench(t)
	got := b.must("login", "--url", f.URL, "--context", "local")
	<-visited
	if !strings.Contains(got.err, "https://id.example.com/authorize?x=1") || strings.Contains(got.err+got.stdout, canary) {
		t.Errorf("%+v", got)
	}
	if len(person.pages) != 3 || !strings.HasPrefix(person.pages[0], "400") ||
		!strings.HasPrefix(person.pages[1], "400") || !strings.HasPrefix(person.pages[2], "200") {
		t.Error(person.pages)
	}
	var sent struct {
		Code     string `json:"code"`
		State    string `json:"state"`
		Verifier string `json:"code_verifier"`
	}
	for _, c := range f.received() {
		if c.operation == "finish-oidc-sign-in" {
			if err := json.Unmarshal([]byte(c.body), &sent); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum := sha256.Sum256([]byte(sent.Verifier))
	if sent.Code != "the-code" || sent.State != "the-state" || len(sent.Verifier) < 43 ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != person.challenge {
		t.Errorf("%+v", sent)
	}
	b.must("logout") // a session ends
	calls := f.received()
	if last := calls[len(calls)-1]; last.operation != "sign-out" || last.header.Get("Authorization") != "Bearer "+canary {
		t.Error(last)
	}
}

func TestLoginRefusedByProvider(t *testing.T) {
	f := newFakeAPI(t)
	person := newBrowser(t, f)
	person.came = func(callback string) {
		person.visit(callback + "?error=access_denied&error_description=" + url.QueryEscape("not \x1b[31mtoday") +
			"&state=the-state")
	}
	got := newBench(t).run("login", "--url", f.URL)
	if got.exit != failure.Unauthenticated || !strings.Contains(got.err, `refused: not \x1b[31mtoday`) {
		t.Errorf("%+v", got)
	}
}

func TestLoginInterrupted(t *testing.T) {
	f := newFakeAPI(t)
	person := newBrowser(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	person.came = func(string) { cancel() }
	if got := newBench(t).runContext(ctx, "login", "--url", f.URL); got.exit != failure.Interrupted {
		t.Errorf("%+v", got)
	}
}

func TestLoginWithoutProvider(t *testing.T) {
	f := newFakeAPI(t)
	f.on("list-auth-methods", answer(200, `{"methods":["token"]}`))
	got := newBench(t).run("login", "--url", f.URL)
	if got.exit != failure.Usage || !strings.Contains(got.err, "--token-file") {
		t.Errorf("%+v", got)
	}
}

func TestLogoutWhenTokenIsGoneAlready(t *testing.T) {
	f := newFakeAPI(t)
	f.on("sign-out", refuse(401, "token_revoked", "the token was revoked", ""))
	b := newBench(t)
	b.must("login", "--url", f.URL, "--token-file", b.tokenFile(canary))
	b.must("logout", "--revoke")
	f.on("sign-out", refuse(500, "internal", "something went wrong", ""))
	b.must("login", "--token-file", b.tokenFile(canary))
	if got := b.run("logout", "--revoke"); got.exit != failure.Unexpected {
		t.Error(got)
	}
	if text, err := os.ReadFile(b.file()); err != nil || !strings.Contains(string(text), canary) {
		t.Error("a token that still works was forgotten", err)
	}
	b.must("logout", "--local")
}
