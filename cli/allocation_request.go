package cli

import (
	"encoding/json"
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
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

func (a *app) requestColumns() []table.Column[apiclient.AllocationRequestView] {
	type request = apiclient.AllocationRequestView
	return []table.Column[request]{
		{Title: "ID", Text: func(v request) string { return v.RequestId.String() }},
		{Title: "NAME", Long: true, Text: func(v request) string { return text(v.Name) }},
		{Title: "STATUS", Text: func(v request) string { return string(v.Status) }},
		{Title: "POSITION", Text: func(v request) string {
			if v.Position == nil {
				return ""
			}
			return strconv.Itoa(int(*v.Position))
		}},
		{Title: "SKU", Text: func(v request) string { return v.Sku }},
		{Title: "NODES", Text: func(v request) string { return strconv.Itoa(int(v.Count)) }},
		wide(ago(a, "SINCE", func(v request) time.Time { return v.CreatedAt })),
		at(a, "WAITS UNTIL", func(v request) time.Time { return v.WaitUntil }),
		{Title: "REQUESTED BY", Wide: true, Text: func(v request) string {
			if v.RequestedByName != nil {
				return *v.RequestedByName
			}
			return v.RequestedBy
		}},
		{Title: "WHY", Text: whyItWaits, Detail: true},
		{Title: "ALLOCATIONS", Text: func(v request) string {
			ids := make([]string, len(v.AllocationIds))
			for i, id := range v.AllocationIds {
				ids[i] = id.String()
			}
			return strings.Join(ids, ", ")
		}, Detail: true},
		{Title: "REGION", Text: func(v request) string { return text(v.Region) }, Detail: true},
		{Title: "PROJECT ID", Text: func(v request) string { return v.ProjectId.String() }, Detail: true},
		{Title: "REMEDY", Text: func(v request) string { return text(v.Remedy) }, Detail: true},
	}
}

// whyItWaits says what takes nodes out, or why a request ended without any.
func whyItWaits(v apiclient.AllocationRequestView) string {
	if v.Capacity == nil {
		return text(v.Reason)
	}
	why := []string{fmt.Sprintf("%d of %d nodes can be had", v.Capacity.Free, v.Capacity.Nodes)}
	for _, f := range v.Capacity.Filters {
		if n := f.Before - f.After; n > 0 {
			why = append(why, fmt.Sprintf("%d %s", n, f.Text))
		}
	}
	return strings.Join(why, "; ")
}

func (a *app) allocationRequestCommand() *cobra.Command {
	return a.noun(noun{
		use: "request", short: "Requests that wait for capacity",
		long: "gpuaas allocation create --wait-up-to makes one where there are not enough nodes. Tenants and\n" +
			"projects take turns; within a project the older request comes first.",
	},
		a.requestListCommand(),
		a.verb(verb{
			use: "show REQUEST", short: "Show a request, its position, and why it still waits", aliases: []string{"get"},
			args: frame.Exactly("REQUEST"), operations: []string{"get-allocation-request"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a request", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.requestColumns())(s.API.GetAllocationRequestWithResponse(s.Ctx, id))
			},
		}),
		a.verb(verb{
			use: "cancel REQUEST", short: "Take a request back that waits", args: frame.Exactly("REQUEST"),
			operations: []string{"cancel-allocation-request"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a request", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.requestColumns())(s.API.CancelAllocationRequestWithResponse(s.Ctx, id,
					&apiclient.CancelAllocationRequestParams{}))
			},
		}))
}

func (a *app) requestListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List requests that wait or waited, newest first", aliases: []string{"ls"},
		operations: []string{"list-allocation-requests", "list-all-allocation-requests"},
		long:       "With --project those of the project. Without it those of all tenants, for operators.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			statuses := cmd.Flags().StringSlice("status", nil, "only those with this status; may be repeated")
			frame.Complete(cmd, "status", apiclient.Words("list-allocation-requests.status")...)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, _ []string) error {
				given := frame.Given(s.Session, "status", statuses)
				fetch := func(p listing.Page) (apiclient.Answer, error) {
					return s.API.ListAllAllocationRequestsWithResponse(s.Ctx, &apiclient.ListAllAllocationRequestsParams{
						Cursor: p.Cursor, PageSize: p.Size,
						Status: asStatuses[apiclient.ListAllAllocationRequestsParamsStatus](given),
					})
				}
				if c.project != "" {
					project, err := s.projectID(*c)
					if err != nil {
						return err
					}
					fetch = func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListAllocationRequestsWithResponse(s.Ctx, project, &apiclient.ListAllocationRequestsParams{
							Cursor: p.Cursor, PageSize: p.Size,
							Status: asStatuses[apiclient.ListAllocationRequestsParamsStatus](given),
						})
					}
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.AllocationRequestView]{
					Columns: a.requestColumns(), Fetch: fetch,
				})
			}
		},
	})
}

// followRequest shows a request that waits. With --wait it follows the request to
// its allocations, and these until they are ready.
func (a *app) followRequest(s *session, raw json.RawMessage, w watch.Waiting) error {
	o, err := output.Decode[apiclient.AllocationRequestView](raw)
	if err != nil {
		return err
	}
	if !w.Wait && !w.Watch {
		return frame.PrintOne(s.App, a.requestColumns(), raw)
	}
	id, said := o.Value.RequestId, ""
	long := w
	long.Timeout = max(w.Timeout, o.Value.WaitUntil.Sub(s.Now())+time.Minute)
	last, err := watch.Await(s.Session, long, watch.Awaited[apiclient.AllocationRequestView]{
		What: "the request", SeeIt: "gpuaas allocation request show " + id.String(),
		Read: func() (json.RawMessage, error) {
			return apiclient.Read(s.API.GetAllocationRequestWithResponse(s.Ctx, id))
		},
		Ended: func(now apiclient.AllocationRequestView) bool {
			if now.Status != apiclient.AllocationRequestViewStatusWaiting {
				return true
			}
			if line := fmt.Sprintf("%d. in the queue: %s", *now.Position, whyItWaits(now)); line != said {
				said = line
				s.Note("%s is %s", id, line)
			}
			return false
		},
		Report: func(output.Object[apiclient.AllocationRequestView]) error { return nil },
	})
	if err != nil {
		return err
	}
	if last.Value.Status == apiclient.AllocationRequestViewStatusPlaced {
		return a.awaitPlaced(s, last.Value.AllocationIds, w)
	}
	if err := frame.PrintOne(s.App, a.requestColumns(), last.Raw); err != nil {
		return err
	}
	return failure.New(failure.Unsuccessful, "allocation_request_"+string(last.Value.Status), text(last.Value.Remedy),
		"the request %s is %s: %s", id, last.Value.Status, text(last.Value.Reason))
}

// awaitPlaced waits for the allocations that a request became.
func (a *app) awaitPlaced(s *session, ids []types.UUID, w watch.Waiting) error {
	all := make([]apiclient.AllocationView, len(ids))
	for i, id := range ids {
		raw, err := apiclient.Read(s.API.GetAllocationFlatWithResponse(s.Ctx, id))
		if err != nil {
			return err
		}
		o, err := output.Decode[apiclient.AllocationView](raw)
		if err != nil {
			return err
		}
		all[i] = o.Value
	}
	return a.awaitAllocations(s, all, w)
}
