package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) allocationColumns() []table.Column[apiclient.AllocationView] {
	type allocation = apiclient.AllocationView
	return []table.Column[allocation]{
		{Title: "ID", Text: func(v allocation) string { return v.AllocationId.String() }},
		{Title: "NAME", Long: true, Text: func(v allocation) string { return text(v.Name) }},
		{Title: "STATUS", Text: func(v allocation) string { return string(v.Status) }},
		{Title: "WAITING FOR", Long: true, Text: func(v allocation) string { return text(v.WaitingFor) }},
		{Title: "SKU", Wide: true, Text: func(v allocation) string { return v.Sku }},
		{Title: "NODE", Text: func(v allocation) string { return v.Hostname }},
		ago(a, "SINCE", func(v allocation) time.Time { return v.StatusChangedAt }),
		orElse("never", ago(a, "ENDS", func(v allocation) *time.Time { return v.ExpiresAt })),
		{Title: "REPAIRING", Text: func(v allocation) string { return a.repairing(v) }, Detail: true},
		{Title: "MAINTENANCE", Text: func(v allocation) string { return a.announcement(v) }, Detail: true},
		{Title: "REGION", Text: func(v allocation) string { return v.Region }, Detail: true},
		{Title: "GPUS", Text: func(v allocation) string { return strconv.Itoa(int(v.Gpus)) }, Detail: true},
		{Title: "GPU-HOUR", Text: func(v allocation) string { return price(v.PriceMinor, v.PriceCurrency) }, Detail: true},
		{Title: "USER", Text: func(v allocation) string { return v.Username }, Detail: true},
		{Title: "ACCESS", Text: func(v allocation) string { return string(v.Access) }, Detail: true},
		{Title: "HOST", Text: func(v allocation) string { return text(v.Host) }, Detail: true},
		{Title: "HOST KEYS", Text: func(v allocation) string { return fingerprints(v.HostKeys) }, Detail: true},
		{Title: "HOST KEYS CHANGED", Text: func(v allocation) string {
			if v.HostKeysChangedAt == nil {
				return ""
			}
			return a.When(*v.HostKeysChangedAt) + ", not by a new installation; it shows " + fingerprints(v.HostKeysShown)
		}, Detail: true},
		{Title: "KEYS", Text: func(v allocation) string {
			names := make([]string, len(v.SshKeys))
			for i, k := range v.SshKeys {
				names[i] = k.Name
			}
			return strings.Join(names, ", ")
		}, Detail: true},
		{Title: "KEYS BEING CHANGED", Text: func(v allocation) string {
			if v.KeysChangingSince == nil {
				return ""
			}
			return "since " + a.When(*v.KeysChangingSince) + ", waits for " + text(v.KeysWaitingFor)
		}, Detail: true},
		{Title: "PROTECTED", Text: func(v allocation) string { return strconv.FormatBool(v.Protected) }, Detail: true},
		{Title: "REQUESTED BY", Text: func(v allocation) string {
			if v.RequestedByName != nil {
				return *v.RequestedByName
			}
			return v.RequestedBy
		}, Detail: true},
		{Title: "PROJECT ID", Text: func(v allocation) string { return v.ProjectId.String() }, Detail: true},
		{Title: "FAILURE", Text: func(v allocation) string { return text(v.FailureReason) }, Detail: true},
		{Title: "CLEANING STOPPED", Text: func(v allocation) string { return text(v.ReleaseFailedReason) }, Detail: true},
		{Title: "REMEDY", Text: func(v allocation) string { return text(v.Remedy) }, Detail: true},
	}
}

func price(minor int64, currency string) string {
	return fmt.Sprintf("%d.%02d %s", minor/100, minor%100, currency)
}

func (a *app) allocationCommand() *cobra.Command {
	return a.noun(noun{
		use: "allocation", short: "Nodes that projects rent", group: groupRent,
		long: "An allocation is named by its id, or by its name with --project.",
	},
		a.allocationCreateCommand(), a.allocationExplainCommand(), a.allocationChoicesCommand(),
		a.allocationListCommand(), a.allocationShowCommand(),
		a.allocationTimelineCommand(), a.allocationReceipts(), a.allocationReceipt(), a.allocationReleaseCommand(),
		a.allocationExtendCommand(), a.allocationKeysCommand(),
		a.allocationProtectCommand(), a.allocationForceReleaseCommand(), a.allocationForceCleanupCommand(),
		a.allocationRequestCommand(), a.allocationRepairCommand())
}

