package frame

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/contexts"
	"gpuaas/cli/internal/failure"
	"gpuaas/contract/apiclient"
)

// Connection is the control plane that a command talks to, and as whom.
type Connection struct {
	Context            string // empty when only the environment says so
	URL, CAFile, Token string
	TokenIsOfContext   bool
}

// Session is one run of a command against a control plane.
type Session struct {
	*App
	Connection
	Cmd *cobra.Command
	Ctx context.Context
	API *apiclient.Client
}

// NoContext is the failure of a command that does not know which control plane is meant.
func NoContext() error {
	return failure.New(failure.Usage, "no_context", "sign in: gpuaas login --url URL; or set GPUAAS_URL and GPUAAS_TOKEN",
		"no control plane is chosen")
}

// ChosenContext is the name of the context to use; empty when there is none.
func (a *App) ChosenContext(c *contexts.File) string {
	return cmp.Or(a.Flags.Context, cmp.Or(a.Env["GPUAAS_CONTEXT"], c.Current))
}

// LoadContexts reads the contexts that somebody has.
func (a *App) LoadContexts() (*contexts.File, error) {
	path, err := contexts.Path(a.Env)
	if err != nil {
		return nil, err
	}
	return contexts.Read(path, a.Note)
}

// ChangeContexts changes the file of contexts, one process at a time.
func (a *App) ChangeContexts(change func(*contexts.File) error) error {
	path, err := contexts.Path(a.Env)
	if err != nil {
		return err
	}
	return contexts.Change(path, a.Note, change)
}

// choose finds out which control plane to talk to and with which token. The token of a
// context never goes to another control plane than its own, and a context that the command
// line names is not replaced by what the environment happens to hold.
func (a *App) choose() (Connection, error) {
	var out Connection
	address, environment := a.Env["GPUAAS_URL"], strings.TrimSpace(a.Env["GPUAAS_TOKEN"])
	if a.Flags.Context != "" && address != "" {
		address, environment = "", "" // they belong together
	}
	c, err := a.LoadContexts()
	if err != nil && address == "" {
		return out, err
	}
	if err == nil && a.ChosenContext(c) != "" {
		name := a.ChosenContext(c)
		one, err := c.Named(name)
		if err != nil {
			return out, err
		}
		out = Connection{Context: name, URL: one.URL, CAFile: one.CAFile, Token: one.Token, TokenIsOfContext: one.Token != ""}
	}
	if address != "" && address != out.URL {
		out = Connection{URL: address}
	}
	if out.URL == "" {
		return out, NoContext()
	}
	out.CAFile = cmp.Or(a.Env["GPUAAS_CA_FILE"], out.CAFile)
	token, err := a.GivenToken()
	if err != nil {
		return out, err
	}
	if token = cmp.Or(token, environment); token != "" {
		out.Token, out.TokenIsOfContext = token, false
	}
	return out, nil
}

// GivenToken is the token of --token-file; empty when there is none.
func (a *App) GivenToken() (string, error) {
	const longest = 4096
	if a.Flags.TokenFile == "" {
		return "", nil
	}
	in, where := a.Program.In, "standard input"
	if a.Flags.TokenFile != "-" {
		where = a.Flags.TokenFile
		f, err := os.Open(a.Flags.TokenFile)
		if err != nil {
			return "", failure.New(failure.Usage, "token_unreadable", "name a file that you can read, or - for standard input",
				"read token: %v", err)
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, longest+1))
	if err != nil {
		return "", fmt.Errorf("read token from %s: %w", where, err)
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 || len(b) > longest || bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", failure.New(failure.Usage, "token_unreadable", "the file must hold the token and nothing else",
			"%s holds no token", where)
	}
	return string(b), nil
}

// Connect makes the session of a command.
func (a *App) Connect(cmd *cobra.Command) (*Session, error) {
	if _, err := a.Format(); err != nil {
		return nil, err
	}
	chosen, err := a.choose()
	if err != nil {
		return nil, err
	}
	return a.ConnectTo(cmd, chosen)
}

// ConnectTo makes the session of a command with a control plane that is known.
func (a *App) ConnectTo(cmd *cobra.Command, to Connection) (*Session, error) {
	api, err := apiclient.New(apiclient.Config{
		URL: to.URL, Token: to.Token, CAFile: to.CAFile, IdempotencyKey: a.Flags.IdempotencyKey,
		UserAgent: "gpuaas/" + cmp.Or(a.Program.Version, "dev"), Wait: a.Wait,
		Retrying: a.retrying,
	})
	if err != nil {
		return nil, failure.New(failure.Usage, "context_unusable",
			"correct it: gpuaas context set NAME --url URL --ca-file FILE", "%v", err)
	}
	a.connected = &to
	return &Session{App: a, Connection: to, Cmd: cmd, Ctx: cmd.Context(), API: api}, nil
}

// retrying lets people know why they wait.
func (a *App) retrying(why error, pause time.Duration) {
	if pause >= time.Second {
		a.Note("%v; trying again", why)
	}
}
