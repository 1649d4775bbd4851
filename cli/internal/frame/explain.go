package frame

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/output"
	"gpuaas/contract/apiclient"
)

// FailureOf decides what any error means.
func (a *App) FailureOf(ctx context.Context, err error) *failure.Error {
	var known *failure.Error
	var problem *apiclient.Problem
	var call *apiclient.CallError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &problem):
		return a.problemFailure(problem)
	case failure.Stopped(ctx, err):
		return failure.OfInterruption(err)
	case errors.As(err, &call):
		return a.callFailure(call)
	}
	return failure.New(failure.Unexpected, "unexpected", "", "%v", err)
}

func (a *App) problemFailure(p *apiclient.Problem) *failure.Error {
	f := failure.OfProblem(p)
	if p.Code == apiclient.CodeNotTheAPI && f.Exit != failure.Unavailable {
		f.Exit = failure.Unexpected
	}
	if p.Status == http.StatusUnauthorized {
		f.Remedy = strings.TrimPrefix(f.Remedy+"; sign in with: gpuaas login"+a.contextFlag(), "; ")
	}
	return f
}

func (a *App) callFailure(call *apiclient.CallError) *failure.Error {
	where := call.URL
	if a.connected != nil && a.connected.Context != "" {
		where += " (context " + a.connected.Context + ")"
	}
	look := "gpuaas context show" + a.contextFlag()
	if a.connected != nil && a.connected.Context == "" {
		look = "it comes from GPUAAS_URL"
	}
	f := failure.New(failure.Unavailable, "unreachable", "check that the control plane runs and that the URL is right: "+
		look,
		"no answer from %s: %v", where, call.Err)
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var dns *net.DNSError
	switch {
	case errors.As(call.Err, &unknown):
		f.Remedy = "if its certificate comes from your own authority, name that: gpuaas context set NAME --ca-file FILE"
	case errors.As(call.Err, &wrongName):
		f.Remedy = "use the host name that its certificate is for: gpuaas context set NAME --url URL"
	case errors.As(call.Err, &dns):
		f.Remedy = "check the host name of the URL: " + look
	}
	if call.IdempotencyKey != "" {
		f.Remedy += "\nthe change may or may not have been made; repeat the command with --idempotency-key " +
			call.IdempotencyKey
	}
	return f
}

// contextFlag repeats the choice of a context in commands that are proposed.
func (a *App) contextFlag() string {
	if a.connected == nil || a.connected.Context == "" || a.Flags.Context == "" {
		return ""
	}
	return " --context " + a.connected.Context
}

// Explain prints a failure the way that the output was asked for. To people, fields are named
// by what typed is for them; empty leaves the name out.
func (a *App) Explain(f *failure.Error, typed func(field string) string) {
	w := a.Program.Err
	if format, err := a.Format(); err == nil && format == output.JSON {
		_, _ = fmt.Fprintln(w, output.HarmlessJSON(string(f.JSON()))) // nobody is left to tell
		return
	}
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(fmt.Sprintf(format, args...) + "\n") }
	line("error: %s", output.HarmlessLines(f.What))
	for _, field := range f.Fields {
		if name := typed(field.Field); name != "" {
			line("  %s: %s", output.Harmless(name), output.Harmless(field.Message))
			continue
		}
		line("  %s", output.Harmless(field.Message))
	}
	if f.Remedy != "" {
		line("what to do: %s", output.HarmlessLines(f.Remedy))
	}
	if f.Quote != "" {
		line("correlation id: %s (%s)", output.Harmless(f.Quote), output.Harmless(f.Code))
	}
	_, _ = fmt.Fprint(w, b.String())
}
