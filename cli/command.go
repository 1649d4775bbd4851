package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
)

// operations is the annotation that says which operations of the API a command uses; a test
// holds that every operation has a command and that commands use what they say.
const operations = "operations"

// noun is a group of commands about one thing.
type noun struct{ use, short, long, group string }

func (a *app) noun(n noun, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: n.use, Short: n.short, Long: n.long, GroupID: n.group}
	cmd.AddCommand(verbs...)
	return cmd
}

// verb is one command that talks to a control plane.
type verb struct {
	use, short, long, example, group string
	aliases                          []string
	operations                       []string // ids of operations in contract/openapi.yaml
	args                             cobra.PositionalArgs
	// flags defines flags and returns what the command does once they are known.
	flags func(cmd *cobra.Command) action
	// run is for commands without flags.
	run action
}

type action func(s *session, args []string) error

func (a *app) verb(v verb) *cobra.Command {
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: v.long, Example: v.example, GroupID: v.group, Args: v.args, Aliases: v.aliases,
		Annotations: map[string]string{operations: strings.Join(v.operations, " ")},
	}
	if v.args == nil {
		cmd.Args = cobra.NoArgs
	}
	do := v.run
	if v.flags != nil {
		do = v.flags(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := unknownValue(cmd); err != nil {
			return err
		}
		s, err := a.connect(cmd)
		if err != nil {
			return err
		}
		return a.withProjectHint(cmd, do(s, args))
	}
	return cmd
}

// withProjectHint tells whoever was refused that the command can be about a project, if
// none was named: members of a project have no rights outside of it.
func (a *app) withProjectHint(cmd *cobra.Command, err error) error {
	project := cmd.Flags().Lookup("project")
	if err == nil || project == nil || project.Changed {
		return err
	}
	f := a.FailureOf(cmd.Context(), err)
	if f.Exit != failure.Forbidden {
		return err
	}
	f.Remedy = "if it concerns a project, add --project TENANT/PROJECT; otherwise " + f.Remedy
	return f
}
