package frame

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
)

// Exactly is the arguments a command takes, by name.
func Exactly(names ...string) cobra.PositionalArgs {
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

// inWords are flags that take a sentence. Hints that are printed leave them out, so that they
// can be pasted: whoever sits at a terminal is asked for the sentence then.
var inWords = []string{"reason", "residual-risk"}

// Require is a usage error when a flag was not given, also not when somebody was asked for it.
func (s *Session) Require(flags ...string) error {
	var ask []string
	for _, name := range flags {
		switch {
		case s.Cmd.Flags().Changed(name):
		case s.Asks(false) && slices.Contains(inWords, name):
			ask = append(ask, name)
		default:
			return failure.Misuse(s.Cmd, "--%s is required", name)
		}
	}
	for _, name := range ask {
		if err := s.askFor(name); err != nil {
			return err
		}
	}
	return nil
}

// askFor asks for the value of a flag, with what its help says about it.
func (s *Session) askFor(name string) error {
	question := fmt.Sprintf("--%s (%s): ", name, s.Cmd.Flags().Lookup(name).Usage)
	if err := output.Write(s.Program.Err, question); err != nil {
		return err
	}
	answer, err := s.line()
	if failure.Stopped(s.Ctx, err) {
		return err
	}
	if answer = strings.TrimSpace(answer); answer == "" {
		return failure.Misuse(s.Cmd, "--%s is required", name)
	}
	return s.Cmd.Flags().Set(name, answer)
}

// Given is the value of a flag, or nil when it was not given: then nothing is sent.
func Given[T any](s *Session, flag string, value *T) *T {
	if !s.Cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

// GivenAs is given for the types that the contract makes of strings.
func GivenAs[T ~string](s *Session, flag string, value *string) *T {
	if !s.Cmd.Flags().Changed(flag) {
		return nil
	}
	v := T(*value)
	return &v
}

// Switched is the flag that turns something off and the one that turns it on again; nil when
// neither was given.
func (s *Session) Switched(off, on string) (*bool, error) {
	f := s.Cmd.Flags()
	switch {
	case f.Changed(off) && f.Changed(on):
		return nil, failure.Misuse(s.Cmd, "--%s and --%s exclude each other", off, on)
	case f.Changed(off):
		return Ptr(true), nil
	case f.Changed(on):
		return Ptr(false), nil
	}
	return nil, nil
}

// Anything is a usage error when no flag of a change was given.
func (s *Session) Anything(flags ...string) error {
	for _, name := range flags {
		if s.Cmd.Flags().Changed(name) {
			return nil
		}
	}
	return failure.Misuse(s.Cmd, "nothing to change: give at least one of --%s", strings.Join(flags, ", --"))
}

// Ptr is a pointer to a value.
func Ptr[T any](v T) *T { return &v }

// proposed is the annotation of a flag with the values that Complete proposes.
const proposed = "gpuaas_proposed"

// Complete proposes the values of a flag. They stay with the flag until a shell asks for them
// (Propose): cobra keeps what is registered in a map of the process, and with it the whole tree
// of commands.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	f := cmd.Flag(flag)
	if f == nil {
		panic(fmt.Sprintf("%s has no flag --%s", cmd.Name(), flag))
	}
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[proposed] = values
}

// Proposed are the values that a flag takes; empty when it is not one of a few words.
func Proposed(f *pflag.Flag) []string { return f.Annotations[proposed] }

// Propose registers with cobra what Complete proposes for the flags of a command and of those below.
func Propose(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		values := Proposed(f)
		if len(values) == 0 {
			return
		}
		err := cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		if err != nil { // two commands share the flag
			panic(err)
		}
	})
	for _, c := range cmd.Commands() {
		Propose(c)
	}
}

// ETag is the version that a change is based on, as the API wants it back.
func ETag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// ParseID is the id that a string is; false when it is a name.
func ParseID(s string) (types.UUID, bool) {
	var id types.UUID
	if len(s) != len(id.String()) || id.UnmarshalText([]byte(s)) != nil {
		return types.UUID{}, false
	}
	return id, true
}

// IDOf is the id that an argument must be.
func (s *Session) IDOf(what, arg string) (types.UUID, error) {
	id, ok := ParseID(arg)
	if !ok {
		f := failure.Misuse(s.Cmd, "%q is not the id of %s", arg, what)
		if list := listBeside(s.Cmd); list != "" {
			f.Remedy = "list them: " + list
		}
		return id, f
	}
	return id, nil
}

// listBeside is the command that lists what a command is about; empty when there is none. What it
// is listed of, such as a site, comes first with both.
func listBeside(cmd *cobra.Command) string {
	for noun := cmd.Parent(); noun != nil && noun.HasParent(); noun = noun.Parent() {
		for _, c := range noun.Commands() {
			of := strings.Count(c.Use, " ") - strings.Count(c.Use, " [")
			if c.Name() == "list" && (of == 0 || of < cmd.Flags().NArg()) {
				return strings.Join(append([]string{c.CommandPath()}, cmd.Flags().Args()[:of]...), " ")
			}
		}
	}
	return ""
}
