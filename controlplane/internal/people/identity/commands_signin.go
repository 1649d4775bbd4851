package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/people/identity/internal/identitydb"
)

// signInWithin is how long a person may take at the identity provider.
const signInWithin = 10 * time.Minute

// SignIn is a sign-in that has begun: the URL for the person, and the state
// that comes back with them.
type SignIn struct {
	AuthorizationURL string
	State            redact.Secret
}

// StartSignIn sends a person to the identity provider. The caller keeps the
// verifier behind the challenge, so nobody else can finish the sign-in.
func (s *Service) StartSignIn(ctx context.Context, redirectURI, codeChallenge string) (SignIn, error) {
	if s.idp == nil {
		return SignIn{}, oidcNotConfigured()
	}
	if err := s.oidc.checkRedirect(redirectURI); err != nil {
		return SignIn{}, err
	}
	if b, err := base64.RawURLEncoding.Strict().DecodeString(codeChallenge); err != nil || len(b) != sha256.Size {
		return SignIn{}, rejected([]fault.Field{{
			Path:    "body.code_challenge",
			Message: "must be the SHA-256 of the code verifier in 43 characters of base64url (S256)",
		}})
	}
	state, nonce := redact.New(randomText()), randomText()
	address, err := s.idp.authorizationURL(ctx, redirectURI, state.Reveal(), nonce, codeChallenge)
	if err != nil {
		return SignIn{}, err
	}
	now := s.now()
	err = s.inChange(ctx, func(ctx context.Context, c change) error {
		if err := c.DeleteExpiredLogins(ctx, now); err != nil {
			return fmt.Errorf("delete expired sign-ins: %w", err)
		}
		return c.InsertLogin(ctx, identitydb.InsertLoginParams{
			StateHash: digest(state), Nonce: nonce, RedirectUri: redirectURI, CodeChallenge: codeChallenge,
			ExpiresAt: now.Add(signInWithin),
		})
	})
	if err != nil {
		return SignIn{}, err
	}
	return SignIn{AuthorizationURL: address, State: state}, nil
}

// FinishSignIn turns the code with which a person came back into a session. The
// state works once, whether that succeeds or not. The session replaces the
// browser's former one, if there is one. If life is not zero, FinishSignIn
// makes a token of that life instead, from which other lasting tokens can be
// made.
func (s *Service) FinishSignIn(ctx context.Context, code, state, verifier, former redact.Secret, life time.Duration) (
	Token, redact.Secret, error,
) {
	if s.idp == nil {
		return Token{}, redact.Secret{}, oidcNotConfigured()
	}
	login, err := s.takeLogin(ctx, state, verifier)
	if err != nil {
		return Token{}, redact.Secret{}, err
	}
	who, err := s.idp.identify(ctx, login.RedirectUri, login.Nonce, code, verifier)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteRefusal(ctx, s.subject(person{}), err)
	}
	token, plain, err := s.openSession(ctx, who, former, life)
	if err != nil {
		return Token{}, redact.Secret{}, s.noteRefusal(ctx, s.subject(who), err)
	}
	return token, plain, nil
}

func (s *Service) takeLogin(ctx context.Context, state, verifier redact.Secret) (identitydb.OidcLogin, error) {
	login, err := s.reads.TakeLogin(ctx, digest(state))
	if errors.Is(err, pgx.ErrNoRows) || err == nil && !s.now().Before(login.ExpiresAt) {
		return login, fault.New(fault.Invalid, "sign_in_state_invalid",
			"this sign-in is unknown, was finished already or took too long").
			WithRemedy("start the sign-in again")
	}
	if err != nil {
		return login, fmt.Errorf("take sign-in: %w", err)
	}
	challenge := base64.RawURLEncoding.EncodeToString(digest(verifier))
	if subtle.ConstantTimeCompare([]byte(challenge), []byte(login.CodeChallenge)) != 1 {
		return login, fault.New(fault.Invalid, "code_verifier_invalid", "the code verifier does not belong to this sign-in").
			WithRemedy("start the sign-in again")
	}
	return login, nil
}

// openSession finds or makes the user for a person, and makes a session for
// them, or a token if life is not zero.
func (s *Service) openSession(ctx context.Context, who person, former redact.Secret, life time.Duration) (
	Token, redact.Secret, error,
) {
	var token Token
	kind, letter := TokenSession, letterSession
	if life > 0 {
		kind, letter = TokenAPI, letterPersonal
	}
	asked, plain := NewToken{Name: "sign-in", Life: cmp.Or(life, s.oidc.SessionTTL)}, mint(letter)
	if err := asked.check(); err != nil {
		return Token{}, redact.Secret{}, err
	}
	open := func(ctx context.Context, c change) error {
		user, err := s.userBehind(ctx, c, who)
		if err != nil {
			return err
		}
		if user.Disabled {
			return fault.New(fault.Forbidden, "user_disabled", "this account is disabled").
				WithRemedy("ask a platform administrator")
		}
		ctx = actingAs(ctx, user)
		if err := s.endFormer(ctx, c, former, id.Token{}); err != nil {
			return err
		}
		token, err = c.insertToken(ctx, s.now(), plain, asked, Token{Kind: kind, User: user.ID}, auth.Target{})
		return err
	}
	err := s.inChange(ctx, open)
	if errors.Is(err, errUserExists) { // the same person was faster in another window
		err = s.inChange(ctx, open)
	}
	return token, plain, err
}

