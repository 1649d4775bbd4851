# What role api of the control plane may do in the secrets engine. The
# embedded stack loads this very file; on your own OpenBao or Vault:
#
#   bao policy write gpuaas-api gpuaas-api-policy.hcl
#   bao write auth/approle/role/gpuaas-api token_policies=gpuaas-api \
#     token_no_default_policy=true token_ttl=1h token_max_ttl=24h
#
# It keeps the credentials that people give for sites and the secrets of webhooks, payment providers and sources of artifacts, makes keys when somebody
# rotates them, and signs packages of the agent. It cannot enrol nodes, play the
# listener for nodes, or sign certificates about the cleaning of nodes.

# Credentials of sites.
path "gpuaas-kv/data/maas-sites/*" {
  capabilities = ["create", "read", "update", "delete"]
}
path "gpuaas-kv/metadata/maas-sites/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}

# Secrets that sign what webhooks are told.
path "gpuaas-kv/data/webhooks/*" {
  capabilities = ["create", "read", "update", "delete"]
}
path "gpuaas-kv/metadata/webhooks/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}

# Logins that artifacts are read with.
path "gpuaas-kv/data/artifact-sources/*" {
  capabilities = ["create", "read", "update", "delete"]
}
path "gpuaas-kv/metadata/artifact-sources/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}

# Secrets that payment providers sign with.
path "gpuaas-kv/data/payments/*" {
  capabilities = ["create", "read", "update"]
}
path "gpuaas-kv/metadata/payments/*" {
  capabilities = ["create", "read", "update"]
}

# Keys that sign. They can be made and read (their public half); they cannot be
# exported, changed, rotated or deleted: "+" covers one path segment only, and
# nothing but the type may be said when one is made.
path "gpuaas-transit/keys/+" {
  capabilities       = ["create", "read", "update"]
  allowed_parameters = {
    "type" = ["ed25519"]
  }
}

path "gpuaas-transit/sign/task-signer-*" {
  capabilities = ["update"]
}

# Taking the identity of a node back.
path "gpuaas-pki/revoke" {
  capabilities = ["update"]
}
path "gpuaas-pki/cert/+" {
  capabilities = ["read"]
}

# The CAs, which are public.
path "gpuaas-pki/cert/ca_chain" {
  capabilities = ["read"]
}
path "gpuaas-server-pki/cert/ca_chain" {
  capabilities = ["read"]
}

# Its own token.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
