# What all roles of the control plane together may do in the secrets engine, for
# an installation that still has one identity for all of them. Better give each
# role its own: gpuaas-api, -nodes, -worker and -relay-policy.hcl beside this file.
# On your own OpenBao or Vault load it with
#
#   bao policy write gpuaas gpuaas-policy.hcl
#
# and bind it to the AppRole whose role_id and secret_id the control plane
# reads (token_policies=gpuaas, token_no_default_policy=true, token_ttl=1h,
# token_max_ttl=24h). Mounts, CAs and their roles are made by the operator: the
# control plane may use them and may not change them. Keep the root above the
# node CA (gpuaas-pki) offline; only the intermediate belongs here.

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
# Keys are made on nodes, so there is no "issue" here.
path "gpuaas-pki/sign/node" {
  capabilities = ["update"]
}
path "gpuaas-pki/revoke" {
  capabilities = ["update"]
}
path "gpuaas-pki/cert/+" {
  capabilities = ["read"]
}

# Certificates of the control plane's own listeners, from a trust root of
# their own.
path "gpuaas-server-pki/issue/control-plane" {
  capabilities = ["update"]
}
path "gpuaas-server-pki/cert/ca_chain" {
  capabilities = ["read"]
}

# Signing of tasks and of certificates. Ed25519 keys can be made, read (their public half) and used;
# they cannot be exported, changed, rotated or deleted: "+" covers one path
# segment only, and nothing but the type may be said when one is made.
path "gpuaas-transit/keys/+" {
  capabilities       = ["create", "read", "update"]
  allowed_parameters = {
    "type" = ["ed25519"]
  }
}
path "gpuaas-transit/sign/+" {
  capabilities = ["update"]
}

# Its own token.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
