package frame

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
)

// AddYesFlag defines the flag that answers the question in advance.
func AddYesFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "do not ask whether that is meant")
}

// Asks reports whether somebody is there to be asked: scripts are never held up.
func (s *Session) Asks(yes bool) bool {
	in, writable := s.Program.In.(io.Writer) // terminals are both
	return !yes && s.Terminal(s.Program.Err) && (!writable || s.Terminal(in))
}

// Confirm asks whether something that cannot be undone is meant, if somebody is there to be
// asked.
func (s *Session) Confirm(yes bool, format string, args ...any) error {
	if !s.Asks(yes) {
		return nil
	}
	question := output.HarmlessLines(fmt.Sprintf(format, args...)) + "\nType yes to go on: "
	if err := output.Write(s.Program.Err, question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(s.Program.In).ReadString('\n')
	if err != nil && answer == "" || strings.TrimSpace(answer) != "yes" {
		return failure.New(failure.Interrupted, "not_confirmed", "", "nothing was done")
	}
	return nil
}

// maxAskedAbout is how many nodes a question names.
const maxAskedAbout = 50

// SomeOf are names for a question, the first of them if they are many.
func SomeOf(names []string) string {
	if more := len(names) - maxAskedAbout; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAskedAbout], ", "), more)
	}
	return strings.Join(names, ", ")
}
