package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) signerColumns() []column[apiclient.SignerView] {
	type signer = apiclient.SignerView
	return []column[signer]{
		{title: "ID", text: func(v signer) string { return v.Id }},
		{title: "STATUS", text: func(v signer) string { return string(v.Status) }},
		{title: "PUBLISHED", text: func(v signer) string { return a.when(v.PublishedAt) }},
		{title: "SIGNS SINCE", text: func(v signer) string { return a.whenever(v.EffectiveAt) }},
		{title: "RETIRES", text: func(v signer) string { return a.whenever(v.RetiresAt) }},
		{title: "WAITING FOR", text: func(v signer) string { return a.waitingFor(v.WaitingFor) }},
		{title: "SINCE VERIFIER SET", text: func(v signer) string { return strconv.FormatInt(v.VerifierVersion, 10) }, detail: true},
		{title: "ENDED", text: func(v signer) string { return a.whenever(v.FinishedAt) }, detail: true},
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
		parts = append(parts, "the end of the grace of "+*w.GraceOf+", "+a.whenever(w.GraceEndsAt))
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
			use: "list", short: "List the signers, newest first, with what they wait for", aliases: []string{"ls"}, operations: []string{"list-signers"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 20)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.SignerView]{columns: a.signerColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListSignersWithResponse(s.ctx, &apiclient.ListSignersParams{Cursor: p.cursor, PageSize: p.size})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "rotate", short: "Replace the key that tasks are signed with", operations: []string{"rotate-signer"},
			flags: func(cmd *cobra.Command) action {
				b := addForceFlags(cmd)
				return func(s *session, _ []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					return show(s, a.signerColumns())(s.api.RotateSignerWithResponse(s.ctx, &apiclient.RotateSignerParams{}, b.body(s)))
				}
			},
		}),
		a.verb(verb{
			use: "rollback", short: "Let the signer in grace sign again", operations: []string{"rollback-signer"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why; it goes into the audit log")
				return func(s *session, _ []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					return show(s, a.signerColumns())(s.api.RollbackSignerWithResponse(s.ctx, &apiclient.RollbackSignerParams{}, apiclient.SignerReasonBody{Reason: *reason}))
				}
			},
		}),
		a.verb(verb{
			use: "revoke SIGNER", short: "Take all trust from a signer at once", args: exactly("SIGNER"), operations: []string{"revoke-signer"},
			flags: func(cmd *cobra.Command) action {
				b := addForceFlags(cmd)
				return func(s *session, args []string) error {
					if err := s.require("reason"); err != nil {
						return err
					}
					return show(s, a.signerColumns())(s.api.RevokeSignerWithResponse(s.ctx, args[0], &apiclient.RevokeSignerParams{}, b.body(s)))
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
	cmd.Flags().StringVar(&v.reason, "reason", "", "why; it goes into the audit log")
	cmd.Flags().BoolVar(&v.force, "force", false, "do not wait for nodes; those that know no signer but a revoked one need a recovery token")
	return v
}

func (v *forceFlags) body(s *session) apiclient.SignerForceBody {
	return apiclient.SignerForceBody{Reason: v.reason, Force: given(s, "force", &v.force)}
}
