package stack

import (
	"context"
	"fmt"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/deploy/openbao"
)

// ensureContents does with the root token what operators do on their own
// OpenBao: mounts, CAs, policy, AppRole. It makes each part that is missing and
// updates the others.
func (b *bao) ensureContents(ctx context.Context, c *api.Client, say func(string)) error {
	fresh, err := ensureMounts(ctx, c)
	if err != nil {
		return err
	}
	if fresh {
		say("making mounts, CAs and the AppRole")
	}
	if err := ensureNodeCA(ctx, c); err != nil {
		return err
	}
	if err := ensureServerCA(ctx, c); err != nil {
		return err
	}
	if err := ensureAppRoleLogin(ctx, c); err != nil {
		return err
	}
	for _, as := range identities() {
		if err := b.ensureAppRole(ctx, c, as); err != nil {
			return err
		}
	}
	return nil
}

// identity is an AppRole, and the files that hold its credentials.
type identity struct{ appRole, roleIDFile, secretIDFile string }

// identities returns one for each role, and the one for all roles together,
// which older launchers handed out.
func identities() []identity {
	out := []identity{{openbao.AppRole, baoRoleIDFile, baoSecretIDFile}}
	for _, r := range openbao.Roles() {
		out = append(out, identityOf(r))
	}
	return out
}

func identityOf(r openbao.Role) identity {
	return identity{r.AppRole(), "bao-" + string(r) + "-role-id", "bao-" + string(r) + "-secret-id"}
}

func ensureMounts(ctx context.Context, c *api.Client) (fresh bool, err error) {
	present, err := c.Sys().ListMountsWithContext(ctx)
	if err != nil {
		return false, fmt.Errorf("list mounts: %w", err)
	}
	authority := &api.MountInput{Type: "pki", Config: api.MountConfigInput{MaxLeaseTTL: caLifetime}}
	for path, input := range map[string]*api.MountInput{
		openbao.KVMount:        {Type: "kv", Options: map[string]string{"version": "2"}},
		openbao.PKIMount:       authority,
		rootPKIMount:           authority,
		openbao.ServerPKIMount: authority,
		openbao.TransitMount:   {Type: "transit"},
	} {
		if present[path+"/"] != nil {
			continue
		}
		fresh = true
		if err := c.Sys().MountWithContext(ctx, path, input); err != nil {
			return fresh, fmt.Errorf("mount %s: %w", path, err)
		}
	}
	return fresh, nil
}

func ensureAppRoleLogin(ctx context.Context, c *api.Client) error {
	present, err := c.Sys().ListAuthWithContext(ctx)
	if err != nil {
		return fmt.Errorf("list logins: %w", err)
	}
	if present["approle/"] == nil {
		err := c.Sys().EnableAuthWithOptionsWithContext(ctx, "approle", &api.EnableAuthOptions{Type: "approle"})
		if err != nil {
			return fmt.Errorf("enable AppRole login: %w", err)
		}
	}
	return nil
}

// ensureAppRole registers the secret id that the state folder holds. The file
// is written first, so a launcher that is killed in between registers the same
// one the next time.
func (b *bao) ensureAppRole(ctx context.Context, c *api.Client, as identity) error {
	policy, err := openbao.Policy(as.appRole)
	if err != nil {
		return fmt.Errorf("read policy of %s: %w", as.appRole, err)
	}
	if err := c.Sys().PutPolicyWithContext(ctx, as.appRole, policy); err != nil {
		return fmt.Errorf("load policy %s: %w", as.appRole, err)
	}
	role := "auth/approle/role/" + as.appRole
	if _, err := c.Logical().WriteWithContext(ctx, role, openbao.AppRoleParameters(as.appRole)); err != nil {
		return fmt.Errorf("set up %s: %w", role, err)
	}
	id, err := c.Logical().ReadWithContext(ctx, role+"/role-id")
	if err != nil {
		return fmt.Errorf("read id of %s: %w", role, err)
	}
	roleID, ok := id.Data["role_id"].(string)
	if !ok {
		return fmt.Errorf("read id of %s: the answer holds none", role)
	}
	if err := b.nursery.folder.saveSecret(as.roleIDFile, roleID); err != nil {
		return err
	}
	return b.ensureSecretID(ctx, c, role, as.secretIDFile)
}

func (b *bao) ensureSecretID(ctx context.Context, c *api.Client, role, file string) error {
	secret, err := b.nursery.folder.secret(file)
	if err != nil {
		return err
	}
	given := map[string]any{"secret_id": secret}
	known, err := c.Logical().WriteWithContext(ctx, role+"/secret-id/lookup", given)
	if err != nil {
		return fmt.Errorf("look up secret id of %s: %w", role, err)
	}
	if known != nil {
		return nil
	}
	if _, err := c.Logical().WriteWithContext(ctx, role+"/custom-secret-id", given); err != nil {
		return fmt.Errorf("register secret id of %s: %w", role, err)
	}
	return nil
}
