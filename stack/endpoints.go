package stack

import (
	"fmt"
	"log/slog"
	"net/url"

	"gpuaas/deploy/openbao"
)

// Endpoints are what a client of the stack needs to know. The PostgreSQL URLs
// hold passwords: print Endpoints only through String or a logger, which hide
// them.
type Endpoints struct {
	PostgresURL         string `json:"postgres_url"`         // login of the running product; member of gpuaas_app
	PostgresMigrateURL  string `json:"postgres_migrate_url"` // login that owns the database and runs migrations
	TemporalAddress     string `json:"temporal_address"`
	TemporalNamespace   string `json:"temporal_namespace"`
	TemporalCAFile      string `json:"temporal_ca_file"`   // empty for a Temporal without TLS
	TemporalCertFile    string `json:"temporal_cert_file"` // client certificate
	TemporalKeyFile     string `json:"temporal_key_file"`
	NATSURL             string `json:"nats_url"`
	NATSTokenFile       string `json:"nats_token_file"`
	RegistryURL         string `json:"registry_url"`
	RegistryCAFile      string `json:"registry_ca_file"`
	RegistryCertFile    string `json:"registry_cert_file"` // client certificate
	RegistryKeyFile     string `json:"registry_key_file"`
	RegistryFolder      string `json:"registry_folder"` // where it keeps its blobs
	SecretsAddress      string `json:"secrets_address"`
	SecretsRoleIDFile   string `json:"secrets_role_id_file"` // one identity for all roles
	SecretsSecretIDFile string `json:"secrets_secret_id_file"`

	SecretsAPI    AppRole `json:"secrets_api"` // an identity for each role
	SecretsNodes  AppRole `json:"secrets_nodes"`
	SecretsWorker AppRole `json:"secrets_worker"`
	SecretsRelay  AppRole `json:"secrets_relay"`
}

// AppRole names the files with the credentials of one identity.
type AppRole struct {
	RoleIDFile   string `json:"role_id_file"`
	SecretIDFile string `json:"secret_id_file"`
}

// appRole returns where the identity of a role is stored.
func (p *Endpoints) appRole(r openbao.Role) *AppRole {
	return map[openbao.Role]*AppRole{
		openbao.RoleAPI: &p.SecretsAPI, openbao.RoleNodes: &p.SecretsNodes, openbao.RoleWorker: &p.SecretsWorker,
		openbao.RoleRelay: &p.SecretsRelay,
	}[r]
}

// Has says whether the endpoints of an engine are known.
func (p Endpoints) Has(e Engine) bool {
	switch e {
	case Postgres:
		return p.PostgresURL != ""
	case Temporal:
		return p.TemporalAddress != ""
	case OpenBao:
		return p.SecretsAddress != ""
	case NATS:
		return p.NATSURL != ""
	case Registry:
		return p.RegistryURL != ""
	}
	return false
}

// Endpoints returns those of everything that runs: the operator's if named, the
// stack's own otherwise. They are empty for engines that were not asked for.
func (s *Stack) Endpoints() Endpoints {
	p := s.options.External
	for _, e := range stopOrder {
		if sup := s.supervisor(e); sup != nil && !s.options.External.Has(e) {
			sup.engine.describe(&p)
		}
	}
	return p
}

// SuperuserURL opens the private PostgreSQL with every right. It is for test
// code that makes and drops databases; the product never gets it.
func (s *Stack) SuperuserURL() string {
	if p := s.postgres(); p != nil {
		return p.url(superuser, p.passwords[superuser], superuserDatabase)
	}
	return ""
}

// String shows the endpoints without passwords.
func (p Endpoints) String() string {
	return fmt.Sprintf("postgres %s, migrations %s, temporal %s/%s, nats %s, secrets %s, registry %s",
		redacted(p.PostgresURL), redacted(p.PostgresMigrateURL), p.TemporalAddress, p.TemporalNamespace,
		redacted(p.NATSURL), p.SecretsAddress, redacted(p.RegistryURL))
}

// GoString keeps %#v from printing what String hides.
func (p Endpoints) GoString() string { return p.String() }

// LogValue keeps passwords out of structured logs.
func (p Endpoints) LogValue() slog.Value { return slog.StringValue(p.String()) }

func redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return u.Redacted()
}
