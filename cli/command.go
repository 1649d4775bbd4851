package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
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
		s, err := a.connect(cmd)
		if err != nil {
			return err
		}
		return do(s, args)
	}
	return cmd
}

// exactly is the arguments a command takes, by name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("missing %s", strings.Join(names[len(args):], " and "))
		}
		if len(args) > len(names) {
			return fmt.Errorf("unexpected %q", args[len(names)])
		}
		return nil
	}
}

// require is a usage error when a flag was not given.
func (s *session) require(flags ...string) error {
	for _, name := range flags {
		if !s.cmd.Flags().Changed(name) {
			return usage(s.cmd, "--%s is required", name)
		}
	}
	return nil
}

// given is the value of a flag, or nil when it was not given: then nothing is sent.
func given[T any](s *session, flag string, value *T) *T {
	if !s.cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

// givenAs is given for the types that the contract makes of strings.
func givenAs[T ~string](s *session, flag string, value *string) *T {
	if !s.cmd.Flags().Changed(flag) {
		return nil
	}
	v := T(*value)
	return &v
}

// switched is the flag that turns something off and the one that turns it on again; nil when
// neither was given.
func (s *session) switched(off, on string) (*bool, error) {
	f := s.cmd.Flags()
	switch {
	case f.Changed(off) && f.Changed(on):
		return nil, usage(s.cmd, "--%s and --%s exclude each other", off, on)
	case f.Changed(off):
		return ptr(true), nil
	case f.Changed(on):
		return ptr(false), nil
	}
	return nil, nil
}

// anything is a usage error when no flag of a change was given.
func (s *session) anything(flags ...string) error {
	for _, name := range flags {
		if s.cmd.Flags().Changed(name) {
			return nil
		}
	}
	return usage(s.cmd, "nothing to change: give at least one of --%s", strings.Join(flags, ", --"))
}

func ptr[T any](v T) *T { return &v }

// complete proposes the values of a flag.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil { // the flag is not defined, or twice
		panic(err)
	}
}

// show prints the object that a call was answered with.
func show[T any](s *session, columns []column[T]) func(apiclient.Answer, error) error {
	return func(resp apiclient.Answer, err error) error {
		raw, err := apiclient.Read(resp, err)
		if err != nil {
			return err
		}
		return printOne(s.app, columns, raw)
	}
}

// done tells people that a call without an answer succeeded.
func done(s *session, format string, args ...any) func(apiclient.Answer, error) error {
	return func(resp apiclient.Answer, err error) error {
		if _, err := apiclient.Read(resp, err); err != nil {
			return err
		}
		s.note(format, args...)
		return nil
	}
}

// fetch is the object that a call was answered with.
func fetch[T any](resp apiclient.Answer, err error) (T, error) {
	raw, err := apiclient.Read(resp, err)
	if err != nil {
		var none T
		return none, err
	}
	o, err := decode[T](raw)
	return o.value, err
}

// etag is the version that a change is based on, as the API wants it back.
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

func printOne[T any](a *app, columns []column[T], raw json.RawMessage) error {
	format, err := a.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(a.program.Out, format, raw)
	}
	o, err := decode[T](raw)
	if err != nil {
		return err
	}
	return printDetail(a.program.Out, columns, o.value)
}

func printList[T any](a *app, columns []column[T], raws []json.RawMessage) error {
	format, err := a.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(a.program.Out, format, array(raws))
	}
	objects, err := decodeAll[T](raws)
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		a.note("there are none")
		return nil
	}
	return printTable(a.program.Out, columns, objects, !a.flags.noHeaders)
}
