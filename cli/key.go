package cli

import (
	"bytes"
	"io"
	"os"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) keyColumns() []table.Column[apiclient.SshkeyView] {
	type key = apiclient.SshkeyView
	return []table.Column[key]{
		{Title: "NAME", Text: func(k key) string { return k.Name }},
		{Title: "KIND", Text: func(k key) string { return k.Algorithm }},
		{Title: "FINGERPRINT", Text: func(k key) string { return k.Fingerprint }},
		ago(a, "ADDED", func(k key) time.Time { return k.CreatedAt }),
		{Title: "ID", Wide: true, Text: func(k key) string { return k.SshKeyId.String() }},
		{Title: "KEY", Text: func(k key) string { return k.PublicKey }, Detail: true},
	}
}

func (a *app) keyCommand() *cobra.Command {
	return a.noun(noun{
		use: "key", short: "SSH keys that people log in with to what they rent", group: groupIdentity,
		long: "Without --project a command is about your own keys. Only public keys are sent.",
	}, a.keyAddCommand(), a.keyListCommand(), a.keyRemoveCommand())
}

// sshKeys are the SSH keys of one owner.
type sshKeys struct {
	list   func(listing.Page) (apiclient.Answer, error)
	add    func(apiclient.SshkeyNewBody) (apiclient.Answer, error)
	remove func(types.UUID) (apiclient.Answer, error)
}

func (s *session) sshKeys(of scope) (sshKeys, error) {
	if of.project == "" {
		if of.tenant != "" {
			return sshKeys{}, failure.Misuse(s.Cmd, "--tenant goes with --project")
		}
		return sshKeys{
			list: func(p listing.Page) (apiclient.Answer, error) {
				return s.API.ListMySshKeysWithResponse(s.Ctx,
					&apiclient.ListMySshKeysParams{Cursor: p.Cursor, PageSize: p.Size})
			},
			add: func(b apiclient.SshkeyNewBody) (apiclient.Answer, error) {
				return s.API.AddMySshKeyWithResponse(s.Ctx, &apiclient.AddMySshKeyParams{}, b)
			},
			remove: func(id types.UUID) (apiclient.Answer, error) {
				return s.API.RemoveMySshKeyWithResponse(s.Ctx, id, &apiclient.RemoveMySshKeyParams{})
			},
		}, nil
	}
	project, err := s.projectID(of)
	return sshKeys{
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListProjectSshKeysWithResponse(s.Ctx, project,
				&apiclient.ListProjectSshKeysParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		add: func(b apiclient.SshkeyNewBody) (apiclient.Answer, error) {
			return s.API.AddProjectSshKeyWithResponse(s.Ctx, project, &apiclient.AddProjectSshKeyParams{}, b)
		},
		remove: func(id types.UUID) (apiclient.Answer, error) {
			return s.API.RemoveProjectSshKeyWithResponse(s.Ctx, project, id, &apiclient.RemoveProjectSshKeyParams{})
		},
	}, err
}

func (a *app) keyAddCommand() *cobra.Command {
	return a.verb(verb{
		use: "add FILE", short: "Add an SSH key", args: frame.Exactly("FILE"),
		operations: []string{"add-my-ssh-key", "add-project-ssh-key"},
		long:       "FILE is the public half, which ends with .pub; - is standard input.",
		example: "  gpuaas key add ~/.ssh/id_ed25519.pub\n" +
			"  gpuaas key add deploy.pub --name deploy --project acme/training",
		flags: func(cmd *cobra.Command) action {
			of := &scope{}
			of.addProject(cmd)
			name := cmd.Flags().String("name", "", "what people call it (default the comment of the key)")
			return func(s *session, args []string) error {
				keys, err := s.sshKeys(*of)
				if err != nil {
					return err
				}
				text, err := s.publicKey(args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.keyColumns())(
					keys.add(apiclient.SshkeyNewBody{Name: frame.Given(s.Session, "name", name), PublicKey: text}))
			}
		},
	})
}

// publicKey reads a file with a public key. A private key stays on the machine.
func (s *session) publicKey(file string) (string, error) {
	in := s.Program.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", failure.New(failure.Usage, "key_unreadable", "name a file that you can read, or - for standard input",
				"read the key: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	const most = 16 << 10
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return "", failure.New(failure.Usage, "key_unreadable", "name a file that you can read", "read the key: %v", err)
	}
	if len(text) > most {
		return "", failure.New(failure.Usage, "key_invalid", "name the file that ends with .pub",
			"%s is too long for a public key", file)
	}
	if bytes.Contains(text, []byte("PRIVATE KEY")) {
		return "", failure.New(failure.Usage, "key_private", "name the file that ends with .pub; nothing was sent",
			"%s holds a private key", file)
	}
	return string(text), nil
}

func (a *app) keyListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List SSH keys", aliases: []string{"ls"},
		operations: []string{"list-my-ssh-keys", "list-project-ssh-keys"},
		flags: func(cmd *cobra.Command) action {
			of := &scope{}
			of.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				keys, err := s.sshKeys(*of)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.SshkeyView]{
					Columns: a.keyColumns(), Fetch: keys.list,
				})
			}
		},
	})
}

func (a *app) keyRemoveCommand() *cobra.Command {
	return a.verb(verb{
		use: "remove KEY", short: "Remove an SSH key", aliases: []string{"rm"}, args: frame.Exactly("KEY"),
		operations: []string{"list-my-ssh-keys", "list-project-ssh-keys", "remove-my-ssh-key", "remove-project-ssh-key"},
		long:       "KEY is its name, its fingerprint or its id.",
		flags: func(cmd *cobra.Command) action {
			of := &scope{}
			of.addProject(cmd)
			return func(s *session, args []string) error {
				keys, err := s.sshKeys(*of)
				if err != nil {
					return err
				}
				id, err := s.keyID(keys, args[0])
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the SSH key %s is removed", args[0])(keys.remove(id))
			}
		},
	})
}

// keyID resolves a key named by id, fingerprint or name.
func (s *session) keyID(keys sshKeys, name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	raws, _, err := listing.Collect(keys.list, 0)
	if err != nil {
		return types.UUID{}, err
	}
	all, err := output.DecodeAll[apiclient.SshkeyView](raws)
	if err != nil {
		return types.UUID{}, err
	}
	var found []types.UUID
	for _, k := range all {
		if k.Value.Name == name || k.Value.Fingerprint == name {
			found = append(found, k.Value.SshKeyId)
		}
	}
	switch len(found) {
	case 0:
		return types.UUID{}, failure.Missing("list them: gpuaas key list", "there is no SSH key %q", name)
	case 1:
		return found[0], nil
	}
	return types.UUID{}, failure.Misuse(s.Cmd, "%d SSH keys are called %q: name the one by its fingerprint", len(found), name)
}