// allocation reads one that is named by its id, or by its name in a project.
func (s *session) allocation(c scope, name string) (output.Object[apiclient.AllocationView], error) {
	var none output.Object[apiclient.AllocationView]
	id, ok := frame.ParseID(name)
	if !ok {
		if c.project == "" {
			return none, failure.Misuse(s.Cmd, "%q is the allocation of which project? Use its id, or --project", name)
		}
		project, err := s.projectID(c)
		if err != nil {
			return none, err
		}
		if id, err = s.allocationNamed(c, project, name); err != nil {
			return none, err
		}
	}
	raw, err := apiclient.Read(s.API.GetAllocationFlatWithResponse(s.Ctx, id))
	if err != nil {
		return none, err
	}
	return output.Decode[apiclient.AllocationView](raw)
}

// allocationNamed finds the one of a name that has not ended, or the newest of those
// that have. It refuses to choose among several that are live: the wrong one could
// be released.
func (s *session) allocationNamed(c scope, project types.UUID, name string) (types.UUID, error) {
	raws, _, err := listing.Collect(s.allocationsOf(project, nil), 0)
	if err != nil {
		return types.UUID{}, err
	}
	all, err := output.DecodeAll[apiclient.AllocationView](raws)
	if err != nil {
		return types.UUID{}, err
	}
	var found, live []types.UUID
	for _, o := range all {
		if text(o.Value.Name) != name {
			continue
		}
		if !ended(o.Value) {
			live = append(live, o.Value.AllocationId)
		}
		found = append(found, o.Value.AllocationId)
	}
	switch {
	case len(live) > 1:
		return types.UUID{}, failure.Misuse(s.Cmd, "%d allocations of the project are called %q: %s. Use the id", len(live), name,
			strings.Trim(fmt.Sprint(live), "[]"))
	case len(live) == 1:
		return live[0], nil
	case len(found) > 0:
		return found[0], nil
	}
	return types.UUID{}, failure.Missing("list them: gpuaas allocation list"+c.words(),
		"there is no allocation %q in the project", name)
}

func ended(v apiclient.AllocationView) bool {
	return v.Status == apiclient.AllocationViewStatusReleased || v.Status == apiclient.AllocationViewStatusFailed
}

func (s *session) allocationsOf(project types.UUID, statuses *[]string) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListAllocationsWithResponse(s.Ctx, project, &apiclient.ListAllocationsParams{
			Cursor: p.Cursor, PageSize: p.Size, Status: asStatuses[apiclient.ListAllocationsParamsStatus](statuses),
		})
	}
}

func asStatuses[T ~string](given *[]string) *[]T {
	if given == nil {
		return nil
	}
	out := make([]T, len(*given))
	for i, status := range *given {
		out[i] = T(status)
	}
	return &out
}

func (a *app) allocationListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List allocations, newest first", aliases: []string{"ls"},
		operations: []string{"list-allocations", "list-all-allocations"},
		long:       "With --project those of the project. Without it those of all tenants, for operators.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			statuses := cmd.Flags().StringSlice("status", nil, "only those with this status; may be repeated")
			frame.Complete(cmd, "status", apiclient.Words("list-allocations.status")...)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				given := frame.Given(s.Session, "status", statuses)
				fetch := func(p listing.Page) (apiclient.Answer, error) {
					return s.API.ListAllAllocationsWithResponse(s.Ctx, &apiclient.ListAllAllocationsParams{
						Cursor: p.Cursor, PageSize: p.Size, Status: asStatuses[apiclient.ListAllAllocationsParamsStatus](given),
					})
				}
				if c.project != "" {
					project, err := s.projectID(*c)
					if err != nil {
						return err
					}
					fetch = s.allocationsOf(project, given)
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.AllocationView]{
					Columns: a.allocationColumns(), Fetch: fetch,
				})
			}
		},
	})
}

func (a *app) allocationShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show ALLOCATION", short: "Show an allocation", aliases: []string{"get"}, args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "list-allocations"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, args []string) error {
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				return frame.PrintOne(s.App, a.allocationColumns(), o.Raw)
			}
		},
	})
}

func (a *app) allocationTimelineCommand() *cobra.Command {
	type moment = apiclient.AllocationMomentView
	columns := []table.Column[moment]{
		{Title: "TIME", Text: func(m moment) string { return a.When(m.At) }},
		{Title: "STATUS", Text: func(m moment) string { return string(m.Status) }},
		{Title: "WHAT", Long: true, Text: func(m moment) string { return m.Message }},
		{Title: "WHO", Text: func(m moment) string { return m.Actor }},
	}
	return a.verb(verb{
		use: "timeline ALLOCATION", short: "Show what happened to an allocation", args: frame.Exactly("ALLOCATION"),
		operations: []string{"get-allocation-flat", "list-allocation-events"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, args []string) error {
				o, err := s.allocation(*c, args[0])
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[moment]{
					Columns: columns,
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListAllocationEventsWithResponse(s.Ctx, o.Value.ProjectId, o.Value.AllocationId,
							&apiclient.ListAllocationEventsParams{Cursor: p.Cursor, PageSize: p.Size})
					},
				})
			}
		},
	})
}