// userBehind returns the user for a person: one that was linked earlier, one
// that was invited under the same verified address, or a new one if that is
// allowed.
func (s *Service) userBehind(ctx context.Context, c change, who person) (User, error) {
	row, err := c.LockUserByIdentity(ctx, identitydb.LockUserByIdentityParams{
		OidcIssuer:  &who.Issuer,
		OidcSubject: &who.Subject,
	})
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return userFrom(row), err
	}
	if who.Email == "" || !who.EmailVerified {
		return User{}, fault.New(fault.Forbidden, "email_unverified",
			"the identity provider does not vouch for an e-mail address of yours").
			WithRemedy("verify the address at the identity provider and sign in again")
	}
	row, err = c.LockUserByEmail(ctx, who.Email)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.welcome(ctx, c, who)
	}
	if err != nil {
		return User{}, fmt.Errorf("find user by address: %w", err)
	}
	invited := userFrom(row)
	if invited.Linked() {
		return User{}, fault.New(fault.Forbidden, "identity_mismatch",
			"the user of this address signs in with another account").
			WithRemedy("sign in with that account, or ask a platform administrator")
	}
	if invited.Disabled { // the caller refuses; the person is not linked to this user
		return invited, nil
	}
	return c.link(ctx, invited, who)
}

func (s *Service) welcome(ctx context.Context, c change, who person) (User, error) {
	if !s.oidc.AllowUnknownUsers {
		return User{}, fault.New(fault.Forbidden, "user_unknown", "nobody has invited this e-mail address").
			WithRemedy("ask a platform administrator for an invitation to %s", who.Email)
	}
	return c.insertUser(ctx, User{
		Email: who.Email, Name: who.Name, Issuer: who.Issuer, Subject: who.Subject, PlatformRole: auth.NoRole,
	})
}

func (c change) link(ctx context.Context, u User, who person) (User, error) {
	if u.Name == "" {
		u.Name = who.Name
	}
	row, err := c.LinkUser(ctx, identitydb.LinkUserParams{
		ID: u.ID, Name: u.Name, OidcIssuer: &who.Issuer,
		OidcSubject: &who.Subject,
	})
	if err != nil {
		return User{}, fmt.Errorf("link user: %w", err)
	}
	linked := userFrom(row)
	return linked, c.record(actingAs(ctx, linked), userEntry("user.link", linked),
		userEvent(eventwire.UserUpdated, linked))
}

// actingAs makes a person who has proven their identity the actor of what
// follows.
func actingAs(ctx context.Context, u User) context.Context {
	p := &auth.Principal{Kind: auth.KindUser, ID: u.ID.String(), Name: u.displayName()}
	if u.PlatformRole != auth.NoRole {
		p.Platform = u.PlatformRole
	}
	return auth.With(ctx, p)
}

// subject describes a person for audit entries if they are no user yet.
func (s *Service) subject(who person) audit.Entry {
	return audit.Entry{
		TargetKind: "oidc_subject", TargetID: cmp.Or(who.Subject, "unknown"),
		Metadata: map[string]any{"issuer": s.oidc.Issuer, "email": who.Email},
	}
}

// noteRefusal audits that somebody was refused. It does not audit outages.
func (s *Service) noteRefusal(ctx context.Context, attempt audit.Entry, refusal error) error {
	kind := fault.KindOf(refusal)
	if kind != fault.Forbidden && kind != fault.Unauthenticated {
		return refusal
	}
	s.logger.WarnContext(ctx, "a sign-in was refused", "code", fault.CodeOf(refusal), "error", refusal)
	attempt.Action, attempt.Result, attempt.Reason = "session.create", audit.Denied, fault.CodeOf(refusal)
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return audit.Record(ctx, tx, attempt) })
	if err != nil {
		s.logger.ErrorContext(ctx, "could not audit a refused sign-in", "code", fault.CodeOf(refusal), "error", err)
	}
	return refusal
}

// SignOut revokes the token of the request.
func (s *Service) SignOut(ctx context.Context) error {
	return s.RevokeOwnToken(ctx, auth.From(ctx).Token)
}

func oidcNotConfigured() error {
	return fault.New(fault.NotFound, "oidc_not_configured", "sign-in through an identity provider is not configured").
		WithRemedy("use an API token, or have an operator configure oidc")
}
