package controlplane

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/signer"
	"gpuaas/deploy/openbao"
)

// Somebody who took over a process has only the identities of its roles, even
// if the configuration names one that may do everything.
func TestAttackAProcessAsksAsARoleItDoesNotHave(t *testing.T) {
	for roles, may := range map[string]map[string]bool{
		"relay":  {},
		"worker": {"certificate": true, "first boot": true, "site": true, "make key": true, "revoke": true},
		"api":    {"task": true, "site": true, "write site": true, "make key": true, "revoke": true},
		"api with nodes": {
			"task": true, "site": true, "write site": true, "make key": true, "revoke": true, "node certificate": true,
			"listener": true,
		},
	} {
		cfg := Defaults()
		cfg.Secrets.Address, cfg.Secrets.RoleIDFile, cfg.Secrets.SecretIDFile = "http://127.0.0.1:1", "/dev/null", "/dev/null"
		if roles == "api with nodes" {
			roles, cfg.Nodes.Listen = "api", "127.0.0.1:8444"
		}
		cfg.Roles = []Role{Role(roles)}
		held, err := openIdentities(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		_, task := held.Sign(ctx, signer.KeyPrefix+"1", nil)
		_, cleaned := held.Sign(ctx, "gpuaas-certificates-1", nil)
		_, boot := held.Get(ctx, "first-boot/onboarding/j")
		_, site := held.Get(ctx, "maas-sites/s/api-token")
		_, key := held.CreateSigningKey(ctx, signer.KeyPrefix+"1")
		_, csr := held.SignNodeCSR(ctx, "", "", time.Hour)
		_, listener := held.IssueServerCertificate(ctx, nil, time.Hour)
		for what, err := range map[string]error{
			"task": task, "certificate": cleaned, "first boot": boot, "site": site, "make key": key, "node certificate": csr,
			"listener":   listener,
			"write site": held.Put(ctx, "maas-sites/s/api-token", nil), "revoke": held.RevokeCertificate(ctx, "00"),
		} {
			if refused := fault.CodeOf(err) == "secrets_identity_missing"; refused == may[what] {
				t.Errorf("%v (nodes on %q) asks for %s: %v", cfg.Roles, cfg.Nodes.Listen, what, err)
			}
		}
		if _, relay := held[openbao.RoleRelay]; relay || (roles == "relay" && len(held) > 0) {
			t.Errorf("%s holds %v", roles, held)
		}
	}
}
