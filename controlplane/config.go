package controlplane

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/people/identity"
)

// Secret is a value that is never shown, however it is printed.
type Secret = redact.Secret

// NewSecret wraps a plain value.
func NewSecret(plain string) Secret { return redact.New(plain) }

// Role is one of the jobs that a process can do. Each can run in any number of
// replicas.
type Role string

// The roles.
const (
	RoleAPI    Role = "api"
	RoleWorker Role = "worker"
	RoleRelay  Role = "relay"
)

// Config is everything that the control plane can be told. Its values come from
// defaults, a YAML file, GPUAAS_* variables and flags; later ones win.
type Config struct {
	Roles       []Role         `koanf:"roles" doc:"what this process does: api, worker, relay"`
	Listen      string         `koanf:"listen" doc:"address of the API"`
	Insecure    []string       `koanf:"insecure" doc:"what may do without TLS although it leaves this machine: listen, postgres, temporal, nats, secrets; nothing unless it is named"`
	Proxies     []string       `koanf:"trusted_proxies" doc:"networks of proxies that are believed about the address of a caller (proxy_header) and its connection (X-Forwarded-Proto)"`
	ProxyHeader string         `koanf:"proxy_header" doc:"where these proxies write the address of a caller: X-Forwarded-For or Forwarded (RFC 7239); the other header is ignored"`
	TLS         TLSConfig      `koanf:"tls"`
	Log         LogConfig      `koanf:"log"`
	OTLP        OTLPConfig     `koanf:"otlp"`
	Postgres    PostgresConfig `koanf:"postgres"`
	Temporal    TemporalConfig `koanf:"temporal"`
	NATS        NATSConfig     `koanf:"nats"`
	Secrets     SecretsConfig  `koanf:"secrets"`
	OIDC        OIDCConfig     `koanf:"oidc"`
	Limits      LimitsConfig   `koanf:"limits"`
	Nodes       NodesConfig    `koanf:"nodes"`
	Sites       SitesConfig    `koanf:"sites"`

	Terminals      TerminalsConfig      `koanf:"terminals"`
	Reconciliation ReconciliationConfig `koanf:"reconciliation"`
	Prune          PruneConfig          `koanf:"prune"`
	Webhooks       WebhooksConfig       `koanf:"webhooks"`
	Registries     RegistriesConfig     `koanf:"registries"`
	Registry       RegistryConfig       `koanf:"registry"`
	Billing        BillingConfig        `koanf:"billing"`
	Console        ConsoleConfig        `koanf:"console"`
}

// TLSConfig is the certificate of the API.
type TLSConfig struct {
	CertFile string `koanf:"cert_file" doc:"certificate of the API; empty: plain HTTP, for a loopback address or behind a proxy"`
	KeyFile  string `koanf:"key_file" doc:"its private key"`
}

// LogConfig is how the process logs.
type LogConfig struct {
	Format string     `koanf:"format" doc:"json or text"`
	Level  slog.Level `koanf:"level" doc:"debug, info, warn or error"`
}

// OTLPConfig is where traces go.
type OTLPConfig struct {
	Endpoint string `koanf:"endpoint" doc:"URL of an OTLP/HTTP collector for traces; empty: none are sent"`
}

// PostgresConfig is how to reach the database.
type PostgresConfig struct {
	URL            Secret `koanf:"url" doc:"database, as a login role that is a member of gpuaas_app"`
	URLFile        string `koanf:"url_file" doc:"file that holds postgres.url"`
	MigrateURL     Secret `koanf:"migrate_url" doc:"the same database, as the role that owns the schema; needed for migrations only"`
	MigrateURLFile string `koanf:"migrate_url_file" doc:"file that holds postgres.migrate_url"`
	MigrateOnStart bool   `koanf:"migrate_on_start" doc:"bring the schema forward when the process starts"`
	MaxConns       int    `koanf:"max_conns" doc:"most connections of this process"`
}

// TemporalConfig is how to reach Temporal.
type TemporalConfig struct {
	Address    string `koanf:"address" doc:"host:port of the Temporal frontend"`
	Namespace  string `koanf:"namespace" doc:"namespace of the product"`
	CAFile     string `koanf:"ca_file" doc:"CA of the frontend; empty: the system's, or no TLS when cert_file and server_name are empty, too"`
	CertFile   string `koanf:"cert_file" doc:"client certificate"`
	KeyFile    string `koanf:"key_file" doc:"its private key"`
	ServerName string `koanf:"server_name" doc:"name in the certificate of the frontend; empty: the host of temporal.address"`
}

