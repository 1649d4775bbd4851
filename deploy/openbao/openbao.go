// Package openbao is the one home of how the product uses a secrets engine:
// the names of its mounts and roles and the policy of its token. The embedded
// stack applies it; operators of their own OpenBao or Vault do the same by hand.
package openbao

import _ "embed"

// Names that the product expects in the secrets engine.
const (
	KVMount      = "gpuaas-kv"      // kv, version 2
	PKIMount     = "gpuaas-pki"     // pki: the node-certificate CA
	TransitMount = "gpuaas-transit" // transit: task signing keys
	PolicyName   = "gpuaas"
	AppRole      = "gpuaas" // at auth/approle
	NodeRole     = "node"   // role of PKIMount that node certificates are signed with
)

// Policy is the least that the running control plane needs.
//
//go:embed gpuaas-policy.hcl
var Policy string

// AppRoleParameters are the fields of auth/approle/role/gpuaas.
func AppRoleParameters() map[string]any {
	return map[string]any{
		"token_policies":          []string{PolicyName},
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
