package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/contract/apiclient"
)

// A command from outside talks to the control plane that the user has chosen, and its errors
// are explained like those of every other command.
func TestClientForCommandsFromOutside(t *testing.T) {
	outside := func() *cobra.Command {
		return &cobra.Command{Use: "outside", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := Client(cmd)
			if err != nil {
				return err
			}
			_, err = apiclient.Read(api.ListMaasSitesWithResponse(cmd.Context(), &apiclient.ListMaasSitesParams{}))
			return err
		}}
	}
	start := func(b *bench) (said string, code int) {
		var err bytes.Buffer
		code = run(t.Context(), Program{
			Args: []string{"outside"}, Out: &err, Err: &err, Environ: b.environ,
			Server: []*cobra.Command{outside()},
		}, b.around)
		return err.String(), code
	}
	if said, code := start(signedIn(t, newFakeAPI(t))); code != failure.OK {
		t.Errorf("signed in: exit code %d, %s", code, said)
	}
	if said, code := start(newBench(t)); code != failure.Usage || !strings.Contains(said, "gpuaas login") {
		t.Errorf("a stranger: exit code %d, %s", code, said)
	}
	lost := outside()
	lost.SetContext(context.Background())
	if _, err := Client(lost); err == nil {
		t.Error("a command outside the command line has a control plane")
	}
}