// NATSConfig is how to reach NATS.
type NATSConfig struct {
	URL             string `koanf:"url" doc:"nats://host:port, several separated by commas"`
	TokenFile       string `koanf:"token_file" doc:"file that holds a token"`
	CredentialsFile string `koanf:"credentials_file" doc:"file that holds a user JWT and its seed"`
	CAFile          string `koanf:"ca_file" doc:"CA of the servers; empty: the system's"`
	SubjectPrefix   string `koanf:"subject_prefix" doc:"first part of every event subject"`
	Replicas        int    `koanf:"replicas" doc:"copies that JetStream keeps of each event"`
}

// OIDCConfig is how people sign in.
type OIDCConfig struct {
	Issuer            string        `koanf:"issuer" doc:"URL of the identity provider; empty: nobody signs in by OIDC"`
	ClientID          string        `koanf:"client_id" doc:"client id at the provider"`
	ClientSecretFile  string        `koanf:"client_secret_file" doc:"file that holds the client secret; empty for a public client"`
	RedirectURIs      []string      `koanf:"redirect_uris" doc:"redirect addresses allowed besides the command line's loopback ones"`
	AllowUnknownUsers bool          `koanf:"allow_unknown_users" doc:"let people sign in who were not invited; they hold no role"`
	SessionTTL        time.Duration `koanf:"session_ttl" doc:"how long a sign-in lasts, also one to the console with a token"`
}

// LimitsConfig protects the API from its callers.
type LimitsConfig struct {
	RequestsPerSecond float64       `koanf:"requests_per_second" doc:"steady rate allowed to one caller over all API replicas, and to one address (of IPv6: a /64) of callers who are not known, per replica"`
	Burst             int           `koanf:"burst" doc:"requests one caller may send at once"`
	MaxBodyBytes      int64         `koanf:"max_body_bytes" doc:"largest request body"`
	RequestTimeout    time.Duration `koanf:"request_timeout" doc:"longest time for one request"`
	StreamsPerCaller  int           `koanf:"streams_per_caller" doc:"streams of events and terminals that one caller may have open, per API replica"`
	Streams           int           `koanf:"streams" doc:"streams of events and terminals of all callers together, per API replica"`
	ShutdownTimeout   time.Duration `koanf:"shutdown_timeout" doc:"longest time to finish what is in flight when stopping"`
}

// Defaults returns the configuration that applies if nothing is set.
func Defaults() Config {
	return Config{
		Roles:       []Role{RoleAPI, RoleWorker, RoleRelay},
		Listen:      "127.0.0.1:8080",
		ProxyHeader: httpapi.ForwardedFor,
		Log:         LogConfig{Format: "json", Level: slog.LevelInfo},
		Postgres:    PostgresConfig{MaxConns: 20},
		Temporal:    TemporalConfig{Namespace: "gpuaas"},
		NATS:        NATSConfig{SubjectPrefix: "gpuaas", Replicas: 1},
		Secrets:     SecretsConfig{KVMount: "gpuaas-kv"},
		OIDC:        OIDCConfig{SessionTTL: 12 * time.Hour},
		Limits: LimitsConfig{
			RequestsPerSecond: 300, Burst: 600, MaxBodyBytes: 1 << 20,
			RequestTimeout: 30 * time.Second, ShutdownTimeout: 20 * time.Second,
			StreamsPerCaller: 50, Streams: 2000,
		},
		Nodes: defaultNodes(), Terminals: defaultTerminals(), Reconciliation: defaultReconciliation(), Prune: defaultPrune(),
		Webhooks: defaultWebhooks(),
		Billing:  defaultBilling(),
	}
}

