package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// addYesFlag defines the flag that answers the question in advance.
func addYesFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "do not ask whether that is meant")
}

// asks reports whether somebody is there to be asked: scripts are never held up.
func (s *session) asks(yes bool) bool {
	in, writable := s.program.In.(io.Writer) // terminals are both
	return !yes && s.terminal(s.program.Err) && (!writable || s.terminal(in))
}

// confirm asks whether something that cannot be undone is meant, if somebody is there to be
// asked.
func (s *session) confirm(yes bool, format string, args ...any) error {
	if !s.asks(yes) {
		return nil
	}
	question := harmlessLines(fmt.Sprintf(format, args...)) + "\nType yes to go on: "
	if err := write(s.program.Err, question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(s.program.In).ReadString('\n')
	if err != nil && answer == "" || strings.TrimSpace(answer) != "yes" {
		return fail(exitInterrupted, "not_confirmed", "", "nothing was done")
	}
	return nil
}

// maxAskedAbout is how many nodes a question names.
const maxAskedAbout = 50

// someOf are names for a question, the first of them if they are many.
func someOf(names []string) string {
	if more := len(names) - maxAskedAbout; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxAskedAbout], ", "), more)
	}
	return strings.Join(names, ", ")
}
