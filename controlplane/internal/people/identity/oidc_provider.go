package identity

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

const (
	providerTimeout = 5 * time.Second
	clockSkew       = time.Minute

	maxSubjectLength = 255 // from OpenID Connect Core
)

// provider is the identity provider. Its published metadata is fetched when it
// is first needed.
type provider struct {
	cfg    OIDCConfig
	now    func() time.Time
	client *http.Client
	flight singleflight.Group
	found  atomic.Pointer[discovered]
}

type discovered struct {
	provider   *oidc.Provider
	keys       oidc.KeySet
	algorithms []string
}

// trustedAlgorithms sign with a key that only the provider holds.
var trustedAlgorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// person is who the provider says has signed in.
type person struct {
	Issuer, Subject, Email, Name string
	EmailVerified                bool
}

func newProvider(cfg OIDCConfig, now func() time.Time) *provider {
	return &provider{cfg: cfg, now: now, client: &http.Client{Timeout: providerTimeout}}
}

// discover asks the provider for its endpoints and keys, once for all callers
// that wait.
func (p *provider) discover(ctx context.Context) (*discovered, error) {
	if d := p.found.Load(); d != nil {
		return d, nil
	}
	result := p.flight.DoChan("discover", func() (any, error) { //nolint:contextcheck // see below
		// All callers share the answer, so it must outlive the one who asked
		// first.
		shared := p.withClient(context.Background())
		op, err := oidc.NewProvider(shared, p.cfg.Issuer)
		if err != nil {
			return nil, err
		}
		var metadata struct {
			JWKS       string   `json:"jwks_uri"`
			Algorithms []string `json:"id_token_signing_alg_values_supported"`
		}
		if err := op.Claims(&metadata); err != nil {
			return nil, err
		}
		p.found.Store(&discovered{
			provider: op,
			keys:     oidc.NewRemoteKeySet(shared, metadata.JWKS),
			algorithms: slices.DeleteFunc(metadata.Algorithms, func(alg string) bool {
				return !slices.Contains(trustedAlgorithms, alg)
			}),
		})
		return nil, nil //nolint:nilnil // the result is kept where later callers find it
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return nil, unavailable(r.Err)
		}
		return p.found.Load(), nil
	}
}

func (p *provider) withClient(ctx context.Context) context.Context {
	return oidc.ClientContext(ctx, p.client)
}

func (p *provider) oauth(d *discovered, redirectURI string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret.Reveal(), Endpoint: d.provider.Endpoint(),
		RedirectURL: redirectURI, Scopes: p.cfg.Scopes,
	}
}

// authorizationURL returns where a person signs in.
func (p *provider) authorizationURL(ctx context.Context, redirectURI, state, nonce, challenge string) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(d, redirectURI).AuthCodeURL(state, oidc.Nonce(nonce),
		oauth2.SetAuthURLParam("code_challenge", challenge), oauth2.SetAuthURLParam("code_challenge_method", "S256")), nil
}

