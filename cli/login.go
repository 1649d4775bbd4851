package cli

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/contexts"
	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/signin"
	"gpuaas/contract/apiclient"
)

type loginFlags struct {
	url, caFile string
	life        string
	port        int
}

func (a *app) loginCommand() *cobra.Command {
	f := &loginFlags{}
	cmd := &cobra.Command{
		Use: "login", Short: "Sign in to a control plane and remember it", Args: cobra.NoArgs, GroupID: groupSession,
		Annotations: map[string]string{operations: "list-auth-methods start-oidc-sign-in finish-oidc-sign-in get-me"},
		Long: "Signs in and makes the control plane the current context. Without --token-file it prints a URL to\n" +
			"open in a browser on this machine, where you sign in with your identity provider. With --token-file\n" +
			"it checks the token and keeps it. --url is needed the first time.",
		Example: "  gpuaas login --url https://gpuaas.example.com\n" +
			"  gpuaas login --url http://127.0.0.1:8080 --token-file admin.token --context local",
	}
	cmd.Flags().StringVar(&f.url, "url", "", "URL of the control plane")
	cmd.Flags().StringVar(&f.caFile, "ca-file", "", "certificates (PEM) to trust beside those of the system")
	cmd.Flags().IntVar(&f.port, "callback-port", 0,
		"port on this machine where the browser comes back; a free one when left out")
	cmd.Flags().StringVar(&f.life, "expires-in", "",
		"sign in for so long, such as 90d, so that tokens made with it can last; a session when left out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.login(cmd, *f) }
	return cmd
}

func (a *app) login(cmd *cobra.Command, f loginFlags) error {
	if _, err := a.Format(); err != nil {
		return err
	}
	known, err := a.LoadContexts()
	if err != nil {
		return err
	}
	name, one, err := a.loginTarget(cmd, known, f)
	if err != nil {
		return err
	}
	if one.Token, err = a.GivenToken(); err != nil {
		return err
	}
	if one.Token == "" {
		if one.Token, err = a.signIn(cmd, frame.Connection{Context: name, URL: one.URL, CAFile: one.CAFile}, f); err != nil {
			return err
		}
		one.Session = true
	}
	s, err := a.connectTo(cmd, frame.Connection{Context: name, URL: one.URL, CAFile: one.CAFile, Token: one.Token})
	if err != nil {
		return err
	}
	me, err := frame.Fetch[apiclient.IdentityMeView](s.API.GetMeWithResponse(s.Ctx))
	if err != nil {
		return err
	}
	err = a.ChangeContexts(func(c *contexts.File) error {
		c.Current = name
		return a.saveContext(cmd, c, name, one)
	})
	if err == nil {
		a.Note("signed in to %s as %s; %s is now the current context", one.URL, me.Name, name)
	}
	return err
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// loginTarget is the context to sign in to: the one named, the one with the URL, a new one
// called after its host, or the current one.
func (a *app) loginTarget(cmd *cobra.Command, known *contexts.File, f loginFlags) (string, contexts.Context, error) {
	name := cmp.Or(a.Flags.Context, a.Env["GPUAAS_CONTEXT"])
	if name != "" {
		if err := contexts.CheckName(name); err != nil {
			return "", contexts.Context{}, err
		}
	}
	address := cmp.Or(f.url, a.Env["GPUAAS_URL"])
	if name == "" && address == "" {
		name = known.Current
	}
	if name == "" && address != "" {
		for _, existing := range known.Names() {
			if known.Contexts[existing].URL == address {
				name = existing
			}
		}
	}
	one := known.Contexts[name]
	if address != "" {
		one.URL = address
	}
	if one.URL == "" {
		return "", one, failure.Misuse(cmd, "which control plane? Give --url")
	}
	if cmd.Flags().Changed("ca-file") {
		one.CAFile = f.caFile
	}
	one.CAFile = cmp.Or(one.CAFile, a.Env["GPUAAS_CA_FILE"])
	if name == "" {
		u, err := url.Parse(one.URL)
		if err != nil {
			return "", one, failure.Misuse(cmd, "the URL cannot be read: %v", err)
		}
		name = cmp.Or(strings.Trim(notInNames.ReplaceAllString(u.Host, "-"), "-._"), "default")
	}
	one.Token, one.Session = "", false
	return name, one, nil
}

// signIn is the token of a session that a person opens in a browser.
func (a *app) signIn(cmd *cobra.Command, to frame.Connection, f loginFlags) (string, error) {
	var lasting *int64
	if f.life != "" {
		d, err := moment.ParseLife(f.life)
		if err != nil {
			return "", failure.Misuse(cmd, "--expires-in: %v", err)
		}
		lasting = frame.Ptr(int64(d / time.Second))
	}
	s, err := a.connectTo(cmd, to)
	if err != nil {
		return "", err
	}
	methods, err := frame.Fetch[apiclient.IdentityMethodsView](s.API.ListAuthMethodsWithResponse(s.Ctx))
	if err != nil {
		return "", err
	}
	if !slices.Contains(methods.Methods, apiclient.Oidc) {
		return "", failure.New(failure.Usage, "no_identity_provider", "use a token: gpuaas login --token-file FILE",
			"%s knows no identity provider to sign in with", to.URL)
	}
	b, err := signin.Listen(f.port)
	if err != nil {
		return "", err
	}
	defer b.Close()
	started, err := frame.Fetch[apiclient.IdentityStartedSignInView](s.API.StartOidcSignInWithResponse(s.Ctx,
		apiclient.IdentityStartSignInBody{RedirectUri: b.RedirectURI(), CodeChallenge: b.Challenge()}))
	if err != nil {
		return "", err
	}
	a.Note("Open this URL in a browser on this machine to sign in:\n\n%s\n", started.AuthorizationUrl)
	code, err := b.Await(s.Ctx, started.State)
	if err != nil {
		return "", err
	}
	session, err := frame.Fetch[apiclient.IdentitySessionView](s.API.FinishOidcSignInWithResponse(s.Ctx,
		apiclient.IdentityFinishSignInBody{Code: code, State: started.State, CodeVerifier: b.Verifier, ExpiresIn: lasting}))
	return session.Token, err
}

func (a *app) logoutCommand() *cobra.Command {
	return a.verb(verb{
		use: "logout", short: "End the session and forget its token", group: groupSession, operations: []string{"sign-out"},
		long: "Ends the session of the context and forgets its token. A token that was given with --token-file is\n" +
			"only forgotten and goes on working, unless --revoke says otherwise.",
		flags: func(cmd *cobra.Command) action {
			revoke := cmd.Flags().Bool("revoke", false, "revoke the token even when it was not made by signing in")
			local := cmd.Flags().Bool("local", false, "only forget the token; it goes on working until it expires")
			return func(s *session, _ []string) error { return a.logout(s, *revoke, *local) }
		},
	})
}

func (a *app) logout(s *session, revoke, local bool) error {
	if revoke && local {
		return failure.Misuse(s.Cmd, "--revoke and --local exclude each other")
	}
	if s.Context == "" || !s.TokenIsOfContext {
		return failure.New(failure.Usage, "no_session", "",
			"there is no session to end: the context has no token, or another one is in use")
	}
	known, err := a.LoadContexts()
	if err != nil {
		return err
	}
	revoked := revoke || known.Contexts[s.Context].Session && !local
	if revoked {
		_, err := apiclient.Read(s.API.SignOutWithResponse(s.Ctx, &apiclient.SignOutParams{}))
		var p *apiclient.Problem
		if err != nil && (!errors.As(err, &p) || failure.ExitOf(p.Status) != failure.Unauthenticated) { // it is gone already
			return err
		}
	}
	err = a.ChangeContexts(func(c *contexts.File) error {
		one, err := c.Named(s.Context)
		if err != nil {
			return err
		}
		one.Token, one.Session = "", false
		c.Contexts[s.Context] = one
		return nil
	})
	if err != nil {
		return err
	}
	if revoked {
		a.Note("signed out of context %s; its token no longer works", s.Context)
	} else {
		a.Note("the token of context %s is forgotten; it goes on working until it expires or is revoked", s.Context)
	}
	return nil
}
