# What the running control plane may do in the secrets engine: nothing beyond
# these paths. The embedded stack loads this very file; on your own OpenBao or
# Vault load it with
#
#   bao policy write gpuaas gpuaas-policy.hcl
#
# and bind it to the AppRole whose role_id and secret_id the control plane
# reads (token_policies=gpuaas, token_no_default_policy=true, token_ttl=1h,
# token_max_ttl=24h). Mounts, the node CA and its role are made by the operator:
# the control plane may use them and may not change them.

# Versioned secrets: site credentials, BMC overrides, first-boot payloads.
path "gpuaas-kv/data/*" {
  capabilities = ["create", "read", "update", "delete"]
}
path "gpuaas-kv/metadata/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}
path "gpuaas-kv/delete/*" {
  capabilities = ["update"]
}
path "gpuaas-kv/destroy/*" {
  capabilities = ["update"]
}

# Node certificates: sign requests made on the node, revoke, publish the chain.
path "gpuaas-pki/sign/*" {
  capabilities = ["update"]
}
path "gpuaas-pki/issue/*" {
  capabilities = ["update"]
}
path "gpuaas-pki/revoke" {
  capabilities = ["update"]
}
path "gpuaas-pki/roles/*" {
  capabilities = ["read"]
}
path "gpuaas-pki/cert/*" {
  capabilities = ["read"]
}
path "gpuaas-pki/crl" {
  capabilities = ["read"]
}
path "gpuaas-pki/ca" {
  capabilities = ["read"]
}
path "gpuaas-pki/ca_chain" {
  capabilities = ["read"]
}

# Task signing. Keys can be made and rotated, never exported, configured or
# deleted: "+" covers one path segment only.
path "gpuaas-transit/keys/+" {
  capabilities = ["create", "read", "update"]
}
path "gpuaas-transit/keys/+/rotate" {
  capabilities = ["update"]
}
path "gpuaas-transit/sign/*" {
  capabilities = ["update"]
}
path "gpuaas-transit/verify/*" {
  capabilities = ["update"]
}

# Its own token.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
