// Package openbao is the one home of how the product uses a secrets engine:
// the names of its mounts and roles and the policy of its token. The embedded
// stack applies it; operators of their own OpenBao or Vault do the same by hand.
package openbao

import "embed"

// Names that the product expects in the secrets engine.
const (
	KVMount        = "gpuaas-kv"         // kv, version 2
	PKIMount       = "gpuaas-pki"        // pki: the CA of node certificates, an intermediate
	ServerPKIMount = "gpuaas-server-pki" // pki: the trust root of the control plane's own listeners
	TransitMount   = "gpuaas-transit"    // transit: task signing keys
	// at auth/approle: the one of all roles, for an installation that has only one identity
	AppRole    = "gpuaas"
	NodeRole   = "node"          // role of PKIMount that node certificates are signed with
	ServerRole = "control-plane" // role of ServerPKIMount that server certificates are issued with
)

// Role is a part of the control plane with an identity of its own.
type Role string

// The roles. A process with role api that also serves the listener for nodes
// has the first two.
const (
	RoleAPI    Role = "api"
	RoleNodes  Role = "nodes"
	RoleWorker Role = "worker"
	RoleRelay  Role = "relay"
)

// Roles lists them.
func Roles() []Role { return []Role{RoleAPI, RoleNodes, RoleWorker, RoleRelay} }

// AppRole is the name of the role's AppRole, and of its policy.
func (r Role) AppRole() string { return AppRole + "-" + string(r) }

//go:embed *.hcl
var policies embed.FS

// Policy is the least that an AppRole of this name needs.
func Policy(appRole string) (string, error) {
	b, err := policies.ReadFile(appRole + "-policy.hcl")
	return string(b), err
}

// AppRoleParameters are the fields of auth/approle/role/NAME.
func AppRoleParameters(appRole string) map[string]any {
	return map[string]any{
		"token_policies":          []string{appRole},
		"token_no_default_policy": true,
		"token_ttl":               "1h",
		"token_max_ttl":           "24h",
	}
}

// NodeRoleParameters are the fields of gpuaas-pki/roles/node: client
// certificates for 24 hours whose only identity is the URI that the control
// plane asks for; what the request of the node says about names is ignored.
func NodeRoleParameters() map[string]any {
	return map[string]any{
		"allow_any_name":      false,
		"allow_localhost":     false,
		"allow_ip_sans":       false,
		"allowed_uri_sans":    []string{"spiffe://*/node/*"},
		"require_cn":          false,
		"use_csr_common_name": false,
		"use_csr_sans":        false,
		"server_flag":         false,
		"client_flag":         true,
		"key_type":            "any",
		"key_usage":           []string{"DigitalSignature"},
		"ttl":                 "24h",
		"max_ttl":             "24h",
	}
}

// ServerRoleParameters are the fields of gpuaas-server-pki/roles/control-plane:
// server certificates for the names that nodes reach the control plane by.
// Operators who know those names list them in allowed_domains instead of
// allow_any_name.
func ServerRoleParameters() map[string]any {
	return map[string]any{
		"allow_any_name":    true,
		"allow_ip_sans":     true,
		"enforce_hostnames": true,
		"require_cn":        false,
		"server_flag":       true,
		"client_flag":       false,
		"key_type":          "ec",
		"key_bits":          256,
		"key_usage":         []string{"DigitalSignature"},
		"ttl":               "720h",
		"max_ttl":           "2160h",
		"no_store":          true,
	}
}

// TidyParameters are the fields of gpuaas-pki/config/auto-tidy: without it
// every certificate of every day would be kept for ever.
func TidyParameters() map[string]any {
	return map[string]any{
		"enabled":            true,
		"interval_duration":  "6h",
		"tidy_cert_store":    true,
		"tidy_revoked_certs": true,
		"safety_buffer":      "24h",
	}
}
