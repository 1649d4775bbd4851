package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// connection is the control plane that a command talks to, and as whom.
type connection struct {
	context            string // empty when only the environment says so
	url, caFile, token string
	tokenIsOfContext   bool
}

// session is one run of a command against a control plane.
type session struct {
	*app
	connection
	cmd *cobra.Command
	ctx context.Context
	api *apiclient.Client
}

func noContext() error {
	return fail(exitUsage, "no_context", "sign in: gpuaas login --url URL; or set GPUAAS_URL and GPUAAS_TOKEN",
		"no control plane is chosen")
}

// chosenContext is the name of the context to use; empty when there is none.
func (a *app) chosenContext(c *contexts) string {
	return or(a.flags.context, or(a.env["GPUAAS_CONTEXT"], c.Current))
}

// choose finds out which control plane to talk to and with which token. The token of a
// context never goes to another control plane than its own, and a context that the command
// line names is not replaced by what the environment happens to hold.
func (a *app) choose() (connection, error) {
	var out connection
	address, environment := a.env["GPUAAS_URL"], strings.TrimSpace(a.env["GPUAAS_TOKEN"])
	if a.flags.context != "" && address != "" {
		address, environment = "", "" // they belong together
	}
	c, err := a.loadContexts()
	if err != nil && address == "" {
		return out, err
	}
	if err == nil && a.chosenContext(c) != "" {
		name := a.chosenContext(c)
		one, err := c.named(name)
		if err != nil {
			return out, err
		}
		out = connection{context: name, url: one.URL, caFile: one.CAFile, token: one.Token, tokenIsOfContext: one.Token != ""}
	}
	if address != "" && address != out.url {
		out = connection{url: address}
	}
	if out.url == "" {
		return out, noContext()
	}
	out.caFile = or(a.env["GPUAAS_CA_FILE"], out.caFile)
	token, err := a.givenToken()
	if err != nil {
		return out, err
	}
	if token = or(token, environment); token != "" {
		out.token, out.tokenIsOfContext = token, false
	}
	return out, nil
}

// givenToken is the token of --token-file; empty when there is none.
func (a *app) givenToken() (string, error) {
	const longest = 4096
	if a.flags.tokenFile == "" {
		return "", nil
	}
	in, where := a.program.In, "standard input"
	if a.flags.tokenFile != "-" {
		where = a.flags.tokenFile
		f, err := os.Open(a.flags.tokenFile)
		if err != nil {
			return "", fail(exitUsage, "token_unreadable", "name a file that you can read, or - for standard input", "read token: %v", err)
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
		return "", fail(exitUsage, "token_unreadable", "the file must hold the token and nothing else", "%s holds no token", where)
	}
	return string(b), nil
}

// connect makes the session of a command.
func (a *app) connect(cmd *cobra.Command) (*session, error) {
	if _, err := a.format(); err != nil {
		return nil, err
	}
	chosen, err := a.choose()
	if err != nil {
		return nil, err
	}
	return a.connectTo(cmd, chosen)
}

func (a *app) connectTo(cmd *cobra.Command, to connection) (*session, error) {
	api, err := apiclient.New(apiclient.Config{
		URL: to.url, Token: to.token, CAFile: to.caFile, IdempotencyKey: a.flags.idempotencyKey,
		UserAgent: "gpuaas/" + or(a.program.Version, "dev"), Wait: a.wait,
		Retrying: a.retrying,
	})
	if err != nil {
		return nil, fail(exitUsage, "context_unusable", "correct it: gpuaas context set NAME --url URL --ca-file FILE", "%v", err)
	}
	a.connected = &to
	return &session{app: a, connection: to, cmd: cmd, ctx: cmd.Context(), api: api}, nil
}

// retrying lets people know why they wait.
func (a *app) retrying(why error, pause time.Duration) {
	if pause >= time.Second {
		a.note("%v; trying again", why)
	}
}

// note tells people something beside the output.
func (a *app) note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.program.Err, harmlessLines(fmt.Sprintf(format, args...))) // it is only beside the output
}
