package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

// Exit codes. Scripts depend on them: they are added to, never changed.
const (
	exitOK              = 0
	exitUnexpected      = 1
	exitUsage           = 2
	exitUnauthenticated = 3
	exitForbidden       = 4
	exitNotFound        = 5
	exitConflict        = 6
	exitUnavailable     = 7
	exitUnsuccessful    = 8
	exitInterrupted     = 130
)

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean",
		Long: `Exit codes, for scripts:

    0  done; or a watch was ended with Ctrl-C
    1  something unexpected happened
    2  the command or its input is wrong; repeating it as it is cannot help
    3  not signed in, or the token is no longer good: gpuaas login
    4  signed in, but not allowed
    5  it does not exist, or you must not know that it does
    6  the present state does not allow it, or somebody else changed it meanwhile
    7  the control plane cannot be reached, is not ready, or did not answer in time;
       repeating may help
    8  what was waited for ended unsuccessfully, such as a failed self-check
  130  interrupted before the outcome was known

Errors go to standard error; with -o json as one JSON object, which has the fields
code, detail, remedy, correlation_id and exit_code.`,
	}
}

func environmentTopic() *cobra.Command {
	return &cobra.Command{
		Use: "environment", Short: "Environment variables and files that are read",
		Long: `Environment variables:

  GPUAAS_CONTEXT    the context to use, as with --context
  GPUAAS_URL        the control plane to talk to, instead of that of the context.
                    The token of a context is sent to its own control plane only:
                    set GPUAAS_TOKEN too. --context sets both aside
  GPUAAS_TOKEN      the token to use, instead of that of the context
  GPUAAS_CA_FILE    certificates (PEM) to trust beside those of the system
  GPUAAS_OUTPUT     how to print, as with --output
  XDG_CONFIG_HOME   where contexts are kept: gpuaas/config.yaml below it;
                    ~/.config when not set

A token is never taken from the command line, which other users of a machine can read.`,
	}
}

// failure is what a person or a program is told about an error.
type failure struct {
	exit    int
	what    string // what happened
	code    string
	fields  []apiclient.FieldError
	remedy  string // what to do about it
	quote   string // correlation id
	problem *apiclient.Problem
}

// Error makes a failure an error that knows its exit code.
func (f *failure) Error() string { return f.what }

func fail(exit int, code, remedy, format string, args ...any) *failure {
	return &failure{exit: exit, code: code, remedy: remedy, what: fmt.Sprintf(format, args...)}
}

// usage is a command that was called wrongly.
func usage(cmd *cobra.Command, format string, args ...any) *failure {
	return fail(exitUsage, "usage", "see: "+cmd.CommandPath()+" --help", format, args...)
}

// failureOf decides what any error means.
func (a *app) failureOf(ctx context.Context, err error) *failure {
	var known *failure
	var problem *apiclient.Problem
	var call *apiclient.CallError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &problem):
		return a.problemFailure(problem)
	case stopped(ctx, err):
		return interrupted(err)
	case errors.As(err, &call):
		return a.callFailure(call)
	}
	return fail(exitUnexpected, "unexpected", "", "%v", err)
}

// stopped says that an error is somebody's wish to end, not a failure.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

func interrupted(err error) *failure {
	var call *apiclient.CallError
	if errors.As(err, &call) && call.IdempotencyKey != "" {
		return fail(exitInterrupted, "interrupted",
			"repeat the command with --idempotency-key "+call.IdempotencyKey+": what was done is not done twice",
			"interrupted: the change may or may not have been made")
	}
	return fail(exitInterrupted, "interrupted", "", "interrupted")
}

func exitOfStatus(status int64) int {
	switch status {
	case http.StatusUnauthorized:
		return exitUnauthenticated
	case http.StatusForbidden:
		return exitForbidden
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return exitUnavailable
	}
	if status >= 400 && status < 500 {
		return exitUsage
	}
	return exitUnexpected
}