// Validate reports every problem at once, so that nobody has to start the
// process five times to find five mistakes.
func (c Config) Validate() []error {
	var errs []error
	bad := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if len(c.Roles) == 0 {
		bad("roles", "name at least one of api, worker, relay")
	}
	for _, r := range c.Roles {
		if !slices.Contains([]Role{RoleAPI, RoleWorker, RoleRelay}, r) {
			bad("roles", "%q is not one of api, worker, relay", r)
		}
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		bad("listen", "%q is not host:port", c.Listen)
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls", "cert_file and key_file go together")
	}
	if c.Log.Format != "json" && c.Log.Format != "text" {
		bad("log.format", "%q is not json or text", c.Log.Format)
	}
	if c.Postgres.URL.IsZero() {
		bad("postgres.url", "is missing; set postgres.url or postgres.url_file")
	}
	if c.Postgres.MigrateOnStart && c.Postgres.MigrateURL.IsZero() {
		bad("postgres.migrate_url", "is missing, but postgres.migrate_on_start is set")
	}
	if _, _, err := net.SplitHostPort(c.Temporal.Address); err != nil {
		bad("temporal.address", "%q is not host:port", c.Temporal.Address)
	}
	badURL(bad, "nats.url", c.NATS.URL, "nats", "tls")
	badURL(bad, "secrets.address", c.Secrets.Address, "http", "https")
	errs = append(errs, c.OIDC.identity(Secret{}).Validate()...)
	if _, err := c.proxies(); err != nil {
		bad("trusted_proxies", "%v", err)
	}
	if c.ProxyHeader != httpapi.ForwardedFor && c.ProxyHeader != httpapi.Forwarded {
		bad("proxy_header", "%q is not %s or %s", c.ProxyHeader, httpapi.ForwardedFor, httpapi.Forwarded)
	}
	if c.OTLP.Endpoint != "" {
		badURL(bad, "otlp.endpoint", c.OTLP.Endpoint, "http", "https")
	}
	c.Nodes.check(bad)
	c.Sites.check(bad)
	c.Secrets.check(c.identities(), bad)
	c.checkPostgres(bad)
	c.checkExposures(bad)
	c.Terminals.check(bad)
	c.Reconciliation.check(bad)
	c.Prune.check(bad)
	c.Webhooks.check(bad)
	c.Registries.check(bad)
	c.Registry.check(bad)
	c.Billing.check(bad)
	c.Console.check(bad)
	return append(errs, append(c.badFiles(), c.badNumbers()...)...)
}

func (c OIDCConfig) identity(clientSecret Secret) identity.OIDCConfig {
	return identity.OIDCConfig{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: clientSecret, RedirectURIs: c.RedirectURIs,
		AllowUnknownUsers: c.AllowUnknownUsers, SessionTTL: c.SessionTTL,
	}
}

func (c Config) proxies() ([]netip.Prefix, error) { return networks(c.Proxies) }

// networks reads networks in CIDR form.
func networks(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, p := range list {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", p)
		}
		out = append(out, prefix)
	}
	return out, nil
}

func badURL(bad func(string, string, ...any), key, value string, schemes ...string) {
	for _, one := range strings.Split(value, ",") {
		u, err := url.Parse(one)
		switch {
		case value == "":
			bad(key, "is missing")
		case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
			bad(key, "%q is not a URL with scheme %s", redactedURL(one), strings.Join(schemes, " or "))
		case u.User != nil:
			bad(key, "must not hold credentials: they would be shown in logs")
		}
	}
}

func redactedURL(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	return redact.Placeholder
}

func (c Config) badFiles() []error {
	var errs []error
	files := c.Secrets.files()
	maps.Copy(files, map[string]string{
		"tls.cert_file": c.TLS.CertFile, "tls.key_file": c.TLS.KeyFile,
		"temporal.ca_file": c.Temporal.CAFile, "temporal.cert_file": c.Temporal.CertFile,
		"temporal.key_file": c.Temporal.KeyFile,
		"nats.token_file":   c.NATS.TokenFile, "nats.credentials_file": c.NATS.CredentialsFile, "nats.ca_file": c.NATS.CAFile,
		"registry.password_file": c.Registry.PasswordFile, "registry.ca_file": c.Registry.CAFile,
		"registry.cert_file": c.Registry.CertFile, "registry.key_file": c.Registry.KeyFile,
		"oidc.client_secret_file": c.OIDC.ClientSecretFile,
		"nodes.tls.cert_file":     c.Nodes.TLS.CertFile, "nodes.tls.key_file": c.Nodes.TLS.KeyFile,
		"nodes.tls.ca_file":    c.Nodes.TLS.CAFile,
		"nodes.former_ca_file": c.Nodes.FormerCAFile,
	})
	for key, file := range files {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func (c Config) badNumbers() []error {
	var errs []error
	for _, n := range []struct {
		key   string
		value float64
	}{
		{"postgres.max_conns", float64(c.Postgres.MaxConns) - 3}, // listener, relay and one for requests
		{"nats.replicas", float64(c.NATS.Replicas)},
		{"limits.requests_per_second", c.Limits.RequestsPerSecond},
		{"limits.burst", float64(c.Limits.Burst)},
		{"limits.max_body_bytes", float64(c.Limits.MaxBodyBytes)},
		{"limits.request_timeout", c.Limits.RequestTimeout.Seconds()},
		{"limits.streams_per_caller", float64(c.Limits.StreamsPerCaller)},
		{"limits.streams", float64(c.Limits.Streams)},
		{"limits.shutdown_timeout", c.Limits.ShutdownTimeout.Seconds()},
		{"oidc.session_ttl", c.OIDC.SessionTTL.Seconds()},
	} {
		if n.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: is too small", n.key))
		}
	}
	return errs
}
