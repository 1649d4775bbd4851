package cli

import (
	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationKeysCommand() *cobra.Command {
	return a.verb(verb{
		use: "keys ALLOCATION", short: "Show or change which SSH keys open an allocation", args: frame.Exactly("ALLOCATION"),
		operations: []string{
			"get-allocation-flat", "list-allocations", "change-allocation-keys", "list-my-ssh-keys", "list-project-ssh-keys",
		},
		long: "Without flags it shows the allocation with its keys. --ssh-key adds a key of yours or of the project,\n" +
			"--remove takes one away that it has. The node is told at once, or as soon as it answers. Connections\n" +
			"that are open stay. Keys that were removed (gpuaas key remove), and those of people who may not use the\n" +
			"project any more, are taken away by themselves.",
		example: "  gpuaas allocation keys training --project acme/training --ssh-key laptop --remove old-laptop",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			add := cmd.Flags().StringSlice("ssh-key", nil, "add this key, by name, fingerprint or id; may be repeated")
			remove := cmd.Flags().StringSlice("remove", nil, "remove this key; may be repeated")
			return func(s *session, args []string) error { return a.allocationKeys(s, *c, args[0], *add, *remove) }
		},
	})
}

func (a *app) allocationKeys(s *session, c scope, name string, add, remove []string) error {
	o, err := s.allocation(c, name)
	if err != nil {
		return err
	}
	if len(add)+len(remove) == 0 {
		return frame.PrintOne(s.App, a.allocationColumns(), o.Raw)
	}
	var more, less []types.UUID
	for _, key := range add {
		id, err := s.keyOfEither(scope{project: o.Value.ProjectId.String()}, key)
		if err != nil {
			return err
		}
		more = append(more, id)
	}
	for _, key := range remove {
		id, err := keyOn(o.Value, key)
		if err != nil {
			return err
		}
		less = append(less, id)
	}
	body := apiclient.AllocationKeysBody{}
	if more != nil {
		body.Add = &more
	}
	if less != nil {
		body.Remove = &less
	}
	return frame.Show(s.Session, a.allocationColumns())(s.API.ChangeAllocationKeysWithResponse(s.Ctx, o.Value.ProjectId,
		o.Value.AllocationId, &apiclient.ChangeAllocationKeysParams{}, body))
}

// keyOn finds a key of an allocation, which may be gone from its owner's list.
func keyOn(v apiclient.AllocationView, name string) (types.UUID, error) {
	for _, k := range v.SshKeys {
		if k.Name == name || k.Fingerprint == name || k.SshKeyId.String() == name {
			return k.SshKeyId, nil
		}
	}
	return types.UUID{}, failure.Missing("see its keys: gpuaas allocation keys "+v.AllocationId.String(),
		"the allocation has no key %q", name)
}
