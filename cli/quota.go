package cli

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) quotaColumns() []table.Column[apiclient.QuotaView] {
	type quota = apiclient.QuotaView
	limit := func(used int32, n *int32) string {
		of := "no limit"
		if n != nil {
			of = strconv.Itoa(int(*n))
		}
		return strconv.Itoa(int(used)) + " of " + of
	}
	return []table.Column[quota]{
		{Title: "OF", Text: func(q quota) string {
			if q.ProjectId == nil {
				return "tenant"
			}
			return "project " + q.ProjectId.String()
		}},
		{Title: "SKU", Text: func(q quota) string {
			if q.Sku == nil {
				return "any"
			}
			return *q.Sku
		}},
		{Title: "GPUS USED", Text: func(q quota) string { return limit(q.UsedGpus, q.Gpus) }},
		{Title: "NODES USED", Text: func(q quota) string { return limit(q.UsedNodes, q.Nodes) }},
		ago(a, "SET", func(q quota) time.Time { return q.UpdatedAt }),
		{Title: "SET BY", Text: func(q quota) string { return q.UpdatedBy }, Detail: true},
		{Title: "VERSION", Text: func(q quota) string { return strconv.FormatInt(q.Version, 10) }, Detail: true},
	}
}

func (a *app) quotaCommand() *cobra.Command {
	return a.noun(noun{
		use: "quota", short: "What tenants and projects may hold", group: groupIdentity,
		long: "With --tenant alone a command is about the tenant, with --project about the project.\n" +
			"Where there is no quota, there is no limit.",
	}, a.quotaListCommand(), a.quotaSetCommand(), a.quotaRemoveCommand())
}

// quotas are the quotas of one owner.
type quotas struct {
	of     string
	list   func(listing.Page) (apiclient.Answer, error)
	put    func(sku *string, limits apiclient.QuotaLimitsBody) (apiclient.Answer, error)
	remove func(sku *string) (apiclient.Answer, error)
}

func (s *session) quotas(c scope) (quotas, error) {
	switch {
	case c.project != "":
		return s.projectQuotas(c)
	case c.tenant != "":
		return s.tenantQuotas(c.tenant)
	}
	return quotas{}, failure.Misuse(s.Cmd, "name the owner with --tenant or --project")
}

func (s *session) tenantQuotas(name string) (quotas, error) {
	org, err := s.tenantID(name)
	return quotas{
		of: "tenant " + name,
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListTenantQuotasWithResponse(s.Ctx, org,
				&apiclient.ListTenantQuotasParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(sku *string, limits apiclient.QuotaLimitsBody) (apiclient.Answer, error) {
			return s.API.PutTenantQuotaWithResponse(s.Ctx, org, &apiclient.PutTenantQuotaParams{Sku: sku}, limits)
		},
		remove: func(sku *string) (apiclient.Answer, error) {
			return s.API.RemoveTenantQuotaWithResponse(s.Ctx, org, &apiclient.RemoveTenantQuotaParams{Sku: sku})
		},
	}, err
}

func (s *session) projectQuotas(c scope) (quotas, error) {
	project, err := s.projectID(c)
	return quotas{
		of: "project " + c.project,
		list: func(p listing.Page) (apiclient.Answer, error) {
			return s.API.ListProjectQuotasWithResponse(s.Ctx, project,
				&apiclient.ListProjectQuotasParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		put: func(sku *string, limits apiclient.QuotaLimitsBody) (apiclient.Answer, error) {
			return s.API.PutProjectQuotaWithResponse(s.Ctx, project, &apiclient.PutProjectQuotaParams{Sku: sku}, limits)
		},
		remove: func(sku *string) (apiclient.Answer, error) {
			return s.API.RemoveProjectQuotaWithResponse(s.Ctx, project, &apiclient.RemoveProjectQuotaParams{Sku: sku})
		},
	}, err
}

func (a *app) quotaListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List quotas", aliases: []string{"ls"},
		operations: []string{"list-tenant-quotas", "list-project-quotas"},
		long: "With --tenant those of the tenant and of its projects, with --project those that the\n" +
			"project is held to: its own and its tenant's.",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				q, err := s.quotas(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.QuotaView]{Columns: a.quotaColumns(), Fetch: q.list})
			}
		},
	})
}

func (a *app) quotaSetCommand() *cobra.Command {
	return a.verb(verb{
		use: "set", short: "Set what a tenant or a project may hold",
		operations: []string{"put-tenant-quota", "put-project-quota"},
		long: "Replaces the quota, also the number that is not given: that one is no longer limited. What\n" +
			"is held already stays. A project's quota cannot be above its tenant's.",
		example: "  gpuaas quota set --tenant acme --gpus 64 --nodes 8\n" +
			"  gpuaas quota set --project acme/training --sku h200-sxm-baremetal-8g --nodes 2",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			sku := cmd.Flags().String("sku", "", "the SKU that the quota is about (default whatever the SKU)")
			gpus := cmd.Flags().Int32("gpus", 0, "how many GPUs may be held")
			nodes := cmd.Flags().Int32("nodes", 0, "how many nodes may be held")
			return func(s *session, _ []string) error {
				limits := apiclient.QuotaLimitsBody{
					Gpus: frame.Given(s.Session, "gpus", gpus), Nodes: frame.Given(s.Session, "nodes", nodes),
				}
				if limits.Gpus == nil && limits.Nodes == nil {
					return failure.Misuse(s.Cmd, "give --gpus, --nodes or both; gpuaas quota remove lifts a quota")
				}
				q, err := s.quotas(*c)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.quotaColumns())(q.put(frame.Given(s.Session, "sku", sku), limits))
			}
		},
	})
}

func (a *app) quotaRemoveCommand() *cobra.Command {
	return a.verb(verb{
		use: "remove", short: "Lift a limit of a tenant or a project", aliases: []string{"rm"},
		operations: []string{"remove-tenant-quota", "remove-project-quota"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			sku := cmd.Flags().String("sku", "", "the SKU that the quota is about (default the one for whatever SKU)")
			return func(s *session, _ []string) error {
				q, err := s.quotas(*c)
				if err != nil {
					return err
				}
				return frame.Done(s.Session, "the quota of %s is removed", q.of)(q.remove(frame.Given(s.Session, "sku", sku)))
			}
		},
	})
}
