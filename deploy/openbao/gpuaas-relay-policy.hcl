# What role relay of the control plane may do in the secrets engine. The
# embedded stack loads this very file; on your own OpenBao or Vault:
#
#   bao policy write gpuaas-relay gpuaas-relay-policy.hcl
#   bao write auth/approle/role/gpuaas-relay token_policies=gpuaas-relay \
#     token_no_default_policy=true token_ttl=1h token_max_ttl=24h
#
# It passes on what the database holds and has no business here: a relay that was
# taken over can ask who it is, and nothing else.

# Its own token.
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
