# What role worker of the control plane may do in the secrets engine. The
# embedded stack loads this very file; on your own OpenBao or Vault:
#
#   bao policy write gpuaas-worker gpuaas-worker-policy.hcl
#   bao write auth/approle/role/gpuaas-worker token_policies=gpuaas-worker \
#     token_no_default_policy=true token_ttl=1h token_max_ttl=24h
#
# It works on machines: it reads the credentials of sites, keeps what machines
# boot with, makes the keys that sign tasks, and signs certificates about the
# cleaning of nodes. It cannot sign tasks, enrol nodes, play the listener for
# nodes, or change the credentials of a site.

# First boots and whatever else belongs to a job.
path "gpuaas-kv/data/*" {
  capabilities = ["create", "read", "update", "delete"]
}
path "gpuaas-kv/metadata/*" {
  capabilities = ["create", "read", "update", "delete", "list"]
}

# Credentials of sites; the longer path counts.
path "gpuaas-kv/data/maas-sites/*" {
  capabilities = ["read"]
}
path "gpuaas-kv/metadata/maas-sites/*" {
  capabilities = ["read"]
}

# Secrets that sign what webhooks are told.
path "gpuaas-kv/data/webhooks/*" {
  capabilities = ["read"]
}
path "gpuaas-kv/metadata/webhooks/*" {
  capabilities = ["read"]
}

# What artifacts are read with, and what payment providers sign with, is nothing of its.
path "gpuaas-kv/data/artifact-sources/*" {
  capabilities = ["deny"]
}
path "gpuaas-kv/metadata/artifact-sources/*" {
  capabilities = ["deny"]
}
path "gpuaas-kv/data/payments/*" {
  capabilities = ["deny"]
}
path "gpuaas-kv/metadata/payments/*" {
  capabilities = ["deny"]
}

# The BMC credentials of one machine leave with the machine.
path "gpuaas-kv/metadata/maas-sites/+/power/overrides/*" {
  capabilities = ["read", "delete"]
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

path "gpuaas-transit/sign/gpuaas-certificates-*" {
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
