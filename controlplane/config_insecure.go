package controlplane

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"gpuaas/controlplane/internal/engine/durable"
)

// What may be named in the setting insecure.
const (
	insecureListen   = "listen"
	insecurePostgres = "postgres"
	insecureTemporal = "temporal"
	insecureNATS     = "nats"
	insecureSecrets  = "secrets"
	insecureRegistry = "registry"
)

var insecurities = []string{
	insecureListen, insecurePostgres, insecureTemporal, insecureNATS, insecureSecrets,
	insecureRegistry,
}

// exposure is something that leaves this machine, or is reached from outside,
// without TLS that proves who is at the other end.
type exposure struct {
	name string // the name that allows it in the setting insecure
	key  string
	why  string
	do   string
}

// exposures returns all of them, allowed or not.
func (c Config) exposures() []exposure {
	var out []exposure
	add := func(name, key, why, do string) { out = append(out, exposure{name, key, why, do}) }
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && !onThisMachine(host) && c.TLS.CertFile == "" {
		add(insecureListen, "listen", fmt.Sprintf(
			"%s is open to other machines and speaks plain HTTP: tokens could be read on the way", c.Listen),
			"set tls.cert_file and tls.key_file, or listen on 127.0.0.1")
	}
	for key, u := range map[string]Secret{"postgres.url": c.Postgres.URL, "postgres.migrate_url": c.Postgres.MigrateURL} {
		if !u.IsZero() && !postgresVerified(u.Reveal()) {
			add(insecurePostgres, key,
				"the database is on another machine, and the connection to it is not encrypted or does not verify the server",
				"add sslmode=verify-full, and sslrootcert=FILE for a CA of your own")
		}
	}
	if host, _, err := net.SplitHostPort(c.Temporal.Address); err == nil && !onThisMachine(host) &&
		!durable.Config(c.Temporal).TLS() {
		add(insecureTemporal, "temporal.address",
			"Temporal is on another machine, and whoever sits between could give orders",
			"set temporal.ca_file, and temporal.cert_file and key_file for mutual TLS")
	}
	for one := range strings.SplitSeq(c.NATS.URL, ",") {
		if u, err := url.Parse(one); one != "" && err == nil &&
			u.Scheme != "tls" && c.NATS.CAFile == "" && !onThisMachine(u.Hostname()) {
			add(insecureNATS, "nats.url", "NATS is on another machine, and events could be read or made up on the way",
				"write tls://HOST:PORT, or set nats.ca_file")
			break
		}
	}
	if u, err := url.Parse(c.Secrets.Address); c.Secrets.Address != "" && err == nil && u.Scheme != "https" &&
		!onThisMachine(u.Hostname()) {
		add(insecureSecrets, "secrets.address",
			"the secrets engine is on another machine, and secrets could be read on the way", "use https")
	}
	if u, err := url.Parse(c.Registry.URL); c.Registry.URL != "" && err == nil && u.Scheme != "https" &&
		!onThisMachine(u.Hostname()) {
		add(insecureRegistry, "registry.url",
			"the registry is on another machine, and its password could be read on the way", "use https")
	}
	slices.SortFunc(out, func(a, b exposure) int { return strings.Compare(a.key, b.key) })
	return out
}

// onThisMachine trusts addresses, and no name but localhost: others decide what
// another name means, and may change it.
func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// postgresVerified checks every way that the driver would try: sslmode=prefer
// has one without TLS.
func postgresVerified(raw string) bool {
	cfg, err := pgconn.ParseConfig(raw)
	if err != nil {
		return true // checkPostgres reports this
	}
	ways := []*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}}
	return !slices.ContainsFunc(append(ways, cfg.Fallbacks...), func(way *pgconn.FallbackConfig) bool {
		network, _ := pgconn.NetworkAddress(way.Host, way.Port)
		verified := way.TLSConfig != nil && !way.TLSConfig.InsecureSkipVerify
		return network != "unix" && !onThisMachine(way.Host) && !verified
	})
}

// checkPostgres does not quote what it cannot read, because it holds a
// password.
func (c Config) checkPostgres(bad func(string, string, ...any)) {
	for key, u := range map[string]Secret{"postgres.url": c.Postgres.URL, "postgres.migrate_url": c.Postgres.MigrateURL} {
		if _, err := pgconn.ParseConfig(u.Reveal()); err != nil && !u.IsZero() {
			bad(key, "is not a URL of a database, or names a certificate that cannot be read")
		}
	}
}

// checkExposures refuses what nobody allowed by name.
func (c Config) checkExposures(bad func(string, string, ...any)) {
	for _, name := range c.Insecure {
		if !slices.Contains(insecurities, name) {
			bad("insecure", "%q is not one of %s", name, strings.Join(insecurities, ", "))
		}
	}
	for _, e := range c.exposures() {
		if !slices.Contains(c.Insecure, e.name) {
			bad(e.key, "%s; %s, or allow it by naming %s in the setting insecure", e.why, e.do, e.name)
		}
	}
}

// insecure names what is in use without TLS because somebody allowed it.
func (c Config) insecure() []string {
	var out []string
	for _, e := range c.exposures() {
		if slices.Contains(c.Insecure, e.name) && !slices.Contains(out, e.name) {
			out = append(out, e.name)
		}
	}
	return out
}

// Warnings lists what works but should not stay as it is.
func (c Config) Warnings() []string {
	var out []string
	for _, e := range c.exposures() {
		if slices.Contains(c.Insecure, e.name) {
			out = append(out, fmt.Sprintf("%s: allowed as insecure: %s; %s", e.key, e.why, e.do))
		}
	}
	return append(out, c.Secrets.warnings(c.identities())...)
}