func (a *app) problemFailure(p *apiclient.Problem) *failure {
	f := &failure{
		exit: exitOfStatus(p.Status), what: or(text(p.Detail), p.Title), code: p.Code,
		remedy: text(p.Remedy), quote: text(p.CorrelationId), problem: p,
	}
	if p.Errors != nil {
		f.fields = *p.Errors
	}
	if p.Code == apiclient.CodeNotTheAPI && f.exit != exitUnavailable {
		f.exit = exitUnexpected
	}
	if p.Status == http.StatusUnauthorized {
		f.remedy = strings.TrimPrefix(f.remedy+"; sign in with: gpuaas login"+a.contextFlag(), "; ")
	}
	return f
}

func (a *app) callFailure(call *apiclient.CallError) *failure {
	where := call.URL
	if a.connected != nil && a.connected.context != "" {
		where += " (context " + a.connected.context + ")"
	}
	look := "gpuaas context show" + a.contextFlag()
	if a.connected != nil && a.connected.context == "" {
		look = "it comes from GPUAAS_URL"
	}
	f := fail(exitUnavailable, "unreachable", "check that the control plane runs and that the URL is right: "+look,
		"no answer from %s: %v", where, call.Err)
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.As(call.Err, &unknown):
		f.remedy = "if its certificate comes from your own authority, name that: gpuaas context set NAME --ca-file FILE"
	case errors.As(call.Err, &wrongName):
		f.remedy = "use the host name that its certificate is for: gpuaas context set NAME --url URL"
	case errors.As(call.Err, &dns):
		f.remedy = "check the host name of the URL: " + look
	}
	if call.IdempotencyKey != "" {
		f.remedy += "\nthe change may or may not have been made; repeat the command with --idempotency-key " + call.IdempotencyKey
	}
	return f
}

// contextFlag repeats the choice of a context in commands that are proposed.
func (a *app) contextFlag() string {
	if a.connected == nil || a.connected.context == "" || a.flags.context == "" {
		return ""
	}
	return " --context " + a.connected.context
}

// explain prints a failure the way that the output was asked for.
func (a *app) explain(f *failure) {
	w := a.program.Err
	if format, err := a.format(); err == nil && format == formatJSON {
		_, _ = fmt.Fprintln(w, harmlessJSON(string(f.json()))) // nobody is left to tell
		return
	}
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...) + "\n") }
	line("error: %s", harmlessLines(f.what))
	for _, field := range f.fields {
		line("  %s: %s", harmless(field.Field), harmless(field.Message))
	}
	if f.remedy != "" {
		line("what to do: %s", harmlessLines(f.remedy))
	}
	if f.quote != "" {
		line("correlation id: %s (%s)", harmless(f.quote), harmless(f.code))
	}
	_, _ = fmt.Fprint(w, b.String())
}

// json is the problem as the API answered it, or one made in its likeness.
func (f *failure) json() []byte {
	type likeness struct {
		Type          string                 `json:"type,omitempty"`
		Title         string                 `json:"title,omitempty"`
		Status        int64                  `json:"status,omitempty"`
		Detail        string                 `json:"detail"`
		Code          string                 `json:"code"`
		Remedy        string                 `json:"remedy,omitempty"`
		CorrelationID string                 `json:"correlation_id,omitempty"`
		Errors        []apiclient.FieldError `json:"errors,omitempty"`
		ExitCode      int                    `json:"exit_code"`
	}
	l := likeness{Detail: f.what, Code: f.code, Remedy: f.remedy, CorrelationID: f.quote, Errors: f.fields, ExitCode: f.exit}
	if f.problem != nil {
		l.Type, l.Title, l.Status = f.problem.Type, f.problem.Title, f.problem.Status
	}
	b, err := json.Marshal(l)
	if err != nil { // strings and numbers only
		panic(err)
	}
	return b
}

// text is the value of an optional string.
func text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
