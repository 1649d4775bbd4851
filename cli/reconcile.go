package cli

import (
	"encoding/json"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

// runWaiting is how long a command waits for the run that it asked for.
type runWaiting struct {
	not     bool
	timeout time.Duration
}

func addRunWaitFlags(cmd *cobra.Command) *runWaiting {
	w := &runWaiting{}
	cmd.Flags().BoolVar(&w.not, "no-wait", false, "do not wait until it has ended")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 10*time.Minute,
		"how long to wait; exit code 7 when that was not enough")
	return w
}

// awaitRun asks for a run and waits until it has ended.
func (s *session) awaitRun(w *runWaiting, ask func() (json.RawMessage, error)) (
	output.Object[apiclient.ReconciliationRunView], error,
) {
	type view = apiclient.ReconciliationRunView
	raw, err := ask()
	if err != nil {
		return output.Object[view]{}, err
	}
	run, err := output.Decode[view](raw)
	if err != nil || run.Value.EndedAt != nil {
		return run, err
	}
	id := run.Value.RunId
	seeIt := "gpuaas reconcile show " + id.String()
	if w.not {
		s.Note("follow it with: %s", seeIt)
		return run, nil
	}
	return watch.Await(s.Session, watch.Waiting{Wait: true, Interval: time.Second, Timeout: w.timeout},
		watch.Awaited[view]{
			What: "the run", SeeIt: seeIt,
			Read: func() (json.RawMessage, error) {
				return apiclient.Read(s.API.GetReconciliationRunWithResponse(s.Ctx, id))
			},
			Ended: func(v view) bool { return v.EndedAt != nil },
		})
}

// reconcileCommand looks at a site by itself.
func (a *app) reconcileCommand() *cobra.Command {
	cmd := a.verb(verb{
		use: "reconcile", short: "Compare a site of MAAS with the inventory, now", group: groupMachines,
		operations: []string{"run-reconciliation", "get-reconciliation-run"},
		long: "Sites are compared by themselves every few minutes; this does it now, and waits for the outcome: what was\n" +
			"asked of MAAS, what was found, and what was done. With --dry-run nothing is done, only said. Exit code 0 when\n" +
			"MAAS answered all that was asked, otherwise 8. What was found: gpuaas drift",
		example: "  gpuaas reconcile --site dc1 --dry-run\n  gpuaas reconcile status",
		flags: func(cmd *cobra.Command) action {
			site := cmd.Flags().String("site", "", "the site, by name or id")
			dry := cmd.Flags().Bool("dry-run", false, "say what would be done, and do nothing")
			full := cmd.Flags().Bool("full", false,
				"read all machines of the site, not only what changed; about a minute per 1,000")
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			w := addRunWaitFlags(cmd)
			return func(s *session, _ []string) error {
				if err := s.Require("site"); err != nil {
					return err
				}
				id, err := s.siteID(*site)
				if err != nil {
					return err
				}
				return s.reconcile(w, apiclient.ReconciliationNewRunBody{
					SiteId: id, DryRun: frame.Given(s.Session, "dry-run", dry), Full: frame.Given(s.Session, "full", full),
					Reason: frame.Given(s.Session, "reason", reason),
				})
			}
		},
	})
	cmd.AddCommand(
		a.reconcileStatusCommand(), a.reconcileRunsCommand(), a.reconcileShowCommand(),
		a.breakerCommand("confirm", "Confirm the circuit breaker: quarantine the nodes that it holds back",
			"Exactly the nodes that gpuaas reconcile status --site SITE lists are quarantined. What runs on them is not "+
				"touched.\n"+
				"On a terminal you are shown the nodes and asked; if the list has changed by then, nothing is done."),
		a.breakerCommand("dismiss", "Dismiss the circuit breaker: leave the nodes that it holds back as they are",
			"Use this if MAAS is wrong or the problem is solved. Findings that still apply open again."),
	)
	return cmd
}

func (s *session) reconcile(w *runWaiting, body apiclient.ReconciliationNewRunBody) error {
	run, err := s.awaitRun(w, func() (json.RawMessage, error) {
		return apiclient.Read(s.API.RunReconciliationWithResponse(s.Ctx, &apiclient.RunReconciliationParams{}, body))
	})
	if err != nil {
		return err
	}
	if err := s.showRun(run); err != nil {
		return err
	}
	return unsuccessful(run.Value)
}

