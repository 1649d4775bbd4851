package region

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// User is an account of the region.
type User struct {
	Name     string
	Admin    bool
	Inactive bool
}

// Token is one API key. It belongs to a user or to a machine.
type Token struct {
	Name     string
	Consumer string
	Key      string
	Secret   string
	User     string
	Machine  string
}

// String returns the key in the form that MAAS hands out.
func (t *Token) String() string { return t.Consumer + ":" + t.Key + ":" + t.Secret }

// Caller is the sender of a request: a user, a machine, or nobody.
type Caller struct {
	User    *User
	Machine string
}

// Anonymous says whether nobody signed in.
func (c Caller) Anonymous() bool { return c.User == nil && c.Machine == "" }

func (c Caller) name() string {
	if c.User == nil {
		return "unknown"
	}
	return c.User.Name
}

const keyAlphabet = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

func (r *Region) randomKey(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = keyAlphabet[r.rng.IntN(len(keyAlphabet))]
	}
	return string(b)
}

func (r *Region) addToken(name, user, machine string) *Token {
	t := &Token{
		Name: name, Consumer: r.randomKey(18), Key: r.randomKey(18), Secret: r.randomKey(32), User: user,
		Machine: machine,
	}
	r.state.Tokens = append(r.state.Tokens, t)
	return t
}

func (r *Region) addUser(name string, admin bool) {
	r.state.Users = append(r.state.Users, &User{Name: name, Admin: admin})
	key := r.addToken("MAAS consumer", name, "").String()
	if admin && r.state.Admin == "" {
		r.state.Admin = key
	}
	if !admin && r.state.Operator == "" {
		r.state.Operator = key
	}
}

// AdminKey returns the API key of the administrator.
func (r *Region) AdminKey() string { return r.state.Admin }

// OperatorKey returns the API key of the plain user.
func (r *Region) OperatorKey() string { return r.state.Operator }

func (r *Region) user(name string) *User {
	for _, u := range r.state.Users {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// ChallengeError says that MAAS refuses a signature.
type ChallengeError struct{ Text string }

// Error returns MAAS's answer.
func (c *ChallengeError) Error() string { return "Authorization Error: " + c.Text }

const timestampSlack = 300 * time.Second

// Authenticate reads an OAuth header. If it is missing or incomplete, the
// caller is nobody. If the signature is wrong, the error is a *ChallengeError.
func (r *Region) Authenticate(header string) (Caller, error) {
	p, ok := oauthParameters(header)
	if !ok {
		return Caller{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t, err := r.checkToken(p)
	if err != nil {
		return Caller{}, err
	}
	if err := r.checkFresh(p); err != nil {
		return Caller{}, err
	}
	if t.Machine != "" {
		return Caller{Machine: t.Machine}, nil
	}
	u := r.user(t.User)
	if u == nil || u.Inactive {
		return Caller{}, forbidden()
	}
	return Caller{User: u}, nil
}

func (r *Region) checkToken(p map[string]string) (*Token, error) {
	knownConsumer := false
	for _, t := range r.state.Tokens {
		if t.Consumer != p["oauth_consumer_key"] {
			continue
		}
		knownConsumer = true
		if t.Key != p["oauth_token"] {
			continue
		}
		if p["oauth_signature_method"] != "PLAINTEXT" || p["oauth_signature"] != "&"+t.Secret {
			return nil, &ChallengeError{fmt.Sprintf("'Invalid signature. Expected signature base string: &%s'", t.Secret)}
		}
		return t, nil
	}
	if knownConsumer {
		return nil, &ChallengeError{fmt.Sprintf("'Invalid access token: %s'", p["oauth_token"])}
	}
	return nil, &ChallengeError{"Invalid API key."}
}

func (r *Region) checkFresh(p map[string]string) error {
	given, err := strconv.ParseInt(p["oauth_timestamp"], 10, 64)
	if err != nil {
		return &ChallengeError{"'Invalid timestamp'"}
	}
	now := r.clock.Now()
	if now.Unix()-given > int64(timestampSlack/time.Second) {
		return &ChallengeError{fmt.Sprintf("'Expired timestamp: given %d and now %d has a greater difference than "+
			"threshold %d'", given, now.Unix(), int(timestampSlack/time.Second))}
	}
	nonce := p["oauth_consumer_key"] + "/" + p["oauth_token"] + "/" + p["oauth_nonce"]
	if _, used := r.nonces[nonce]; used {
		return &ChallengeError{fmt.Sprintf("'Nonce already used: %s'", p["oauth_nonce"])}
	}
	if len(r.nonces) > 50_000 {
		for n, at := range r.nonces {
			if now.Sub(at) > 2*timestampSlack {
				delete(r.nonces, n)
			}
		}
	}
	r.nonces[nonce] = now
	return nil
}

// oauthParameters returns the parts of an OAuth header if none is missing.
func oauthParameters(header string) (map[string]string, bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "OAuth") {
		return nil, false
	}
	p := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			continue
		}
		value, err := url.PathUnescape(strings.Trim(value, `"`))
		if err != nil {
			return nil, false
		}
		p[name] = value
	}
	for _, needed := range []string{
		"oauth_consumer_key", "oauth_token", "oauth_signature", "oauth_signature_method",
		"oauth_timestamp", "oauth_nonce",
	} {
		if p[needed] == "" {
			return nil, false
		}
	}
	return p, true
}

// Whoami returns the account of the caller.
func (r *Region) Whoami(c Caller) any {
	return map[string]any{"username": c.name(), "email": c.name() + "@example.com", "is_superuser": c.User != nil &&
		c.User.Admin, "is_local": true, "resource_uri": "/MAAS/api/2.0/users/" + c.name() + "/"}
}

// Tokens lists the API keys of the caller.
func (r *Region) Tokens(c Caller) any {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []map[string]string{}
	for _, t := range r.state.Tokens {
		if c.User != nil && t.User == c.User.Name {
			list = append(list, map[string]string{"name": t.Name, "token": t.String()})
		}
	}
	return list
}

// CreateToken makes another API key for the caller.
func (r *Region) CreateToken(c Caller, name string) any {
	if name == "" {
		name = "MAAS consumer"
	}
	var t *Token
	r.change(func() { t = r.addToken(name, c.name(), "") })
	return map[string]string{"token_key": t.Key, "token_secret": t.Secret, "consumer_key": t.Consumer, "name": t.Name}
}

// DeleteToken revokes an API key of the caller.
func (r *Region) DeleteToken(c Caller, key string) error {
	if key == "" {
		return badRequest("No provided token_key!")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, t := range r.state.Tokens {
		if t.User == c.name() && t.Key == key {
			r.state.Tokens = append(r.state.Tokens[:i], r.state.Tokens[i+1:]...)
			r.changes++
			return nil
		}
	}
	return &RefusalError{Status: http.StatusNotFound, Text: "No Token matches the given query.", Missing: true}
}
