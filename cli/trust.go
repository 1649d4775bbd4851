package cli

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) bundleColumns() []table.Column[apiclient.SignerBundleView] {
	type bundle = apiclient.SignerBundleView
	return []table.Column[bundle]{
		{Title: "VERSION", Text: func(v bundle) string { return strconv.FormatInt(v.Version, 10) }},
		ago(a, "SINCE", func(v bundle) time.Time { return v.CreatedAt }),
		{Title: "AUTHORITIES", Text: a.authorities},
		{Title: "TAKEN OVER BY", Text: func(v bundle) string {
			return strconv.FormatInt(v.Nodes-v.NodesBehind, 10) + " of " + strconv.FormatInt(v.Nodes, 10) + " nodes"
		}},
		{Title: "NOT BY", Text: func(v bundle) string {
			names := make([]string, len(v.Behind))
			for i, n := range v.Behind {
				names[i] = n.String()
			}
			return strings.Join(names, " ")
		}},
		{Title: "FINGERPRINT", Text: func(v bundle) string { return v.Sha256Fingerprint }},
	}
}

func (a *app) authorities(v apiclient.SignerBundleView) string {
	parts := make([]string, len(v.Authorities))
	for i, c := range v.Authorities {
		parts[i] = c.Sha256Fingerprint + " " + c.Subject + " until " + a.When(c.NotAfter)
	}
	return strings.Join(parts, "; ")
}

func (a *app) trustCommand() *cobra.Command {
	return a.noun(noun{
		use: "trust", short: "Authorities that nodes verify the control plane with", group: groupMachines,
		long: "To replace the CA of the node listener, add the next one, wait until all nodes have taken the bundle over,\n" +
			"give the listener a certificate of it, and remove the former one.",
	},
		a.verb(verb{
			use: "show", short: "Show the bundle, and how many nodes have taken it over",
			operations: []string{"get-trust-bundle"},
			run: func(s *session, _ []string) error {
				return frame.Show(s.Session, a.bundleColumns())(s.API.GetTrustBundleWithResponse(s.Ctx))
			},
		}),
		a.verb(verb{
			use: "add FILE", short: "Have nodes accept the listener by the CA in a PEM file too", args: frame.Exactly("FILE"),
			operations: []string{"add-trust-authority"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					text, err := os.ReadFile(args[0])
					if err != nil {
						return failure.New(failure.Usage, "file_unreadable", "name a file that you can read",
							"read certificate of the CA: %v", err)
					}
					return frame.Show(s.Session, a.bundleColumns())(
						s.API.AddTrustAuthorityWithResponse(s.Ctx, &apiclient.AddTrustAuthorityParams{},
							apiclient.SignerAuthorityBody{Pem: string(text), Reason: *reason}))
				}
			},
		}),
		a.verb(verb{
			use: "remove AUTHORITY", short: "Stop nodes from accepting a listener certificate of a CA",
			args:       frame.Exactly("AUTHORITY"),
			operations: []string{"remove-trust-authority"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				force := cmd.Flags().Bool("force", false,
					"do not wait for nodes; those that know no other authority need a recovery token")
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					return frame.Show(s.Session, a.bundleColumns())(
						s.API.RemoveTrustAuthorityWithResponse(s.Ctx, args[0], &apiclient.RemoveTrustAuthorityParams{},
							apiclient.SignerRemoveBody{Reason: *reason, Force: frame.Given(s.Session, "force", force)}))
				}
			},
		}),
	)
}
