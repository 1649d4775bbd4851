package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
)

// TokenKind is how a token was made.
type TokenKind string

// The kinds of token: made on request, or by signing in.
const (
	TokenAPI     TokenKind = "api"
	TokenSession TokenKind = "session"
)

// Limits of the life of a token.
const (
	MinTokenLife     = time.Minute
	MaxTokenLife     = 366 * 24 * time.Hour
	DefaultTokenLife = 30 * 24 * time.Hour
)

// maxTokenLine limits how many tokens may be made one from the other: every
// request checks all of them.
const maxTokenLine = 8

const (
	tokenPrefix = "gpuaas_"
	tokenBytes  = 32 // too many to guess, and the hash needs no salt
)

// The letter after the prefix tells people, and scanners for leaked secrets,
// what they found.
const (
	letterPersonal       = "p"
	letterSession        = "s"
	letterServiceAccount = "a"
	letters              = letterPersonal + letterSession + letterServiceAccount
)

// Token is what is known of a token after it was made: everything but its text.
type Token struct {
	ID             id.Token
	Kind           TokenKind
	User           id.User           // one of these two is set
	ServiceAccount id.ServiceAccount //
	MadeFrom       id.Token          // the token or session it was made with; zero: none, or unknown
	Name           string
	Scopes         []auth.Permission // empty: all that the owner may do
	ExpiresAt      time.Time
	LastUsedAt     *time.Time
	CreatedAt      time.Time
}

// NewToken describes the token that somebody wants.
type NewToken struct {
	Name   string
	Life   time.Duration // 0: DefaultTokenLife
	Scopes []auth.Permission
}

func (n NewToken) check() error {
	fields := nameProblems(n.Name)
	if n.Life != 0 && (n.Life < MinTokenLife || n.Life > MaxTokenLife) {
		fields = append(fields, fault.Field{
			Path:    "body.expires_in",
			Message: fmt.Sprintf("must be between %.0f and %.0f seconds", MinTokenLife.Seconds(), MaxTokenLife.Seconds()),
		})
	}
	known := auth.Permissions()
	for i, scope := range n.Scopes {
		if !slices.Contains(known, scope) {
			fields = append(fields, fault.Field{Path: fmt.Sprintf("body.scopes[%d]", i), Message: "is not a permission"})
		}
	}
	return rejected(fields)
}

func (n NewToken) life() time.Duration {
	if n.Life == 0 {
		return DefaultTokenLife
	}
	return n.Life
}

// checkScopes refuses a token that could do more than the token that asks for
// it. A token without scopes may do everything that its owner may.
func checkScopes(asking *auth.Principal, scopes []auth.Permission) error {
	if len(asking.Scopes) == 0 {
		return nil
	}
	refused := fault.New(fault.Forbidden, "scope_above_own", "a token with scopes cannot make a wider one").
		WithRemedy("name scopes that are all among %s", joined(asking.Scopes))
	if len(scopes) == 0 {
		return refused
	}
	for _, scope := range scopes {
		if !slices.Contains(asking.Scopes, scope) {
			return refused
		}
	}
	return nil
}

func joined(scopes []auth.Permission) string {
	parts := make([]string, len(scopes))
	for i, s := range scopes {
		parts[i] = string(s)
	}
	return strings.Join(parts, ", ")
}

// mint makes the plain text of a token.
func mint(letter string) redact.Secret {
	return redact.New(tokenPrefix + letter + randomText())
}

// randomText returns 256 random bits as 43 characters that are safe in URLs.
func randomText() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: the runtime aborts instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// digest returns what is stored of a token, or of other random text that only
// its holder may know.
func digest(text redact.Secret) []byte {
	sum := sha256.Sum256([]byte(text.Reveal()))
	return sum[:]
}

// wellFormed tells a token from other text without asking the database.
func wellFormed(token redact.Secret) bool {
	rest, ok := strings.CutPrefix(token.Reveal(), tokenPrefix)
	if !ok || rest == "" || !strings.Contains(letters, rest[:1]) {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(rest[1:])
	return err == nil && len(b) == tokenBytes
}
