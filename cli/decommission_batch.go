package cli

import (
	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// decommissionBatches is how batches of decommissions are shown and changed.
func decommissionBatches() batchKind {
	return batchKind{
		noun: "decommission", unit: "node", short: "Turnover of many nodes at once",
		total:   "NODES",
		cancels: "Stop all jobs of a batch and release its nodes",
		own:     []table.Column[batchView]{{Title: "MODE", Text: func(v batchView) string { return v.Mode }}},
		list: func(s *session, p listing.Page) (apiclient.Answer, error) {
			return s.API.ListDecommissionBatchesWithResponse(s.Ctx,
				&apiclient.ListDecommissionBatchesParams{Cursor: p.Cursor, PageSize: p.Size})
		},
		get: func(s *session, id types.UUID) (apiclient.Answer, error) {
			return s.API.GetDecommissionBatchWithResponse(s.Ctx, id)
		},
		pause: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.PauseDecommissionBatchWithResponse(s.Ctx, id, &apiclient.PauseDecommissionBatchParams{}, b)
		},
		resume: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.ResumeDecommissionBatchWithResponse(s.Ctx, id, &apiclient.ResumeDecommissionBatchParams{}, b)
		},
		cancel: func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error) {
			return s.API.CancelDecommissionBatchWithResponse(s.Ctx, id, &apiclient.CancelDecommissionBatchParams{}, b)
		},
	}
}

func leftOutColumns() []table.Column[apiclient.DecommissionLeftOut] {
	type left = apiclient.DecommissionLeftOut
	return []table.Column[left]{
		{Title: "LEFT OUT", Text: func(v left) string { return v.Hostname }},
		{Title: "BECAUSE", Long: true, Text: func(v left) string { return v.Message }},
		{Title: "CODE", Text: func(v left) string { return v.Code }},
	}
}

// batchFlags are those of gpuaas decommission batch start.
type batchFlags struct {
	mode, reason, site, region, sku, prefix string
	nodes, statuses                         []string
	parallel, failures                      int64
	skip                                    bool
	cleaning                                *cleaning
	yes                                     *bool
	watching                                *watching
}

func (a *app) decommissionBatchStartCommand() *cobra.Command {
	return a.verb(verb{
		use: "start", short: "Do the same to many nodes, a few at a time",
		operations: []string{
			"create-decommission-batch", "list-decommissions", "get-decommission-batch",
			"stream-decommissions", "list-decommission-stages",
		},
		long: "Selects the nodes that match all given flags: --node, --site, --region, --sku,\n" +
			"--hostname-prefix, --status; at least one of them. Nothing starts if one of the nodes cannot be turned over,\n" +
			"unless --skip-ineligible leaves it out. When more than --max-failures have failed, the batch is halted: no\n" +
			"further one is begun until you resume it.\n" +
			"On a terminal the nodes are shown and asked about; if the selection has changed by then, nothing starts.",
		example: "  gpuaas decommission batch start --mode soft_reset --hostname-prefix c07 --status quarantined " +
			"--max-failures 2 --reason 'end of the project'",
		flags: func(cmd *cobra.Command) action {
			v, f := &batchFlags{}, cmd.Flags()
			f.StringVar(&v.mode, "mode", "", "what is done to each node")
			f.StringSliceVar(&v.nodes, "node", nil, "these nodes, by hostname or id; may be repeated")
			f.StringVar(&v.site, "site", "", "machines of this site, by name or id")
			f.StringVar(&v.region, "region", "", "nodes of this region")
			f.StringVar(&v.sku, "sku", "", "nodes of this kind")
			f.StringVar(&v.prefix, "hostname-prefix", "", "nodes whose name starts with this")
			f.StringSliceVar(&v.statuses, "status", nil, "nodes in this state; may be repeated")
			f.Int64Var(&v.parallel, "max-parallel", 10, "how many at once")
			f.Int64Var(&v.failures, "max-failures", 0, "how many may fail before the batch is halted")
			f.BoolVar(&v.skip, "skip-ineligible", false, "leave nodes out that cannot be operated on now")
			v.cleaning = addCleaningFlags(cmd)
			v.cleaning.addProfileFlag(cmd)
			v.cleaning.addAcceptFlags(cmd)
			v.cleaning.addEndFlag(cmd)
			f.StringVar(&v.reason, "reason", "", "the reason, kept in the audit log")
			frame.Complete(cmd, "mode", modes()...)
			frame.Complete(cmd, "status", apiclient.NodeStates...)
			v.yes, v.watching = frame.AddYesFlag(cmd), addWatchingFlags(cmd)
			return func(s *session, _ []string) error { return s.startBatch(v) }
		},
	})
}