// identify exchanges the code with which a person came back for their identity.
func (p *provider) identify(ctx context.Context, redirectURI, nonce string, code, verifier redact.Secret) (
	person, error,
) {
	d, err := p.discover(ctx)
	if err != nil {
		return person{}, err
	}
	ctx = p.withClient(ctx)
	tokens, err := p.oauth(d, redirectURI).Exchange(ctx, code.Reveal(), oauth2.VerifierOption(verifier.Reveal()))
	if err != nil {
		return person{}, exchangeFailed(err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return person{}, signInFailed(errors.New("the answer of the token endpoint holds no ID token"))
	}
	return p.verify(ctx, d, raw, nonce, tokens)
}

func (p *provider) verify(ctx context.Context, d *discovered, raw, nonce string, tokens *oauth2.Token) (person, error) {
	keys := &watchedKeys{KeySet: d.keys}
	token, err := oidc.NewVerifier(p.cfg.Issuer, keys, &oidc.Config{
		ClientID: p.cfg.ClientID, SupportedSigningAlgs: d.algorithms,
		Now: func() time.Time { return p.now().Add(-clockSkew) },
	}).Verify(ctx, raw)
	if keys.unreachable {
		return person{}, unavailable(err)
	}
	if err != nil {
		return person{}, signInFailed(err)
	}
	var claims claims
	if err := token.Claims(&claims); err != nil {
		return person{}, signInFailed(err)
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1:
		return person{}, signInFailed(errors.New("the nonce is not the one that was sent"))
	case len(token.Audience) > 1 && claims.AuthorizedParty != p.cfg.ClientID:
		return person{}, signInFailed(errors.New("the ID token was issued to another client"))
	case token.IssuedAt.After(p.now().Add(clockSkew)):
		return person{}, signInFailed(errors.New("the ID token was issued in the future"))
	case token.Subject == "" || len(token.Subject) > maxSubjectLength ||
		strings.ContainsFunc(token.Subject, unicode.IsControl):
		return person{}, signInFailed(errors.New("the ID token names nobody"))
	}
	if claims.Email == "" { // many providers leave it out of the ID token
		if err := p.askUserInfo(ctx, d, token.Subject, tokens, &claims); err != nil {
			return person{}, err
		}
	}
	return claims.person(token), nil
}

// person drops addresses and names that cannot be used.
func (c claims) person(token *oidc.IDToken) person {
	who := person{Issuer: token.Issuer, Subject: token.Subject}
	if len(emailProblems(c.Email)) == 0 {
		who.Email, who.EmailVerified = c.Email, bool(c.EmailVerified)
	}
	if len(nameProblems(c.Name)) == 0 {
		who.Name = c.Name
	}
	return who
}

func (p *provider) askUserInfo(ctx context.Context, d *discovered, subject string, tokens *oauth2.Token,
	into *claims,
) error {
	if d.provider.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := d.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return unavailable(err)
	}
	if info.Subject != subject {
		return signInFailed(errors.New("the user info is about somebody else"))
	}
	if err := info.Claims(into); err != nil {
		return signInFailed(err)
	}
	return nil
}

// claims are what is read from an ID token beside the standard checks.
type claims struct {
	Email           string    `json:"email"`
	EmailVerified   looseBool `json:"email_verified"`
	Name            string    `json:"name"`
	AuthorizedParty string    `json:"azp"`
}

// looseBool accepts a boolean that some providers write as a string.
type looseBool bool

// UnmarshalJSON reads true and "true" as true, and everything else as false.
func (b *looseBool) UnmarshalJSON(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	*b = v == true || v == "true"
	return nil
}

// watchedKeys notices when a signature could not be checked because the keys
// could not be fetched: then nothing is known about the signature.
type watchedKeys struct {
	oidc.KeySet
	unreachable bool
}

// VerifySignature checks a signature.
func (k *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.unreachable = errors.Unwrap(err) != nil // only an error of fetching has a cause
	return payload, err
}

// exchangeFailed distinguishes a refused code from a provider that is broken or
// configured differently than we are.
func exchangeFailed(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return unavailable(err)
	}
	if refused.Response.StatusCode >= http.StatusInternalServerError {
		return unavailable(errors.New(refused.Response.Status)) // its body does not belong in the log
	}
	if refused.ErrorCode == "invalid_grant" {
		return signInFailed(errors.New("the provider does not accept the code"))
	}
	return fault.New(fault.Unavailable, "oidc_misconfigured", "the identity provider does not accept this client: %s",
		refused.ErrorCode).
		WithRemedy("an operator must compare oidc.client_id, oidc.client_secret and the redirect URIs with the provider")
}

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, "oidc_unavailable",
		"the identity provider cannot be reached or does not answer properly").
		WithRemedy("try again in a moment; tokens keep working meanwhile")
}

func signInFailed(cause error) error {
	return fault.Wrap(cause, fault.Unauthenticated, "sign_in_failed",
		"the identity provider's answer does not prove who you are").
		WithRemedy("start the sign-in again")
}
