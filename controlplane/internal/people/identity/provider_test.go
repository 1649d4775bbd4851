package identity_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"gpuaas/controlplane/internal/base/id"
)

const (
	clientID     = "gpuaas"
	clientSecret = "client-secret-canary"
)

// idp is a real OpenID Connect provider whose login page asks nothing: whoever
// comes is the account that the test has put there.
type idp struct {
	op.Storage // methods that a sign-in does not use are not there

	server *httptest.Server
	key    *rsa.PrivateKey

	mu       sync.Mutex
	account  account
	requests map[string]*authRequest
	codes    map[string]*authRequest
	forge    func(claims map[string]any) // changes the claims of the next ID tokens
	signWith *rsa.PrivateKey             // nil: key

	keysDown, tokensDown atomic.Bool
	inIDToken            bool // e-mail in the ID token rather than at the user info endpoint
}

// account is a person at the provider.
type account struct {
	subject, email, name string
	verified             bool
}

var signingKeys = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		keys[i] = key
	}
	return keys
})

func newIDP(tb testing.TB) *idp {
	tb.Helper()
	p := &idp{key: signingKeys()[0], requests: map[string]*authRequest{}, codes: map[string]*authRequest{}}
	mux := http.NewServeMux()
	p.server = httptest.NewServer(mux)
	tb.Cleanup(p.server.Close)
	provider, err := op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true, AuthMethodPost: true}, p,
		op.StaticIssuer(p.server.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		tb.Fatal(err)
	}
	callback := op.AuthCallbackURL(provider)
	interceptor := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux.Handle("/login", interceptor.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, callback(r.Context(), r.FormValue("id")), http.StatusFound)
	}))
	mux.Handle("/keys", outage(&p.keysDown, provider))
	mux.Handle("/oauth/token", outage(&p.tokensDown, p.forging(provider)))
	mux.Handle("/", provider)
	return p
}

func outage(down *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *idp) set(a account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account = a
}

func (p *idp) forgery(change func(claims map[string]any), key *rsa.PrivateKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forge, p.signWith = change, key
}

// forging signs the ID tokens of the provider anew after a test has changed them.
func (p *idp) forging(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := rec.Body.Bytes()
		var tokens map[string]any
		p.mu.Lock()
		change, key := p.forge, p.signWith
		p.mu.Unlock()
		if change != nil && rec.Code == http.StatusOK && json.Unmarshal(body, &tokens) == nil {
			forged, err := p.resign(tokens["id_token"].(string), change, key)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			tokens["id_token"] = forged
			body, _ = json.Marshal(tokens)
		}
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	})
}

func (p *idp) resign(token string, change func(map[string]any), key *rsa.PrivateKey) (string, error) {
	parsed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "", err
	}
	dec := json.NewDecoder(bytes.NewReader(parsed.UnsafePayloadWithoutVerification()))
	dec.UseNumber()
	var claims map[string]any
	if err := dec.Decode(&claims); err != nil {
		return "", err
	}
	change(claims)
	if key == nil {
		key = p.key
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "key"}},
		nil)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// What follows is what the provider asks of its store.

func (p *idp) CreateAuthRequest(_ context.Context, r *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	request := &authRequest{AuthRequest: r, id: id.NewString(), subject: p.account.subject}
	p.requests[request.id] = request
	return request, nil
}

func (p *idp) AuthRequestByID(_ context.Context, key string) (op.AuthRequest, error) {
	return p.request(p.requests, key)
}

func (p *idp) AuthRequestByCode(_ context.Context, code string) (op.AuthRequest, error) {
	return p.request(p.codes, code)
}

func (p *idp) request(from map[string]*authRequest, key string) (op.AuthRequest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, ok := from[key]; ok {
		return r, nil
	}
	return nil, errors.New("no such request")
}

func (p *idp) SaveAuthCode(_ context.Context, key, code string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = p.requests[key]
	return nil
}

func (p *idp) DeleteAuthRequest(_ context.Context, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.requests, key)
	for code, r := range p.codes {
		if r.id == key {
			delete(p.codes, code)
		}
	}
	return nil
}

func (p *idp) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	return id.NewString(), time.Now().Add(time.Hour), nil
}

func (p *idp) SigningKey(context.Context) (op.SigningKey, error) { return signingKey{p.key}, nil }

func (p *idp) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (p *idp) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{p.key}}, nil }