func (s *session) startBatch(v *batchFlags) error {
	if err := s.Require("mode", "reason"); err != nil {
		return err
	}
	selector, err := s.selected(v)
	if err != nil {
		return err
	}
	profile, err := s.profileOf(v.cleaning)
	if err != nil {
		return err
	}
	expected, err := s.confirmBatch(v, selector)
	if err != nil {
		return err
	}
	raw, err := apiclient.Read(s.API.CreateDecommissionBatchWithResponse(s.Ctx, &apiclient.CreateDecommissionBatchParams{},
		apiclient.DecommissionNewBatchBody{
			Mode: apiclient.DecommissionNewBatchBodyMode(v.mode), Reason: v.reason, Selector: selector,
			ExpectedNodeIds: expected, ProfileId: profile,
			Erase: frame.GivenAs[apiclient.DecommissionNewBatchBodyErase](s.Session, "erase", &v.cleaning.erase),
			StorageCleanup: frame.GivenAs[apiclient.DecommissionNewBatchBodyStorageCleanup](s.Session, "storage-cleanup",
				&v.cleaning.storage),
			KeepOutOfService:     frame.Given(s.Session, "keep-out-of-service", &v.cleaning.keepOut),
			RequireHardwareMatch: frame.Given(s.Session, "require-hardware-match", &v.cleaning.match),
			EndAllocation:        frame.Given(s.Session, endAllocation, &v.cleaning.endAllocation),
			UnderMaintenance:     frame.Given(s.Session, underMaintenance, &v.cleaning.underMaintenance),

			MaxParallel:    frame.Given(s.Session, "max-parallel", &v.parallel),
			MaxFailures:    frame.Given(s.Session, "max-failures", &v.failures),
			SkipIneligible: frame.Given(s.Session, "skip-ineligible", &v.skip),
		}))
	if err != nil {
		return err
	}
	made, err := output.Decode[struct {
		Batch   batchView                       `json:"batch"`
		LeftOut []apiclient.DecommissionLeftOut `json:"left_out"`
	}](raw)
	if err != nil {
		return err
	}
	batch := made.Value.Batch
	if v.watching.any() {
		s.Note("batch %s: %s, %d left out", batch.BatchId, plural(int(batch.Total), "node"), len(made.Value.LeftOut))
		return s.watchJobs(decommissions(), v.watching, watchScope{batch: &batch.BatchId})
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	if err := table.PrintOne(s.Program.Out, s.app.batchColumns(decommissionBatches()), batch); err != nil {
		return err
	}
	if err := frame.PrintPart(s.Session, leftOutColumns(), made.Value.LeftOut); err != nil {
		return err
	}
	s.Note("follow it with: gpuaas decommission watch --batch %s", batch.BatchId)
	return nil
}

// confirmBatch asks whether the nodes are meant that the selector names now, and says which
// they are: the batch is about these. Nil: nobody looked, or they were named one by one.
func (s *session) confirmBatch(v *batchFlags, selector apiclient.DecommissionSelectorBody) (*[]types.UUID, error) {
	ask := s.Ask
	if v.cleaning.warning(v.mode) != "" {
		ask = s.Confirm
	}
	if *v.yes || !s.Asks(*v.yes) {
		return nil, ask(*v.yes, "This begins a %s, which cannot be undone.", v.mode)
	}
	names := v.nodes
	var ids *[]types.UUID
	if len(v.nodes) == 0 {
		fitting, err := s.fitting(selector, v.statuses)
		if err != nil {
			return nil, err
		}
		ids = &[]types.UUID{}
		for _, n := range fitting {
			names, *ids = append(names, n.Value.Hostname), append(*ids, n.Value.NodeId)
		}
		if len(names) == 0 {
			return ids, nil // the control plane says that there is nothing to do
		}
	}
	question := "This begins a %s of %s: %s"
	if v.cleaning.endAllocation || v.cleaning.underMaintenance {
		question += "\nIt ends what tenants have on them, which DESTROYS their work."
	}
	if v.skip {
		question += "\nThose of them that cannot be operated on now are left out."
	}
	return ids, ask(*v.yes, question, v.mode, plural(len(names), "node"), frame.SomeOf(names))
}

// fitting are the nodes that a selector names, as the inventory lists them.
func (s *session) fitting(selector apiclient.DecommissionSelectorBody, statuses []string) (
	[]output.Object[apiclient.NodeView], error,
) {
	params := apiclient.ListNodesParams{
		SiteId: selector.SiteId, RegionCode: selector.RegionCode, Sku: selector.SkuId,
		Hostname: selector.HostnamePrefix,
	}
	if len(statuses) > 0 {
		params.Statuses = &statuses
	}
	raws, _, err := listing.Collect(func(p listing.Page) (apiclient.Answer, error) {
		params.Cursor, params.PageSize = p.Cursor, p.Size
		return s.API.ListNodesWithResponse(s.Ctx, &params)
	}, 0)
	if err != nil {
		return nil, err
	}
	return output.DecodeAll[apiclient.NodeView](raws)
}

// selected is which nodes are meant.
func (s *session) selected(v *batchFlags) (apiclient.DecommissionSelectorBody, error) {
	selector := apiclient.DecommissionSelectorBody{
		RegionCode: frame.Given(s.Session, "region", &v.region), SkuId: frame.Given(s.Session, "sku", &v.sku),
		HostnamePrefix: frame.Given(s.Session, "hostname-prefix", &v.prefix),
	}
	if err := s.anyOf("node", "site", "region", "sku", "hostname-prefix", "status"); err != nil {
		return selector, err
	}
	var err error
	if selector.SiteId, err = optionalID(v.site, s.siteID); err != nil {
		return selector, err
	}
	if len(v.nodes) > 0 {
		ids := make([]types.UUID, len(v.nodes))
		for i, name := range v.nodes {
			if ids[i], err = s.nodeID(name); err != nil {
				return selector, err
			}
		}
		selector.NodeIds = &ids
	}
	if len(v.statuses) > 0 {
		statuses := make([]apiclient.DecommissionSelectorBodyStatuses, len(v.statuses))
		for i, status := range v.statuses {
			statuses[i] = apiclient.DecommissionSelectorBodyStatuses(status)
		}
		selector.Statuses = &statuses
	}
	return selector, nil
}

// anyOf is a usage error when nothing says which nodes are meant.
func (s *session) anyOf(flags ...string) error {
	for _, name := range flags {
		if s.Cmd.Flags().Changed(name) {
			return nil
		}
	}
	return failure.Misuse(s.Cmd,
		"say which nodes are meant: with --node, --site, --region, --sku, --hostname-prefix or --status")
}
