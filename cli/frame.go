package cli

import (
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
)

// Program is everything a run of the command line takes from the world around it.
type Program = frame.Program

// app is one run of the command line; its methods are the commands.
type app struct{ *frame.App }

// session is one run of a command against a control plane; its methods are what commands ask.
type session struct {
	*frame.Session
	app *app
}

func newApp(p Program, around frame.Surroundings) *app { return &app{frame.New(p, around)} }

func (a *app) connect(cmd *cobra.Command) (*session, error) {
	s, err := a.Connect(cmd)
	return &session{s, a}, err
}

func (a *app) connectTo(cmd *cobra.Command, to frame.Connection) (*session, error) {
	s, err := a.ConnectTo(cmd, to)
	return &session{s, a}, err
}
