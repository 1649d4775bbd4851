package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Codes of refusals of tokens.
const (
	CodeNoTokens   = "registry_gives_no_tokens"
	CodeLongTokens = "registry_tokens_live_long"
)

const (
	// longest is how long a token may live that a node is given.
	longest = time.Hour
	// unsaid is how long a token lives of which its service does not say it.
	unsaid = time.Minute
	// openFor is how long a registry that asks nobody for a token counts as such.
	openFor = 5 * time.Minute
)

// As is the client with a login, which it shows to registries that ask for one, and to the
// services of tokens that they name.
func (c *Client) As(user string, password redact.Secret) *Client {
	as := *c
	as.user, as.password = user, password
	return &as
}

// login is the login for a registry, if there is one.
func (c *Client) login(_ context.Context, host string) (auth.Credential, error) {
	if c.password.IsZero() || c.plain[host] { // without TLS everybody would read it
		return auth.EmptyCredential, nil
	}
	return auth.Credential{Username: c.user, Password: c.password.Reveal()}, nil
}

// Token gets a token that reads one repository, for a node. It has been tried on the
// manifest when it is answered. It is empty where the registry asks nobody for one.
func (c *Client) Token(ctx context.Context, repository, of string) (redact.Secret, time.Time, error) {
	r, err := remote.NewRepository(repository)
	if err != nil || !c.guard.MayName(strings.Trim(hostOf(r.Reference.Host()), "[]")) {
		return redact.Secret{}, time.Time{}, c.fails(repository, errors.Join(errNotAsked, err))
	}
	host, name := r.Reference.Host(), r.Reference.Repository
	client := c.asks(host)
	// A registry that is asked without TLS gives no tokens: they would be there for all to see.
	manifest := "https://" + host + "/v2/" + name + "/manifests/" + of
	challenge, err := c.look(ctx, client, repository, manifest, redact.Secret{})
	if err != nil || challenge == nil {
		return redact.Secret{}, time.Now().Add(openFor), err
	}
	begun := time.Now()
	token, life, err := c.fetchToken(ctx, client, repository, *challenge, name)
	if err != nil {
		return redact.Secret{}, time.Time{}, err
	}
	_, err = c.look(ctx, client, repository, manifest, token)
	return token, begun.Add(life), err
}

// errNotAsked says that a registry is not asked at all.
var errNotAsked = errors.New("it is not asked")

// challenge is where a registry sends for tokens.
type challenge struct{ realm, service string }

// look asks for a manifest. It answers where the registry sends for a token, if it wants one.
func (c *Client) look(ctx context.Context, client *http.Client, repository, address string, token redact.Secret) (
	*challenge, error,
) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return nil, c.fails(repository, err)
	}
	request.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "+
		"application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json")
	if !token.IsZero() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, c.fails(repository, err)
	}
	_ = answer.Body.Close() // it has none
	switch answer.StatusCode {
	case http.StatusOK:
		return nil, nil
	case http.StatusUnauthorized, http.StatusForbidden:
		if !token.IsZero() || answer.StatusCode == http.StatusForbidden {
			return nil, loginRefused(repository)
		}
		return bearer(answer.Header.Values("WWW-Authenticate"), repository)
	case http.StatusNotFound:
		return nil, fault.New(fault.Conflict, CodeMissing, "%s has no such manifest, or not for this login", repository).
			WithRemedy("check that the login of the artifact source may read the repository")
	}
	return nil, fault.New(fault.Unavailable, CodeUnreachable, "%s answers with status %d", repository, answer.StatusCode).
		WithRemedy("try again later")
}

var parameter = regexp.MustCompile(`([a-z]+)="([^"\\]*)"`)

