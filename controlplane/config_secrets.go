package controlplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gpuaas/deploy/openbao"
)

// SecretsConfig is how to reach the secrets engine, and as whom.
type SecretsConfig struct {
	Address      string        `koanf:"address" doc:"URL of OpenBao or Vault"`
	CAFile       string        `koanf:"ca_file" doc:"CA of the engine; empty: the system's"`
	RoleIDFile   string        `koanf:"role_id_file" doc:"file that holds the role id of one AppRole for all roles; better name one per role below"`
	SecretIDFile string        `koanf:"secret_id_file" doc:"file that holds its secret id"`
	KVMount      string        `koanf:"kv_mount" doc:"mount of the KV v2 engine"`
	API          AppRoleConfig `koanf:"api"`
	Nodes        AppRoleConfig `koanf:"nodes"`
	Worker       AppRoleConfig `koanf:"worker"`
	Relay        AppRoleConfig `koanf:"relay"`
}

// AppRoleConfig is the identity of one role in the secrets engine.
type AppRoleConfig struct {
	RoleIDFile   string `koanf:"role_id_file" doc:"file that holds the role id of this role's own AppRole"`
	SecretIDFile string `koanf:"secret_id_file" doc:"file that holds its secret id"`
}

func (a AppRoleConfig) given() bool { return a.RoleIDFile != "" && a.SecretIDFile != "" }

// own returns the identity that a role was given for itself.
func (c SecretsConfig) own(r openbao.Role) AppRoleConfig {
	return map[openbao.Role]AppRoleConfig{
		openbao.RoleAPI: c.API, openbao.RoleNodes: c.Nodes, openbao.RoleWorker: c.Worker, openbao.RoleRelay: c.Relay,
	}[r]
}

// of returns the identity that a role uses.
func (c SecretsConfig) of(r openbao.Role) AppRoleConfig {
	if own := c.own(r); own.given() {
		return own
	}
	return AppRoleConfig{c.RoleIDFile, c.SecretIDFile}
}

// identities returns those that the roles of this process need. The relay does
// not use the secrets engine.
func (c Config) identities() []openbao.Role {
	var out []openbao.Role
	for _, r := range c.Roles {
		switch r {
		case RoleAPI:
			out = append(out, openbao.RoleAPI)
			if c.Nodes.Listen != "" {
				out = append(out, openbao.RoleNodes)
			}
		case RoleWorker:
			out = append(out, openbao.RoleWorker)
		case RoleRelay:
		}
	}
	return out
}

func (c SecretsConfig) check(needed []openbao.Role, bad func(string, string, ...any)) {
	for _, r := range openbao.Roles() {
		if own := c.own(r); (own.RoleIDFile == "") != (own.SecretIDFile == "") {
			bad("secrets."+string(r), "role_id_file and secret_id_file go together")
		}
	}
	for _, r := range needed {
		if !c.of(r).given() {
			bad("secrets."+string(r),
				"role_id_file and secret_id_file are missing: they hold the AppRole that this role signs in with")
		}
	}
}

func (c SecretsConfig) files() map[string]string {
	out := map[string]string{
		"secrets.ca_file": c.CAFile, "secrets.role_id_file": c.RoleIDFile,
		"secrets.secret_id_file": c.SecretIDFile,
	}
	for _, r := range openbao.Roles() {
		out["secrets."+string(r)+".role_id_file"], out["secrets."+string(r)+".secret_id_file"] = c.own(r).RoleIDFile,
			c.own(r).SecretIDFile
	}
	return out
}

func (c SecretsConfig) warnings(needed []openbao.Role) []string {
	var shared []string
	for _, r := range needed {
		if !c.own(r).given() {
			shared = append(shared, string(r))
		}
	}
	if len(shared) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("secrets: %s signs in with the one identity of all roles, which may do everything; give "+
		"each role its own (secrets.%s.role_id_file, …) and policy from deploy/openbao",
		strings.Join(shared, ", "), shared[0])}
}

// SitesConfig limits what sites may be.
type SitesConfig struct {
	Loopback []string `koanf:"loopback" doc:"address:port of MAAS regions on this very machine, such as 127.0.0.1:5240; no site may lead to any other port of loopback, where engines listen"`
}

func (c SitesConfig) check(bad func(string, string, ...any)) {
	for _, text := range c.Loopback {
		if to, err := netip.ParseAddrPort(text); err != nil || !to.Addr().IsLoopback() || to.Port() == 0 {
			bad("sites.loopback", "%q is not a loopback address with a port, such as 127.0.0.1:5240", text)
		}
	}
}

// onLoopback says whether a region was named.
func (c SitesConfig) onLoopback(to netip.AddrPort) bool {
	return slices.ContainsFunc(c.Loopback, func(text string) bool {
		named, err := netip.ParseAddrPort(text)
		return err == nil && netip.AddrPortFrom(named.Addr().Unmap(), named.Port()) == to
	})
}
