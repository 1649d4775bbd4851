package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationReleaseCommand() *cobra.Command {
	return a.verb(verb{
		use: "release ALLOCATION", short: "Give an allocation back", args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "list-allocations", "release-allocation-flat"},
		long: "Everything of yours on the node is destroyed, and nothing is charged from now on. If the hardware was\n" +
			"bad, say so with --complaint and --complaint-text: an operator looks at the node before others get it.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			reason := cmd.Flags().String("reason", "", "why you give it back")
			category := cmd.Flags().String("complaint", "", "what is wrong: gpu, network, disk, memory, performance or other")
			frame.Complete(cmd, "complaint", apiclient.Words("AllocationComplaintBody.category")...)
			about := cmd.Flags().String("complaint-text", "", "what you saw")
			w := watch.AddWaitFlags(cmd)
			yes := frame.AddYesFlag(cmd)
			return func(s *session, args []string) error {
				body := apiclient.AllocationLeaveBody{Reason: frame.Given(s.Session, "reason", reason)}
				if *category != "" || *about != "" {
					if *category == "" || *about == "" {
						return failure.Misuse(s.Cmd, "--complaint and --complaint-text go together")
					}
					body.Complaint = &apiclient.AllocationComplaintBody{
						Category: apiclient.AllocationComplaintBodyCategory(*category), Text: *about,
					}
				}
				return a.releaseAllocation(s, *c, args[0], body, *w, *yes)
			}
		},
	})
}

func (a *app) releaseAllocation(
	s *session, c scope, name string, body apiclient.AllocationLeaveBody, w watch.Waiting, yes bool,
) error {
	o, err := s.allocation(c, name)
	if err != nil {
		return err
	}
	if err := s.Confirm(yes, "Everything of yours on %s is destroyed when %s is released.", o.Value.Hostname, name); err != nil {
		return err
	}
	id := o.Value.AllocationId
	raw, err := apiclient.Read(s.API.ReleaseAllocationFlatWithResponse(s.Ctx, id, &apiclient.ReleaseAllocationFlatParams{},
		body))
	if err != nil {
		return err
	}
	if !w.Wait && !w.Watch {
		return frame.PrintOne(s.App, a.allocationColumns(), raw)
	}
	last, err := watch.Await(s.Session, w, watch.Awaited[apiclient.AllocationView]{
		What: "the allocation", SeeIt: "gpuaas allocation show " + id.String(),
		Read: func() (json.RawMessage, error) { return apiclient.Read(s.API.GetAllocationFlatWithResponse(s.Ctx, id)) },
		Ended: func(now apiclient.AllocationView) bool {
			return ended(now) || now.Status == apiclient.AllocationViewStatusReleaseFailed
		},
		Report: func(output.Object[apiclient.AllocationView]) error { return nil },
	})
	if err != nil {
		return err
	}
	if err := frame.PrintOne(s.App, a.allocationColumns(), last.Raw); err != nil {
		return err
	}
	if last.Value.Status == apiclient.AllocationViewStatusReleaseFailed {
		return failure.New(failure.Unsuccessful, "allocation_release_failed",
			"nothing is charged for it; repeat the release to have the node cleaned again", "its node could not be cleaned: %s",
			text(last.Value.ReleaseFailedReason))
	}
	return nil
}

// changeAllocation changes the terms of one, and shows it.
func (a *app) changeAllocation(s *session, c scope, name string, body apiclient.AllocationChangeBody) error {
	o, err := s.allocation(c, name)
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.allocationColumns())(s.API.UpdateAllocationWithResponse(s.Ctx, o.Value.ProjectId,
		o.Value.AllocationId, &apiclient.UpdateAllocationParams{}, body))
}

func (a *app) allocationExtendCommand() *cobra.Command {
	return a.verb(verb{
		use: "extend ALLOCATION", short: "Set when an allocation ends by itself", args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "update-allocation"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			life := cmd.Flags().String("expires-in", "", "from now on, such as 12h or 30d")
			never := cmd.Flags().Bool("never", false, "not by itself")
			return func(s *session, args []string) error {
				if (*life == "") != *never {
					return failure.Misuse(s.Cmd, "give either --expires-in or --never")
				}
				seconds := int64(0)
				if *life != "" {
					d, err := moment.ParseLife(*life)
					if err != nil {
						return s.ofFlag("expires-in", err)
					}
					seconds = int64(d.Seconds())
				}
				return a.changeAllocation(s, *c, args[0], apiclient.AllocationChangeBody{ExpiresInSeconds: &seconds})
			}
		},
	})
}

func (a *app) allocationProtectCommand() *cobra.Command {
	return a.verb(verb{
		use: "protect ALLOCATION", short: "Refuse the release of an allocation, or allow it again",
		args: frame.Exactly("ALLOCATION"), operations: []string{"get-allocation-flat", "update-allocation"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			off := cmd.Flags().Bool("off", false, "allow its release again")
			return func(s *session, args []string) error {
				return a.changeAllocation(s, *c, args[0], apiclient.AllocationChangeBody{Protected: frame.Ptr(!*off)})
			}
		},
	})
}

func (a *app) allocationForceReleaseCommand() *cobra.Command {
	return a.verb(verb{
		use: "force-release ALLOCATION", short: "End an allocation without its tenant's consent, for administrators",
		args: frame.Exactly("ALLOCATION"), operations: []string{"force-release-allocation"},
		long: "Also has a node cleaned again whose cleaning stopped.",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			yes := frame.AddYesFlag(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("an allocation", args[0])
				if err != nil {
					return err
				}
				if err := s.Confirm(*yes, "The work of the tenant on its node is destroyed."); err != nil {
					return err
				}
				return frame.Show(s.Session, a.allocationColumns())(s.API.ForceReleaseAllocationWithResponse(s.Ctx, id,
					&apiclient.ForceReleaseAllocationParams{}, apiclient.AllocationForceBody{Reason: *reason}))
			}
		},
	})
}

func (a *app) allocationForceCleanupCommand() *cobra.Command {
	return a.verb(verb{
		use: "force-cleanup ALLOCATION", short: "Give up an allocation that is stuck before it was active",
		args: frame.Exactly("ALLOCATION"), operations: []string{"force-cleanup-allocation"},
		long: "For administrators. --verified-absent says that somebody looked, and that nothing of it runs on its node.",
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			absent := cmd.Flags().Bool("verified-absent", false, "you have checked that nothing of it runs on its node")
			return func(s *session, args []string) error {
				if err := s.Require("reason", "verified-absent"); err != nil {
					return err
				}
				id, err := s.IDOf("an allocation", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.allocationColumns())(s.API.ForceCleanupAllocationWithResponse(s.Ctx, id,
					&apiclient.ForceCleanupAllocationParams{},
					apiclient.AllocationCleanupBody{Reason: *reason, RuntimeVerifiedAbsent: *absent}))
			}
		},
	})
}
