package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/deploy/openbao"
)

const (
	caLifetime = "87600h"
	// nodeCALifetime is the life of the intermediate; its root lives longer.
	nodeCALifetime = "43800h"
	// rootPKIMount holds the root above the node CA. Operators keep theirs
	// offline; the policy of the control plane reaches neither.
	rootPKIMount = "gpuaas-pki-root"
)

// ensureNodeCA makes the CA of node certificates as an intermediate under its
// own root, unless there is one already. A start that was cut short leaves a
// key without a certificate, which is never used.
func ensureNodeCA(ctx context.Context, c *api.Client) error {
	present, err := hasIssuer(ctx, c, openbao.PKIMount)
	if err != nil {
		return err
	}
	if !present {
		if err := ensureRoot(ctx, c, rootPKIMount, "gpuaas node root CA"); err != nil {
			return err
		}
		if err := makeIntermediate(ctx, c); err != nil {
			return fmt.Errorf("make node CA: %w", err)
		}
	}
	return writeAll(ctx, c, map[string]map[string]any{
		openbao.PKIMount + "/roles/" + openbao.NodeRole: openbao.NodeRoleParameters(),
		openbao.PKIMount + "/config/auto-tidy":          openbao.TidyParameters(),
	})
}

// ensureServerCA makes the trust root of the control plane's own listeners.
func ensureServerCA(ctx context.Context, c *api.Client) error {
	if err := ensureRoot(ctx, c, openbao.ServerPKIMount, "gpuaas control plane CA"); err != nil {
		return err
	}
	return writeAll(ctx, c, map[string]map[string]any{
		openbao.ServerPKIMount + "/roles/" + openbao.ServerRole: openbao.ServerRoleParameters(),
	})
}

func ensureRoot(ctx context.Context, c *api.Client, mount, name string) error {
	present, err := hasIssuer(ctx, c, mount)
	if err != nil || present {
		return err
	}
	_, err = c.Logical().WriteWithContext(ctx, mount+"/root/generate/internal", map[string]any{
		"common_name": name, "key_type": "ec", "key_bits": 256, "ttl": caLifetime,
	})
	if err != nil {
		return fmt.Errorf("make CA in %s: %w", mount, err)
	}
	return nil
}

func makeIntermediate(ctx context.Context, c *api.Client) error {
	request, err := c.Logical().WriteWithContext(ctx, openbao.PKIMount+"/intermediate/generate/internal", map[string]any{
		"common_name": "gpuaas node CA", "key_type": "ec", "key_bits": 256,
	})
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	signed, err := c.Logical().WriteWithContext(ctx, rootPKIMount+"/root/sign-intermediate", map[string]any{
		"csr": request.Data["csr"], "common_name": "gpuaas node CA", "ttl": nodeCALifetime, "max_path_length": 0,
	})
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	own, ok := signed.Data["certificate"].(string)
	root, okRoot := signed.Data["issuing_ca"].(string)
	if !ok || !okRoot {
		return errors.New("sign: the answer holds no certificate")
	}
	// The root goes in too, so that the chain that nodes get ends there.
	stored, err := c.Logical().WriteWithContext(ctx, openbao.PKIMount+"/intermediate/set-signed",
		map[string]any{"certificate": own + "\n" + root})
	if err != nil {
		return fmt.Errorf("store certificate: %w", err)
	}
	return defaultToOwnKey(ctx, c, stored)
}

// defaultToOwnKey makes the issuer that has a key the one that signs.
func defaultToOwnKey(ctx context.Context, c *api.Client, stored *api.Secret) error {
	keys, _ := stored.Data["mapping"].(map[string]any)
	for issuer, key := range keys {
		if key == "" {
			continue
		}
		return writeAll(ctx, c, map[string]map[string]any{openbao.PKIMount + "/config/issuers": {"default": issuer}})
	}
	return errors.New("store certificate: it does not belong to the key")
}

func hasIssuer(ctx context.Context, c *api.Client, mount string) (bool, error) {
	issuers, err := c.Logical().ListWithContext(ctx, mount+"/issuers")
	if err != nil {
		return false, fmt.Errorf("look for CA in %s: %w", mount, err)
	}
	return issuers != nil, nil
}

func writeAll(ctx context.Context, c *api.Client, what map[string]map[string]any) error {
	for path, fields := range what {
		if _, err := c.Logical().WriteWithContext(ctx, path, fields); err != nil {
			return fmt.Errorf("set up %s: %w", path, err)
		}
	}
	return nil
}
