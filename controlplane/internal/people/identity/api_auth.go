package identity

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tagSignIn = "Sign-in"

// MethodsView says how callers can prove who they are.
type MethodsView struct {
	Methods []string `json:"methods" nullable:"false" enum:"token,oidc" doc:"The ways that work here."`
	Issuer  string   `json:"issuer,omitempty" doc:"The identity provider, where oidc is one of them."`
}

// StartSignInBody begins a sign-in.
type StartSignInBody struct {
	RedirectURI   string `json:"redirect_uri" maxLength:"2000" doc:"Where the person comes back to: a loopback address or a configured one." example:"http://127.0.0.1:43117/callback"`
	CodeChallenge string `json:"code_challenge" minLength:"43" maxLength:"43" pattern:"^[A-Za-z0-9_-]{43}$" doc:"SHA-256 of the code verifier, base64url (PKCE, S256)."`
}

// StartedSignInView is a sign-in that has begun.
type StartedSignInView struct {
	AuthorizationURL string `json:"authorization_url" doc:"Where the person signs in."`
	State            string `json:"state" doc:"Comes back with the person; works once, for ten minutes."`
}

// FinishSignInBody ends a sign-in.
type FinishSignInBody struct {
	Code         string `json:"code" minLength:"1" maxLength:"4096" doc:"What the identity provider sent back."`
	State        string `json:"state" minLength:"1" maxLength:"200" doc:"The state that came back with it."`
	CodeVerifier string `json:"code_verifier" minLength:"43" maxLength:"128" pattern:"^[A-Za-z0-9._~-]+$" doc:"What the code challenge was made of."`
	ExpiresIn    int64  `json:"expires_in,omitempty" minimum:"60" maximum:"31622400" doc:"Makes a token that works for so many seconds instead of a session: for what must outlast one."`
}

// SessionView is a session that was just opened. Its token is shown only here.
type SessionView struct {
	Token     string    `json:"token" doc:"The token of the session. It is shown this once."`
	ExpiresAt time.Time `json:"expires_at"`
}

// NewSessionBody proves who somebody is: with a token, or with the code that
// the identity provider sent back.
type NewSessionBody struct {
	Token        string `json:"token,omitempty" maxLength:"200" doc:"A token of a person; alone."`
	Code         string `json:"code,omitempty" maxLength:"4096" doc:"What the identity provider sent back; with state and code_verifier."`
	State        string `json:"state,omitempty" maxLength:"200" doc:"The state that came back with it."`
	CodeVerifier string `json:"code_verifier,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9._~-]*$" doc:"What the code challenge was made of."`
}

func (b NewSessionBody) check() error {
	returned := b.Code != "" && b.State != "" && b.CodeVerifier != ""
	part := b.Code != "" || b.State != "" || b.CodeVerifier != ""
	if b.Token != "" && !part || b.Token == "" && returned {
		return nil
	}
	return rejected([]fault.Field{{Path: "body", Message: "must have either token, or code, state and code_verifier"}})
}

// BrowserSessionView is a session that a browser has been given as a cookie.
type BrowserSessionView struct {
	ExpiresAt time.Time `json:"expires_at"`
}

// SessionAnswer gives a browser its session.
type SessionAnswer struct {
	SetCookie string `header:"Set-Cookie" doc:"The session. Scripts cannot read it."`
	Body      BrowserSessionView
}

// SignedOut makes a browser forget its session.
type SignedOut struct {
	SetCookie string `header:"Set-Cookie" doc:"Ends the session of a browser."`
}

func (s *Service) registerSessions(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-session", Method: http.MethodPost, Path: "/api/v1/auth/session", Tag: tagSignIn,
		Summary: "Sign a browser in, with a token or at the end of a sign-in through the identity provider",
		Description: "The session comes as a cookie that scripts cannot read and other sites cannot use; it is in no answer. " +
			"It can do what the token can, and ends with it at the latest. Changes that come with the cookie must come from " +
			"pages of this origin.",
		Access: httpapi.Public(), SecretResponse: true, OpensSession: true,
	}, func(ctx context.Context, in *struct{ Body NewSessionBody }) (*SessionAnswer, error) {
		if err := in.Body.check(); err != nil {
			return nil, err
		}
		session, plain, err := s.open(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &SessionAnswer{
			SetCookie: httpapi.NewSession(ctx, plain, session.ExpiresAt),
			Body:      BrowserSessionView{ExpiresAt: session.ExpiresAt.UTC()},
		}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "sign-out", Method: http.MethodPost, Path: "/api/v1/auth/logout", Tag: tagSignIn,
		Summary: "Revoke the token that this request comes with", Access: httpapi.Authenticated(),
		Status: http.StatusNoContent, OnToken: true,
	}, func(ctx context.Context, _ *struct{}) (*SignedOut, error) {
		return &SignedOut{SetCookie: httpapi.EndSession(ctx)}, s.SignOut(ctx)
	})
}

func (s *Service) open(ctx context.Context, b NewSessionBody) (Token, redact.Secret, error) {
	former := httpapi.FormerSession(ctx)
	if b.Token != "" {
		return s.OpenSession(ctx, redact.New(b.Token), former)
	}
	return s.FinishSignIn(ctx, redact.New(b.Code), redact.New(b.State), redact.New(b.CodeVerifier), former, 0)
}

func (s *Service) registerSignIn(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-auth-methods", Method: http.MethodGet, Path: "/api/v1/auth/methods", Tag: tagSignIn,
		Summary: "List the ways to sign in", Access: httpapi.Public(),
	}, func(context.Context, *struct{}) (*httpapi.Plain[MethodsView], error) {
		view := MethodsView{Methods: []string{"token"}}
		if s.oidc.Enabled() {
			view.Methods, view.Issuer = append(view.Methods, "oidc"), s.oidc.Issuer
		}
		return &httpapi.Plain[MethodsView]{Body: view}, nil
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "start-oidc-sign-in", Method: http.MethodPost, Path: "/api/v1/auth/oidc/authorize", Tag: tagSignIn,
		Summary: "Begin a sign-in through the identity provider", Access: httpapi.Public(), SecretResponse: true,
	}, func(ctx context.Context, in *struct{ Body StartSignInBody }) (*httpapi.Plain[StartedSignInView], error) {
		started, err := s.StartSignIn(ctx, in.Body.RedirectURI, in.Body.CodeChallenge)
		return &httpapi.Plain[StartedSignInView]{Body: StartedSignInView{
			AuthorizationURL: started.AuthorizationURL,
			State:            started.State.Reveal(),
		}}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "finish-oidc-sign-in", Method: http.MethodPost, Path: "/api/v1/auth/oidc/exchange", Tag: tagSignIn,
		Summary:     "Finish a sign-in through the identity provider",
		Description: "The token of the session is shown once, in this answer.",
		Access:      httpapi.Public(), SecretResponse: true,
	}, func(ctx context.Context, in *struct{ Body FinishSignInBody }) (*httpapi.Plain[SessionView], error) {
		session, plain, err := s.FinishSignIn(ctx, redact.New(in.Body.Code), redact.New(in.Body.State),
			redact.New(in.Body.CodeVerifier), redact.Secret{},
			time.Duration(in.Body.ExpiresIn)*time.Second)
		return &httpapi.Plain[SessionView]{Body: SessionView{Token: plain.Reveal(), ExpiresAt: session.ExpiresAt.UTC()}}, err
	})
}