func (a *app) reconcileRunsCommand() *cobra.Command {
	return a.verb(verb{
		use: "runs", short: "List runs, newest first", aliases: []string{"list", "ls"},
		operations: []string{"list-reconciliation-runs"},
		flags: func(cmd *cobra.Command) action {
			site := cmd.Flags().String("site", "", "only those of this site, by name or id")
			trigger := cmd.Flags().String("trigger", "",
				"only those that happened for this reason: schedule, operator, suspicion or resolution")
			frame.Complete(cmd, "trigger", apiclient.Words("list-reconciliation-runs.trigger")...)
			l := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				params := apiclient.ListReconciliationRunsParams{
					Trigger: frame.GivenAs[apiclient.ListReconciliationRunsParamsTrigger](s.Session, "trigger", trigger),
				}
				var err error
				if params.SiteId, err = optionalID(*site, s.siteID); err != nil {
					return err
				}
				return listing.Print(s.Session, l, listing.Listing[apiclient.ReconciliationRunView]{
					Columns: a.runColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						params.Cursor, params.PageSize = p.Cursor, p.Size
						return s.API.ListReconciliationRunsWithResponse(s.Ctx, &params)
					},
				})
			}
		},
	})
}

func (a *app) reconcileShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show RUN", short: "Show a run: what was asked, found and done", aliases: []string{"get"},
		args: frame.Exactly("RUN"), operations: []string{"get-reconciliation-run"},
		run: func(s *session, args []string) error {
			id, err := s.IDOf("a run", args[0])
			if err != nil {
				return err
			}
			raw, err := apiclient.Read(s.API.GetReconciliationRunWithResponse(s.Ctx, id))
			if err != nil {
				return err
			}
			run, err := output.Decode[apiclient.ReconciliationRunView](raw)
			if err != nil {
				return err
			}
			if err := s.showRun(run); err != nil {
				return err
			}
			if e := run.Value.Error; e != nil {
				s.Note("%s%s", e.Message, prefixed("; ", text(e.Remedy)))
			}
			return nil
		},
	})
}

// breakerCommand decides about nodes that were too many.
func (a *app) breakerCommand(decision, short, long string) *cobra.Command {
	return a.verb(verb{
		use: decision, short: short, long: long,
		operations: []string{"get-reconciliation-status", "decide-reconciliation-breaker"},
		flags: func(cmd *cobra.Command) action {
			site := cmd.Flags().String("site", "", "the site, by name or id")
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			yes := frame.AddYesFlag(cmd)
			return func(s *session, _ []string) error {
				if err := s.Require("site", "reason"); err != nil {
					return err
				}
				id, err := s.siteID(*site)
				if err != nil {
					return err
				}
				seen, err := s.confirmBreaker(*yes, decision, id)
				if err != nil {
					return err
				}
				err = frame.Show(s.Session, a.siteStateColumns())(
					s.API.DecideReconciliationBreakerWithResponse(s.Ctx, id, &apiclient.DecideReconciliationBreakerParams{},
						apiclient.ReconciliationBreakerBody{
							Decision: apiclient.ReconciliationBreakerBodyDecision(decision),
							NodeIds:  &seen, Reason: *reason,
						}))
				if err == nil && decision == "confirm" {
					s.Note("a run that was started quarantines them: gpuaas reconcile runs --site %s", *site)
				}
				return err
			}
		},
	})
}

// confirmBreaker asks whether the nodes are meant that the breaker holds back now, and says
// which they are: the decision is about these.
func (s *session) confirmBreaker(yes bool, decision string, site types.UUID) ([]types.UUID, error) {
	status, err := frame.Fetch[apiclient.ReconciliationOverview](s.API.GetReconciliationStatusWithResponse(s.Ctx))
	if err != nil {
		return nil, err
	}
	for _, o := range status.Sites {
		if o.SiteId != site || o.Breaker == nil {
			continue
		}
		names, ids := make([]string, len(o.Breaker.Nodes)), make([]types.UUID, len(o.Breaker.Nodes))
		for i, n := range o.Breaker.Nodes {
			names[i], ids[i] = n.Hostname, n.NodeId
		}
		does := "This quarantines"
		if decision == "dismiss" {
			does = "This leaves in service"
		}
		return ids, s.Ask(yes, "%s %s of %s: %s", does, plural(len(names), "node"), o.Name, frame.SomeOf(names))
	}
	return []types.UUID{}, nil // the control plane says that there is nothing to decide
}
