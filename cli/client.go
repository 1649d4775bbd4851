package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

type appKey struct{}

// within lets commands that come from outside find the run that they belong to.
func (a *app) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, appKey{}, a)
}

// Client is for commands that come from outside and talk to a control plane: the one that the
// user has chosen, by context, flags and environment as for every other command.
func Client(cmd *cobra.Command) (*apiclient.Client, error) {
	a, ok := cmd.Context().Value(appKey{}).(*app)
	if !ok {
		return nil, errors.New("the command does not run under the gpuaas command line")
	}
	s, err := a.connect(cmd)
	if err != nil {
		return nil, err
	}
	return s.API, nil
}
