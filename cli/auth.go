package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) authCommand() *cobra.Command {
	type methods = apiclient.IdentityMethodsView
	return a.noun(noun{use: "auth", short: "Ways to sign in", group: groupSession},
		a.verb(verb{
			use: "methods", short: "Show the ways to sign in to the control plane", operations: []string{"list-auth-methods"},
			run: func(s *session, _ []string) error {
				return frame.Show(s.Session, []table.Column[methods]{
					{Title: "METHODS", Text: func(m methods) string {
						var names []string
						for _, one := range m.Methods {
							names = append(names, string(one))
						}
						return strings.Join(names, ", ")
					}},
					{Title: "ISSUER", Text: func(m methods) string { return text(m.Issuer) }},
				})(s.API.ListAuthMethodsWithResponse(s.Ctx))
			},
		}))
}

func (a *app) whoamiCommand() *cobra.Command {
	type me = apiclient.IdentityMeView
	return a.verb(verb{
		use: "whoami", short: "Show who you are and what you may do", group: groupSession, operations: []string{"get-me"},
		run: func(s *session, _ []string) error {
			resp, err := s.API.GetMeWithResponse(s.Ctx)
			if err := frame.Show(s.Session, []table.Column[me]{
				{Title: "NAME", Text: func(m me) string { return m.Name }},
				{Title: "KIND", Text: func(m me) string { return string(m.Kind) }},
				{Title: "ID", Text: func(m me) string { return m.Id.String() }},
				{Title: "PLATFORM ROLE", Text: func(m me) string { return string(m.PlatformRole) }},
				{Title: "TENANT ROLES", Text: func(m me) string {
					var roles []string
					for _, t := range m.Tenants {
						roles = append(roles, string(t.Role)+" of "+t.OrgId.String())
					}
					return strings.Join(roles, ", ")
				}},
				{Title: "PROJECT ROLES", Text: func(m me) string {
					var roles []string
					for _, p := range m.Projects {
						roles = append(roles, string(p.Role)+" of "+p.ProjectId.String())
					}
					return strings.Join(roles, ", ")
				}},
				{Title: "SCOPES", Text: func(m me) string { return cmp.Or(strings.Join(m.Scopes, " "), "all") }},
				{Title: "TOKEN ID", Text: func(m me) string { return m.TokenId.String() }},
				{Title: "TOKEN EXPIRES", Text: func(m me) string { return a.When(m.ExpiresAt) }},
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
	me, err := output.Decode[apiclient.IdentityMeView](raw)
	if err != nil {
		return err
	}
	left := me.Value.ExpiresAt.Sub(s.Now())
	if me.Value.PlatformRole == apiclient.IdentityMeViewPlatformRolePlatformAdmin && left < announceEnd &&
		left > sessionLife {
		s.Note("this token of an administrator ends %s; make a new one on the machine of the control plane: gpuaas admin "+
			"recover", s.When(me.Value.ExpiresAt))
	}
	return nil
}

// sessionLife is about how long a sign-in lasts: that one of those ends is no news.
const sessionLife = 24 * time.Hour
