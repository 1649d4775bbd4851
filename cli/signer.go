package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) signerColumns() []table.Column[apiclient.SignerView] {
	type signer = apiclient.SignerView
	return []table.Column[signer]{
		{Title: "ID", Text: func(v signer) string { return v.Id }},
		{Title: "STATUS", Text: func(v signer) string { return string(v.Status) }},
		ago(a, "PUBLISHED", func(v signer) time.Time { return v.PublishedAt }),
		ago(a, "SIGNS SINCE", func(v signer) *time.Time { return v.EffectiveAt }),
		at(a, "RETIRES", func(v signer) *time.Time { return v.RetiresAt }),
		{Title: "WAITING FOR", Long: true, Text: func(v signer) string { return a.waitingFor(v.WaitingFor) }},
		{
			Title: "SINCE VERIFIER SET", Text: func(v signer) string { return strconv.FormatInt(v.VerifierVersion, 10) },
			Detail: true,
		},
		{Title: "ENDED", Text: func(v signer) string { return a.Whenever(v.FinishedAt) }, Detail: true},
	}
}

func (a *app) waitingFor(w *apiclient.SignerWaitingView) string {
	if w == nil {
		return ""
	}
	var parts []string
	if w.NodesBehind > 0 {
		names := make([]string, len(w.Nodes))
		for i, n := range w.Nodes {
			names[i] = n.String()
		}
		parts = append(parts, strconv.FormatInt(w.NodesBehind, 10)+" nodes that do not accept it: "+strings.Join(names, " "))
	}
	if w.GraceOf != nil {
		parts = append(parts, "the end of the grace of "+*w.GraceOf+", "+a.Whenever(w.GraceEndsAt))
	}
	return strings.Join(parts, "; ")
}

func (a *app) signerCommand() *cobra.Command {
	return a.noun(noun{
		use: "signer", short: "Keys that tasks of nodes are signed with", group: groupMachines,
		long: "A new key is staged first, made known to all nodes, and signs when all of them accept it. The one before it\n" +
			"stays acceptable for a grace period, in which one can go back to it.",
	},
		a.verb(verb{
			use: "list", short: "List the signers, newest first, with what they wait for", aliases: []string{"ls"},
			operations: []string{"list-signers"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 20)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SignerView]{
						Columns: a.signerColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListSignersWithResponse(s.Ctx, &apiclient.ListSignersParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "rotate", short: "Replace the key that tasks are signed with", operations: []string{"rotate-signer"},
			flags: func(cmd *cobra.Command) action {
				b := addForceFlags(cmd)
				return func(s *session, _ []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					return frame.Show(s.Session, a.signerColumns())(
						s.API.RotateSignerWithResponse(s.Ctx, &apiclient.RotateSignerParams{}, b.body(s)))
				}
			},
		}),
		a.verb(verb{
			use: "rollback", short: "Let the signer in grace sign again", operations: []string{"rollback-signer"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, _ []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					return frame.Show(s.Session, a.signerColumns())(
						s.API.RollbackSignerWithResponse(s.Ctx, &apiclient.RollbackSignerParams{},
							apiclient.SignerReasonBody{Reason: *reason}))
				}
			},
		}),
		a.verb(verb{
			use: "revoke SIGNER", short: "Take all trust from a signer at once", args: frame.Exactly("SIGNER"),
			operations: []string{"revoke-signer"},
			flags: func(cmd *cobra.Command) action {
				b := addForceFlags(cmd)
				return func(s *session, args []string) error {
					if err := s.Require("reason"); err != nil {
						return err
					}
					return frame.Show(s.Session, a.signerColumns())(
						s.API.RevokeSignerWithResponse(s.Ctx, args[0], &apiclient.RevokeSignerParams{}, b.body(s)))
				}
			},
		}),
	)
}

type forceFlags struct {
	reason string
	force  bool
}

func addForceFlags(cmd *cobra.Command) *forceFlags {
	v := &forceFlags{}
	cmd.Flags().StringVar(&v.reason, "reason", "", "the reason, kept in the audit log")
	cmd.Flags().BoolVar(&v.force, "force", false,
		"do not wait for nodes; those that know no signer but a revoked one need a recovery token")
	return v
}

func (v *forceFlags) body(s *session) apiclient.SignerForceBody {
	return apiclient.SignerForceBody{Reason: v.reason, Force: frame.Given(s.Session, "force", &v.force)}
}
