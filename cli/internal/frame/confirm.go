package frame

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
)

// AddYesFlag defines the flag that answers the question in advance.
func AddYesFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().BoolP("yes", "y", false, "skip the confirmation prompt")
}

// Asks reports whether somebody is there to be asked: the question is seen, and the answer
// comes from a terminal.
func (s *Session) Asks(yes bool) bool {
	in, writable := s.Program.In.(io.Writer) // terminals are both
	return !yes && s.Terminal(s.Program.Err) && (!writable || s.Terminal(in))
}

// Confirm asks whether something that cannot be undone is meant. If nobody is there to be
// asked, it is not done: a script says --yes.
func (s *Session) Confirm(yes bool, format string, args ...any) error {
	if !yes && !s.Asks(yes) {
		return failure.New(failure.Unconfirmed, "not_confirmed", "to confirm it, repeat the command with --yes",
			"nothing was done: this needs confirmation, and there is no terminal to ask on. %s", output.Harmless(fmt.Sprintf(format, args...)))
	}
	return s.Ask(yes, format, args...)
}

// Ask asks whether something is meant that can be undone, if somebody is there to be asked:
// scripts are not held up.
func (s *Session) Ask(yes bool, format string, args ...any) error {
	if !s.Asks(yes) {
		return nil
	}
	question := output.HarmlessLines(fmt.Sprintf(format, args...)) + "\nType yes to continue: "
	if err := output.Write(s.Program.Err, question); err != nil {
		return err
	}
	answer, err := s.line()
	switch {
	case failure.Stopped(s.Ctx, err):
		return err
	case err != nil && answer == "" || strings.TrimSpace(answer) != "yes":
		return failure.New(failure.Interrupted, "not_confirmed", "", "nothing was done")
	}
	return nil
}

// line reads what somebody types, until Ctrl-C or SIGTERM: a read of a terminal does not end
// by itself, so it is left behind.
func (s *Session) line() (string, error) {
	type typed struct {
		text string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		text, err := bufio.NewReader(s.Program.In).ReadString('\n')
		done <- typed{text, err}
	}()
	select {
	case t := <-done:
		return t.text, t.err
	case <-s.Ctx.Done():
		return "", context.Cause(s.Ctx)
	}
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
