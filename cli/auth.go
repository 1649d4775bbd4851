package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) authCommand() *cobra.Command {
	type methods = apiclient.IdentityMethodsView
	return a.noun(noun{use: "auth", short: "How one can sign in", group: groupSession},
		a.verb(verb{
			use: "methods", short: "Show the ways to sign in to the control plane", operations: []string{"list-auth-methods"},
			run: func(s *session, _ []string) error {
				return show(s, []column[methods]{
					{title: "METHODS", text: func(m methods) string {
						var names []string
						for _, one := range m.Methods {
							names = append(names, string(one))
						}
						return strings.Join(names, ", ")
					}},
					{title: "ISSUER", text: func(m methods) string { return text(m.Issuer) }},
				})(s.api.ListAuthMethodsWithResponse(s.ctx))
			},
		}))
}

func (a *app) whoamiCommand() *cobra.Command {
	type me = apiclient.IdentityMeView
	return a.verb(verb{
		use: "whoami", short: "Show who you are and what you may do", group: groupSession, operations: []string{"get-me"},
		run: func(s *session, _ []string) error {
			resp, err := s.api.GetMeWithResponse(s.ctx)
			if err := show(s, []column[me]{
				{title: "NAME", text: func(m me) string { return m.Name }},
				{title: "KIND", text: func(m me) string { return string(m.Kind) }},
				{title: "ID", text: func(m me) string { return m.Id.String() }},
				{title: "PLATFORM ROLE", text: func(m me) string { return string(m.PlatformRole) }},
				{title: "TENANT ROLES", text: func(m me) string {
					var roles []string
					for _, t := range m.Tenants {
						roles = append(roles, string(t.Role)+" of "+t.OrgId.String())
					}
					return strings.Join(roles, ", ")
				}},
				{title: "PROJECT ROLES", text: func(m me) string {
					var roles []string
					for _, p := range m.Projects {
						roles = append(roles, string(p.Role)+" of "+p.ProjectId.String())
					}
					return strings.Join(roles, ", ")
				}},
				{title: "SCOPES", text: func(m me) string { return or(strings.Join(m.Scopes, " "), "all") }},
				{title: "TOKEN ID", text: func(m me) string { return m.TokenId.String() }},
				{title: "TOKEN EXPIRES", text: func(m me) string { return a.when(m.ExpiresAt) }},
			})(resp, err); err != nil {
				return err
			}
			return s.noteEnd(resp)
		},
	})
}

// announceEnd is how long before its end the token of an administrator is told of.
const announceEnd = 30 * 24 * time.Hour

// noteEnd warns an administrator whose token ends soon.
func (s *session) noteEnd(resp apiclient.Answer) error {
	raw, err := apiclient.Read(resp, nil)
	if err != nil {
		return err
	}
	me, err := decode[apiclient.IdentityMeView](raw)
	if err != nil {
		return err
	}
	left := me.value.ExpiresAt.Sub(s.now())
	if me.value.PlatformRole == apiclient.IdentityMeViewPlatformRolePlatformAdmin && left < announceEnd && left > sessionLife {
		s.note("this token of an administrator ends %s; make a new one on the machine of the control plane: gpuaas admin recover", s.when(me.value.ExpiresAt))
	}
	return nil
}

// sessionLife is about how long a sign-in lasts: that one of those ends is no news.
const sessionLife = 24 * time.Hour
