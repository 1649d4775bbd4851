package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gpuaas/cli/internal/failure"
)

// misusedFlag says what is wrong with a flag in words about what was typed.
func misusedFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
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
	}
	return failure.Misuse(cmd, "%v", err)
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

// nearestFlag is the flag of a command that somebody probably meant; empty when none is near.
func nearestFlag(cmd *cobra.Command, typed string) (near string) {
	const far = 3
	least := min(far, (len(typed)+2)/2)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if d := distance(typed, f.Name); d < least {
			near, least = f.Name, d
		}
	})
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
