package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
)

// misusedFlag says what is wrong with a flag in words about what was typed.
func misusedFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		out := failure.Misuse(cmd, "%v", err)
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			out.Remedy = fmt.Sprintf("did you mean: --%s; see: %s --help", near, cmd.CommandPath())
		}
		return out
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if form := formOf(flag.Value.Type()); form != "" {
			return failure.Misuse(cmd, "--%s must be %s, not %q", flag.Name, form, invalid.GetValue())
		}
		return failure.Misuse(cmd, "--%s cannot be %q: %v", flag.Name, invalid.GetValue(), invalid.Unwrap())
	case errors.As(err, &missing):
		return failure.Misuse(cmd, "%s needs a value", dashed(missing.GetSpecifiedName()))
	}
	return failure.Misuse(cmd, "%v", err)
}

// dashed is the name of a flag as it is typed.
func dashed(name string) string { return "--"[:min(len(name), 2)] + name }

// misusedArguments says which arguments are missing or too many, as the usage of the command
// names them: cobra counts them, and calls those of a command that takes none commands.
func misusedArguments(cmd *cobra.Command, args []string, err error) error {
	var needed []string
	names := strings.Fields(cmd.Use)[1:]
	if flags := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "-") }); flags >= 0 {
		names = names[:flags]
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "[") {
			needed = append(needed, strings.TrimSuffix(name, "..."))
		}
	}
	switch {
	case len(args) > 0 && len(names) == 0 && cmd.HasSubCommands():
		return unknownCommand(cmd, args[0])
	case len(args) < len(needed):
		return failure.Misuse(cmd, "missing %s", all(needed[len(args):]))
	case len(args) > len(names):
		return failure.Misuse(cmd, "unexpected %q", args[len(names)])
	}
	return failure.Misuse(cmd, "%v", err)
}

// all are names as one lists them in a sentence.
func all(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// ofFlag says which flag an error is about.
func (s *session) ofFlag(name string, err error) error {
	if err == nil {
		return nil
	}
	return failure.Misuse(s.Cmd, "--%s: %v", name, err)
}

// formOf is what a value of a type looks like; empty when the value itself says what is wrong.
func formOf(kind string) string {
	switch {
	case kind == "duration":
		return "a duration such as 30s, 15m or 12h"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "uint"), kind == "count":
		return "a whole number that is not negative"
	}
	return ""
}

// unknownValue is a misuse when a flag that takes one of a few words has another.
func unknownValue(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		known := frame.Proposed(f)
		if len(known) == 0 || err != nil {
			return
		}
		given := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			given = several.GetSlice()
		}
		for _, value := range given {
			if value == "" || slices.Contains(known, value) {
				continue
			}
			out := failure.Misuse(cmd, "--%s must be one of %s, not %q", f.Name, strings.Join(known, ", "), value)
			if near := nearest(known, value); near != "" {
				out.Remedy = fmt.Sprintf("did you mean: --%s %s; see: %s --help", f.Name, near, cmd.CommandPath())
			}
			err = out
			return
		}
	})
	return err
}

// nearestFlag is the flag of a command that somebody probably meant; empty when none is near.
func nearestFlag(cmd *cobra.Command, typed string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return nearest(names, typed)
}

// nearest is the word that somebody probably meant; empty when none is near.
func nearest(known []string, typed string) (near string) {
	const far = 3
	least := min(far, (len(typed)+2)/2)
	for _, word := range known {
		if d := distance(typed, word); d < least {
			near, least = word, d
		}
	}
	return near
}

// distance is how many letters must be added, left out or changed to make one word the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// fieldTyped is a field of a request as it was typed: the flag that it comes from, if the
// command has it, and otherwise its name without the part of the request that it is in.
func fieldTyped(cmd *cobra.Command, field string) string {
	for _, part := range []string{"body.", "query.", "path.", "header."} {
		if name, is := strings.CutPrefix(field, part); is {
			if flag := strings.ReplaceAll(name, "_", "-"); cmd.Flags().Lookup(flag) != nil {
				return "--" + flag
			}
			return name
		}
	}
	if field == "body" {
		return ""
	}
	return field
}
