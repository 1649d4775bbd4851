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

// TokenKind is how a token came to be.
type TokenKind string

// The kinds of token: made on request, or by signing in.
const (
	TokenAPI     TokenKind = "api"
	TokenSession TokenKind = "session"
)

// The limits on the life of a token.
const (
	MinTokenLife     = time.Minute
	MaxTokenLife     = 366 * 24 * time.Hour
	DefaultTokenLife = 30 * 24 * time.Hour
)

// maxTokenLine is how many tokens may have been made each with the one before
// it: every request looks at all of them.
const maxTokenLine = 8

const (
	tokenPrefix = "gpuaas_"
	tokenBytes  = 32 // so many that guessing is hopeless and the hash needs no salt
)

// The letter after the prefix tells people, and scanners that look for leaked
// secrets, what they have found.
const (
	letterPersonal       = "p"
	letterSession        = "s"
	letterServiceAccount = "a"
	letters              = letterPersonal + letterSession + letterServiceAccount
)

// Token is what is known of a token after it was made: everything but itself.
type Token struct {
	ID             id.Token
	Kind           TokenKind
	User           id.User           // one of these two is set
	ServiceAccount id.ServiceAccount //
	MadeFrom       id.Token          // the token or session it was made with; zero: none, or not known
	Name           string
	Scopes         []auth.Permission // empty: all that the owner may do
	ExpiresAt      time.Time
	LastUsedAt     *time.Time
	CreatedAt      time.Time
}

// NewToken is what a token is asked to be.
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

// checkScopes refuses a token that could do what the token asking for it
// cannot. A token without scopes is the widest there is.
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

// randomText is 256 random bits in 43 characters that are safe in URLs.
func randomText() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: the runtime aborts instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// digest is what is stored of a token, and of other random text that only its
// holder may know.
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
