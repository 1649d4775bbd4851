package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/contexts"
	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/apiclient"
)

func (a *app) sshCommand() *cobra.Command {
	return a.verb(verb{
		use: "ssh ALLOCATION", short: "Open a terminal on what you rent", group: groupRent, args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "list-allocations", "create-allocation-terminal-token"},
		long: "The terminal goes through the control plane, which knows the node: your machine needs no way to it.\n" +
			"To leave one that does not answer, type Enter ~ .\n\n" +
			"--config prints lines for your ssh_config instead, for plain ssh, scp and editors. Both write the host\n" +
			"keys of the node into a known_hosts of their own, below the folder of your contexts: ssh then takes no\n" +
			"other machine for the node. Where nobody knows these keys, the command says so, and ssh asks you.",
		example: "  gpuaas ssh training --project acme/training\n" +
			"  gpuaas ssh training --project acme/training --config >> ~/.ssh/config && ssh gpuaas-training",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			config := cmd.Flags().Bool("config", false, "print lines for ssh_config")
			return func(s *session, args []string) error {
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				if *config {
					return s.sshConfig(o.Value)
				}
				if _, err := s.knownHosts(o.Value); err != nil { // the terminal does not need it
					s.Note("the known_hosts for plain ssh was not written: %v", err)
				}
				return s.openTerminal(func(columns, rows *int64) (apiclient.Answer, error) {
					return s.API.CreateAllocationTerminalTokenWithResponse(s.Ctx, o.Value.ProjectId, o.Value.AllocationId,
						&apiclient.CreateAllocationTerminalTokenParams{},
						apiclient.AllocationWindowBody{Columns: columns, Rows: rows})
				})
			}
		},
	})
}

// sshConfig prints a host of ssh_config. What comes from the API is refused where
// it could begin another line or option.
func (s *session) sshConfig(v apiclient.AllocationView) error {
	if v.Host == nil {
		return failure.New(failure.Unsuccessful, "allocation_not_active", "see what it waits for: gpuaas allocation show "+
			v.AllocationId.String(), "the allocation is %s: only one that is active can be reached", v.Status)
	}
	alias := "gpuaas-" + v.AllocationId.String()
	if v.Name != nil && plainWord(*v.Name) {
		alias = "gpuaas-" + *v.Name + " " + alias // names may repeat, and ssh takes the first
	}
	if !plainWord(*v.Host) || !plainWord(v.Username) {
		return failure.New(failure.Unexpected, "address_unusable", "use gpuaas ssh without --config",
			"the address of the node is none that ssh_config can hold")
	}
	lines := fmt.Sprintf("Host %s\n  HostName %s\n  User %s\n", alias, *v.Host, v.Username)
	if v.Port != nil {
		lines += fmt.Sprintf("  Port %d\n", *v.Port)
	}
	file, err := s.knownHosts(v)
	if err != nil {
		return err
	}
	if file == "" {
		s.Note("No host key of the node is known: ssh cannot tell it from another machine, and asks you.")
		return output.Write(s.Program.Out, lines+"  StrictHostKeyChecking ask\n")
	}
	return output.Write(s.Program.Out, lines+fmt.Sprintf("  HostKeyAlias %s\n  UserKnownHostsFile %s\n"+
		"  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n  UpdateHostKeys no\n", hostAlias(v), file))
}

// hostAlias is the name of a node in its known_hosts: addresses are given to other
// nodes later, and an allocation is never another one.
func hostAlias(v apiclient.AllocationView) string { return "gpuaas-" + v.AllocationId.String() }

// knownHosts writes the host keys of a node to a file, and gives its name as
// ssh_config takes it; empty: no key is known.
func (s *session) knownHosts(v apiclient.AllocationView) (string, error) {
	if v.HostKeysChangedAt != nil {
		s.Note("Since %s the node shows other host keys than its installation had, and it was not reinstalled: %s. "+
			"Somebody with root on it changed them, or another machine answers. ssh will refuse it.",
			s.When(*v.HostKeysChangedAt), fingerprints(v.HostKeysShown))
	}
	var text strings.Builder
	if v.HostKeys != nil {
		for _, k := range *v.HostKeys {
			algorithm, key, two := strings.Cut(k.PublicKey, " ")
			if !two || !plainWord(algorithm) || strings.Trim(key, base64Letters) != "" || key == "" {
				return "", failure.New(failure.Unexpected, "host_key_unusable", "use gpuaas ssh without --config",
					"a host key of the node is none that known_hosts can hold")
			}
			fmt.Fprintf(&text, "%s %s %s\n", hostAlias(v), algorithm, key)
		}
	}
	if text.Len() == 0 {
		return "", nil
	}
	folder, err := contexts.Folder(s.Env)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "known_hosts", v.AllocationId.String())
	if err := writeWhole(path, text.String()); err != nil {
		return "", failure.New(failure.Usage, "known_hosts_unwritable",
			"make room there, or set XDG_CONFIG_HOME to another folder",
			"the host keys of the node were not written to %s: %v", path, err)
	}
	return forSSHConfig(path, s.Env["HOME"])
}

const base64Letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/="

// forSSHConfig writes the name of a file as ssh_config takes it: below the home
// with a tilde, in quotes, and without what ssh would replace.
func forSSHConfig(path, home string) (string, error) {
	if below, is := strings.CutPrefix(path, filepath.Clean(home)+"/"); is && home != "" {
		path = "~/" + below
	}
	if strings.ContainsAny(path, "\"\\\n\r$") {
		return "", failure.New(failure.Usage, "known_hosts_unusable", "set XDG_CONFIG_HOME to a folder with a plain name",
			"ssh_config cannot name the file %q", path)
	}
	return `"` + strings.ReplaceAll(path, "%", "%%") + `"`, nil
}

// writeWhole puts a file in the place of the one before.
func writeWhole(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// fingerprints names host keys for people.
func fingerprints(keys *[]apiclient.AllocationHostKeyView) string {
	if keys == nil {
		return ""
	}
	out := make([]string, len(*keys))
	for i, k := range *keys {
		out[i] = k.Fingerprint + " (" + k.Algorithm + ")"
	}
	return strings.Join(out, ", ")
}

func plainWord(word string) bool {
	return word != "" && !strings.HasPrefix(word, "-") && strings.Trim(word,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") == ""
}