// bearer reads where a registry sends for a token.
func bearer(headers []string, repository string) (*challenge, error) {
	for _, h := range headers {
		scheme, rest, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			continue
		}
		var out challenge
		for _, m := range parameter.FindAllStringSubmatch(rest, -1) {
			switch m[1] {
			case "realm":
				out.realm = m[2]
			case "service":
				out.service = m[2]
			}
		}
		if u, err := url.Parse(out.realm); err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil {
			return &out, nil
		}
	}
	return nil, fault.New(fault.Conflict, CodeNoTokens, "%s lets in by password only, and a node is not given one",
		repository).WithRemedy("use a registry with a service of tokens; or push the artifact to the platform's own registry: " +
		"gpuaas artifact push")
}

func loginRefused(repository string) error {
	return fault.New(fault.Conflict, CodeRefuses, "%s does not let the login of the artifact source read it", repository).
		WithRemedy("give the login the right to read there, or replace it: gpuaas artifact source rotate SOURCE")
}

// How long a token may be.
const (
	leastToken = 16
	mostToken  = 8 << 10
)

// holdsLogin says whether a token is the password in another form, as some registries
// answer.
func (c *Client) holdsLogin(token string) bool {
	if c.password.IsZero() {
		return false
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		plain, err := e.DecodeString(strings.TrimRight(token, "="))
		if err == nil && strings.Contains(string(plain), c.password.Reveal()) {
			return true
		}
	}
	return strings.Contains(token, c.password.Reveal())
}

// lifeOf is how long a token lives: as its service says, as it says itself, or a minute,
// which is what leaving both out means.
func lifeOf(token string, said int64) time.Duration {
	var claims struct {
		Until int64 `json:"exp"`
	}
	parts := strings.Split(token, ".")
	if said <= 0 && len(parts) == 3 {
		raw, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err == nil && json.Unmarshal(raw, &claims) == nil && claims.Until > 0 {
			said = max(claims.Until-time.Now().Unix(), 1)
		}
	}
	if said <= 0 {
		return unsaid
	}
	return time.Duration(min(said, int64(2*longest/time.Second))) * time.Second
}

// maxToken is how much of the answer of a service of tokens is read.
const maxToken = 64 << 10

// fetchToken asks the service of tokens for one that reads a repository.
func (c *Client) fetchToken(ctx context.Context, client *http.Client, repository string, at challenge, name string) (
	token redact.Secret, life time.Duration, _ error,
) {
	to, err := url.Parse(at.realm)
	if err != nil {
		return token, 0, c.fails(repository, err)
	}
	q := to.Query()
	if at.service != "" {
		q.Set("service", at.service)
	}
	q.Set("scope", "repository:"+name+":pull")
	to.RawQuery = q.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return token, 0, c.fails(repository, err)
	}
	if !c.password.IsZero() {
		request.SetBasicAuth(c.user, c.password.Reveal())
	}
	answer, err := client.Do(request)
	if err != nil {
		return token, 0, c.fails(repository, err)
	}
	defer func() { _ = answer.Body.Close() }() // what was read of it is what counts
	var made struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	switch raw, err := io.ReadAll(io.LimitReader(answer.Body, maxToken)); {
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return token, 0, loginRefused(repository)
	case err != nil, answer.StatusCode != http.StatusOK, json.Unmarshal(raw, &made) != nil,
		made.Token == "" && made.AccessToken == "":
		return token, 0, fault.New(fault.Unavailable, CodeUnreachable, "the service of tokens of %s gives none", repository).
			WithRemedy("try again later; ask whoever runs the registry")
	}
	if made.Token == "" {
		made.Token = made.AccessToken
	}
	if n := len(made.Token); n < leastToken || n > mostToken || c.holdsLogin(made.Token) {
		return token, 0, fault.New(fault.Conflict, CodeNoTokens, "the service of tokens of %s answers with the login itself, or "+
			"with what is no token, and a node is not given that", repository).
			WithRemedy("push the artifact to the platform's own registry: gpuaas artifact push")
	}
	life = lifeOf(made.Token, made.ExpiresIn)
	if life > longest {
		return token, 0, fault.New(fault.Conflict, CodeLongTokens, "tokens of %s live for more than an hour, which is too "+
			"long for a node", repository).WithRemedy("let its service of tokens give shorter ones, an hour at most")
	}
	return redact.New(made.Token), life, nil
}
