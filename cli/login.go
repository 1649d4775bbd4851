package cli

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	cmd.Flags().IntVar(&f.port, "callback-port", 0, "port on this machine where the browser comes back; a free one when left out")
	cmd.Flags().StringVar(&f.life, "expires-in", "", "sign in for so long, such as 90d, so that tokens made with it can last; a session when left out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.login(cmd, *f) }
	return cmd
}

func (a *app) login(cmd *cobra.Command, f loginFlags) error {
	if _, err := a.format(); err != nil {
		return err
	}
	known, err := a.loadContexts()
	if err != nil {
		return err
	}
	name, one, err := a.loginTarget(cmd, known, f)
	if err != nil {
		return err
	}
	if one.Token, err = a.givenToken(); err != nil {
		return err
	}
	if one.Token == "" {
		if one.Token, err = a.signIn(cmd, connection{context: name, url: one.URL, caFile: one.CAFile}, f); err != nil {
			return err
		}
		one.Session = true
	}
	s, err := a.connectTo(cmd, connection{context: name, url: one.URL, caFile: one.CAFile, token: one.Token})
	if err != nil {
		return err
	}
	me, err := fetch[apiclient.IdentityMeView](s.api.GetMeWithResponse(s.ctx))
	if err != nil {
		return err
	}
	err = a.changeContexts(func(c *contexts) error {
		c.Current = name
		return a.saveContext(cmd, c, name, one)
	})
	if err == nil {
		a.note("signed in to %s as %s; %s is now the current context", one.URL, me.Name, name)
	}
	return err
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// loginTarget is the context to sign in to: the one named, the one with the URL, a new one
// called after its host, or the current one.
func (a *app) loginTarget(cmd *cobra.Command, known *contexts, f loginFlags) (string, savedContext, error) {
	name := or(a.flags.context, a.env["GPUAAS_CONTEXT"])
	if name != "" {
		if err := checkContextName(name); err != nil {
			return "", savedContext{}, err
		}
	}
	address := or(f.url, a.env["GPUAAS_URL"])
	if name == "" && address == "" {
		name = known.Current
	}
	if name == "" && address != "" {
		for _, existing := range known.names() {
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
		return "", one, usage(cmd, "which control plane? Give --url")
	}
	if cmd.Flags().Changed("ca-file") {
		one.CAFile = f.caFile
	}
	one.CAFile = or(one.CAFile, a.env["GPUAAS_CA_FILE"])
	if name == "" {
		u, err := url.Parse(one.URL)
		if err != nil {
			return "", one, usage(cmd, "the URL cannot be read: %v", err)
		}
		name = or(strings.Trim(notInNames.ReplaceAllString(u.Host, "-"), "-._"), "default")
	}
	one.Token, one.Session = "", false
	return name, one, nil
}

// signIn is the token of a session that a person opens in a browser.
func (a *app) signIn(cmd *cobra.Command, to connection, f loginFlags) (string, error) {
	var lasting *int64
	if f.life != "" {
		d, err := parseLife(f.life)
		if err != nil {
			return "", usage(cmd, "--expires-in: %v", err)
		}
		lasting = ptr(int64(d / time.Second))
	}
	s, err := a.connectTo(cmd, to)
	if err != nil {
		return "", err
	}
	methods, err := fetch[apiclient.IdentityMethodsView](s.api.ListAuthMethodsWithResponse(s.ctx))
	if err != nil {
		return "", err
	}
	if !slices.Contains(methods.Methods, apiclient.Oidc) {
		return "", fail(exitUsage, "no_identity_provider", "use a token: gpuaas login --token-file FILE",
			"%s knows no identity provider to sign in with", to.url)
	}
	b, err := newBrowserSignIn(f.port)
	if err != nil {
		return "", err
	}
	defer b.close()
	started, err := fetch[apiclient.IdentityStartedSignInView](s.api.StartOidcSignInWithResponse(s.ctx,
		apiclient.IdentityStartSignInBody{RedirectUri: b.redirectURI(), CodeChallenge: b.challenge()}))
	if err != nil {
		return "", err
	}
	a.note("Open this URL in a browser on this machine to sign in:\n\n%s\n", started.AuthorizationUrl)
	code, err := b.await(s.ctx, started.State)
	if err != nil {
		return "", err
	}
	session, err := fetch[apiclient.IdentitySessionView](s.api.FinishOidcSignInWithResponse(s.ctx,
		apiclient.IdentityFinishSignInBody{Code: code, State: started.State, CodeVerifier: b.verifier, ExpiresIn: lasting}))
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
		return usage(s.cmd, "--revoke and --local exclude each other")
	}
	if s.context == "" || !s.tokenIsOfContext {
		return fail(exitUsage, "no_session", "", "there is no session to end: the context has no token, or another one is in use")
	}
	known, err := a.loadContexts()
	if err != nil {
		return err
	}
	revoked := revoke || known.Contexts[s.context].Session && !local
	if revoked {
		_, err := apiclient.Read(s.api.SignOutWithResponse(s.ctx, &apiclient.SignOutParams{}))
		var p *apiclient.Problem
		if err != nil && (!errors.As(err, &p) || exitOfStatus(p.Status) != exitUnauthenticated) { // it is gone already
			return err
		}
	}
	err = a.changeContexts(func(c *contexts) error {
		one, err := c.named(s.context)
		if err != nil {
			return err
		}
		one.Token, one.Session = "", false
		c.Contexts[s.context] = one
		return nil
	})
	if err != nil {
		return err
	}
	if revoked {
		a.note("signed out of context %s; its token no longer works", s.context)
	} else {
		a.note("the token of context %s is forgotten; it goes on working until it expires or is revoked", s.context)
	}
	return nil
}