func (p *idp) GetClientByClientID(_ context.Context, client string) (op.Client, error) {
	if client != clientID {
		return nil, errors.New("no such client")
	}
	return relyingParty{p}, nil
}

func (p *idp) AuthorizeClientIDSecret(_ context.Context, client, secret string) error {
	if client != clientID || secret != clientSecret {
		return errors.New("wrong secret")
	}
	return nil
}

func (p *idp) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (p *idp) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	info.Subject = r.GetSubject()
	if p.inIDToken {
		p.describe(info, r.GetSubject())
	}
	return nil
}

func (p *idp) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, _, subject, _ string) error {
	p.describe(info, subject)
	return nil
}

func (p *idp) describe(info *oidc.UserInfo, subject string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info.Subject, info.Email, info.Name = subject, p.account.email, p.account.name
	info.EmailVerified = oidc.Bool(p.account.verified)
}

func (p *idp) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, nil //nolint:nilnil // no claims
}

func (p *idp) Health(context.Context) error { return nil }

type authRequest struct {
	*oidc.AuthRequest
	id, subject string
}

func (r *authRequest) GetID() string          { return r.id }
func (r *authRequest) GetACR() string         { return "" }
func (r *authRequest) GetAMR() []string       { return nil }
func (r *authRequest) GetAudience() []string  { return []string{r.ClientID} }
func (r *authRequest) GetAuthTime() time.Time { return time.Now() }
func (r *authRequest) GetClientID() string    { return r.ClientID }
func (r *authRequest) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}
func (r *authRequest) GetNonce() string                   { return r.Nonce }
func (r *authRequest) GetRedirectURI() string             { return r.RedirectURI }
func (r *authRequest) GetResponseType() oidc.ResponseType { return r.ResponseType }
func (r *authRequest) GetResponseMode() oidc.ResponseMode { return r.ResponseMode }
func (r *authRequest) GetScopes() []string                { return r.Scopes }
func (r *authRequest) GetState() string                   { return r.State }
func (r *authRequest) GetSubject() string                 { return r.subject }
func (r *authRequest) Done() bool                         { return true }

type signingKey struct{ key *rsa.PrivateKey }

func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }
func (k signingKey) ID() string                                  { return "key" }

type publicKey struct{ key *rsa.PrivateKey }

func (k publicKey) ID() string                         { return "key" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.key.PublicKey }

// relyingParty is the control plane as the provider knows it.
type relyingParty struct{ p *idp }

func (relyingParty) GetID() string                       { return clientID }
func (relyingParty) RedirectURIs() []string              { return []string{"http://127.0.0.1/callback"} }
func (relyingParty) PostLogoutRedirectURIs() []string    { return nil }
func (relyingParty) ApplicationType() op.ApplicationType { return op.ApplicationTypeNative }
func (relyingParty) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodBasic }
func (relyingParty) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (relyingParty) GrantTypes() []oidc.GrantType           { return []oidc.GrantType{oidc.GrantTypeCode} }
func (relyingParty) LoginURL(request string) string         { return "/login?id=" + request }
func (relyingParty) AccessTokenType() op.AccessTokenType    { return op.AccessTokenTypeBearer }
func (relyingParty) IDTokenLifetime() time.Duration         { return time.Hour }
func (relyingParty) DevMode() bool                          { return false }
func (relyingParty) IsScopeAllowed(string) bool             { return false }
func (r relyingParty) IDTokenUserinfoClaimsAssertion() bool { return r.p.inIDToken }
func (relyingParty) ClockSkew() time.Duration               { return 0 }

func (relyingParty) RestrictAdditionalAccessTokenScopes() scopesFilter { return allScopes }

//nolint:revive // the library spells it so
func (relyingParty) RestrictAdditionalIdTokenScopes() scopesFilter { return allScopes }

type scopesFilter = func([]string) []string

func allScopes(scopes []string) []string { return scopes }

// callbackPath is the path of redirectURI, which the provider does not serve.
const callbackPath = "/callback"

// visit goes through the provider like a browser, up to where it is sent back.
func (p *idp) visit(tb testing.TB, address string) (code, state string) {
	tb.Helper()
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == callbackPath { // the host does not tell: the provider may have got the port of redirectURI
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	answer, err := browser.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	back, err := answer.Location()
	if err != nil {
		tb.Fatalf("the provider answers %s and sends nobody back: %v", answer.Status, err)
	}
	return back.Query().Get("code"), back.Query().Get("state")
}
