package terminal

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
)

// MaxTokenLife is the longest that a token may wait to be used.
const MaxTokenLife = 5 * time.Minute

// Reasons that only the control plane gives.
const (
	reasonExpired     = "token_expired"
	reasonRevoked     = "token_revoked"
	reasonGatewayLost = "gateway_lost"
	reasonNodeSilent  = "node_did_not_answer"
)

// Settings is what operators choose. Zero fields take the value of
// DefaultSettings.
type Settings struct {
	// GatewayURL is the https address at which nodes reach this very replica.
	// If it is empty, they cannot, and this replica offers no terminals.
	GatewayURL string
	TokenLife  time.Duration
	// IdleLimit ends a session in which nothing is typed or shown. TotalLimit
	// ends any session. Both ends enforce both limits.
	IdleLimit, TotalLimit time.Duration
	// NodeWait is how long the user waits for the node.
	NodeWait time.Duration
	// Stall is how long one end may accept nothing of what the other sends.
	Stall time.Duration
	// MintsPerMinute is how many tokens one caller may ask for in a minute.
	MintsPerMinute int
}

// DefaultSettings suit people at work.
func DefaultSettings() Settings {
	return Settings{
		TokenLife: 2 * time.Minute, IdleLimit: 15 * time.Minute, TotalLimit: 8 * time.Hour,
		NodeWait: 30 * time.Second, Stall: 2 * time.Minute, MintsPerMinute: 10,
	}
}

func (s Settings) withDefaults() Settings {
	d := DefaultSettings()
	or := func(value *time.Duration, usual time.Duration) {
		if *value <= 0 {
			*value = usual
		}
	}
	or(&s.TokenLife, d.TokenLife)
	or(&s.IdleLimit, d.IdleLimit)
	or(&s.TotalLimit, d.TotalLimit)
	or(&s.NodeWait, d.NodeWait)
	or(&s.Stall, d.Stall)
	if s.MintsPerMinute <= 0 {
		s.MintsPerMinute = d.MintsPerMinute
	}
	s.TokenLife = min(s.TokenLife, MaxTokenLife)
	return s
}

// Session is an interactive session on a node.
type Session struct {
	ID             id.TerminalSession
	Node           id.Node
	Username       string
	Status         Status
	TokenExpiresAt time.Time
	RequestedBy    string
	Columns, Rows  int
	Correlation    string
	Gateway        string
	CloseReason    string
	BytesIn        int64 // typed
	BytesOut       int64 // shown
	CreatedAt      time.Time
	OpenedAt       *time.Time
	ClosedAt       *time.Time

	requesterToken id.Token // the API token of the request
	requesterKind  auth.Kind
	requesterName  string
	tenant         auth.Target // the project whose allocation it is for; zero: none
	allocation     id.Allocation
}

// needs is the permission that the requester must keep, on the tenant.
func (s Session) needs() auth.Permission {
	if s.tenant == (auth.Target{}) {
		return auth.TerminalOpen
	}
	return auth.AllocationUse
}

// requester is who asked for the session. Later records need it, when only a
// connection is left.
func (s Session) requester() *auth.Principal {
	return &auth.Principal{Kind: s.requesterKind, ID: s.RequestedBy, Name: s.requesterName, Token: s.requesterToken}
}

// Wish describes the session that somebody wants.
type Wish struct {
	Node          id.Node
	Username      string
	Columns, Rows int
	// Tenant is the project whose allocation it is for; zero: an administrator of
	// the platform asks.
	Tenant     auth.Target
	Allocation id.Allocation // zero: none
}

// params are the parameters of the agent's task. Its gateway URL uses wss.
func (s Settings) params(session id.TerminalSession, w Wish) agentwire.TerminalOpenParams {
	return agentwire.TerminalOpenParams{
		SessionID: session.String(), Username: w.Username, GatewayURL: gateway(s.GatewayURL), Columns: w.Columns,
		Rows:        w.Rows,
		IdleSeconds: seconds(s.IdleLimit), TotalSeconds: seconds(s.TotalLimit),
	}
}

func seconds(d time.Duration) int { return int(max(d.Round(time.Second), time.Second) / time.Second) }

func gateway(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.Scheme = "wss"
	return strings.TrimSuffix(u.String(), "/")
}

// check refuses what the agent would refuse anyway.
func (s Settings) check(w Wish) error {
	if s.GatewayURL == "" {
		return errNoGateway
	}
	if err := s.params(id.New[id.TerminalSession](), w).Validate(); err != nil {
		return fault.New(fault.Invalid, "validation_error", "there cannot be such a session: %v", err).
			WithFields(fault.Field{Path: "body", Message: err.Error()})
	}
	return nil
}

// tokenPrefix tells people, and scanners for leaked secrets, what they found.
const tokenPrefix = "gpuaas_t"

func newToken() redact.Secret {
	var b [32]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails: the runtime aborts instead
	return redact.New(tokenPrefix + base64.RawURLEncoding.EncodeToString(b[:]))
}

// digest returns what is stored of a token.
func digest(token redact.Secret) []byte {
	sum := sha256.Sum256([]byte(token.Reveal()))
	return sum[:]
}

var (
	errNoGateway = fault.New(fault.Unavailable, "terminals_missing",
		"nodes cannot reach this replica, so there are no terminals here").
		WithRemedy("set nodes.listen and nodes.url, or nodes.terminal_url, and restart")
	errToken = fault.New(fault.Unauthenticated, "terminal_token_invalid",
		"the token is unknown, was used before, or has expired").
		WithRemedy("ask for a new one: a token opens one session, within minutes")
	errForbidden = fault.New(fault.Forbidden, "insufficient_permissions",
		"whoever asked for the session may no longer open terminals").
		WithRemedy("ask an administrator for a role that includes %s", auth.TerminalOpen)
	errTokenInQuery = fault.New(fault.Unauthenticated, "terminal_token_in_query", "a token must not be in an address").
			WithRemedy("send it in Sec-WebSocket-Protocol or Authorization")
	errNotFound = fault.New(fault.NotFound, "terminal_session_not_found", "there is no such session for this node")
	errEnded    = fault.New(fault.Conflict, "terminal_session_ended",
		"the session does not wait for its node").WithRemedy("ask for a new session")
	errElsewhere = fault.New(fault.Unavailable, "terminal_session_elsewhere", "another replica waits for this session").
			WithRemedy("dial again; where replicas share an address, give each its own in nodes.terminal_url")
	errShutdown = fault.New(fault.Unavailable, "server_shutting_down",
		"this replica is shutting down").WithRemedy("ask for a new session")
)
