# What role nodes of the control plane may do in the secrets engine. The
# embedded stack loads this very file; on your own OpenBao or Vault:
#
#   bao policy write gpuaas-nodes gpuaas-nodes-policy.hcl
#   bao write auth/approle/role/gpuaas-nodes token_policies=gpuaas-nodes \
#     token_no_default_policy=true token_ttl=1h token_max_ttl=24h
#
# It is the listener for nodes: it enrols them, signs what they are told, gets its
# own certificate, asks MAAS for the token of a machine, and makes what a node reads
# an artifact with. It cannot change a secret, make a key, or read any other
# credential of a site.

# The token of a site's MAAS.
path "gpuaas-kv/data/maas-sites/+/api-token" {
  capabilities = ["read"]
}

# Logins that artifacts are read with: a node gets what reads one artifact, for a short time.
path "gpuaas-kv/data/artifact-sources/*" {
  capabilities = ["read"]
}

# Node certificates: sign requests made on the node. Keys are made on nodes, so
# there is no "issue" here.
path "gpuaas-pki/sign/node" {
  capabilities = ["update"]
}

# Its own certificate, from a trust root of its own.
path "gpuaas-server-pki/issue/control-plane" {
  capabilities = ["update"]
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
