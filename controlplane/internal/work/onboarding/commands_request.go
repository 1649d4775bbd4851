package onboarding

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/outbox"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/engine/telemetry"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// MaxBatch is how many machines one request may ask for.
const MaxBatch = 1000

// Request asks for one machine. It starts when the site has a free place: at
// once, or when another onboarding gives one back.
func (s *Service) Request(ctx context.Context, n NewOnboarding) (Onboarding, error) {
	if len(n.Machines) != 1 {
		return Onboarding{}, fault.New(fault.Invalid, "machine_missing", "exactly one machine is onboarded at a time; several are a batch")
	}
	machines, err := checked(n.Machines, func(int) string { return "body." })
	if err != nil {
		return Onboarding{}, err
	}
	n.Machines = machines
	var made Onboarding
	err = s.request(ctx, n, func(int) string { return "body." }, func(ctx context.Context, tx pgx.Tx, where site.Site, by site.Profile) error {
		rows, err := s.insert(ctx, tx, n, by, id.OnboardingBatch{})
		if err != nil {
			return err
		}
		made = rows[0]
		if err := family.Audit(ctx, tx, "request", made, "", map[string]any{"site_id": n.Site, "profile_id": by.ID, "sku": n.SKU, "initialize_disks": n.InitializeDisks}); err != nil {
			return err
		}
		if err := lockSlots(ctx, tx, where.ID); err != nil {
			return err
		}
		if err := s.admitSingles(ctx, tx, where.ID); err != nil {
			return err
		}
		row, err := onboardingdb.New(tx).Get(ctx, made.ID)
		made, err = found(row, err)
		return err
	})
	return made, err
}

// RequestBatch asks for machines that are onboarded side by side, as many at
// once as the profile and the site allow.
func (s *Service) RequestBatch(ctx context.Context, n NewOnboarding) (Batch, []Onboarding, error) {
	switch {
	case len(n.Machines) == 0:
		return Batch{}, nil, fault.New(fault.Invalid, "batch_empty", "a batch needs at least one machine")
	case len(n.Machines) > MaxBatch:
		return Batch{}, nil, fault.New(fault.Invalid, "batch_too_large", "a batch has %d machines at most, not %d", MaxBatch, len(n.Machines)).
			WithRemedy("divide it; limits of the site hold over all batches")
	}
	at := func(i int) string { return fmt.Sprintf("body.nodes[%d].", i) }
	machines, err := checked(n.Machines, at)
	if err != nil {
		return Batch{}, nil, err
	}
	n.Machines = machines
	var batch Batch
	var rows []Onboarding
	err = s.request(ctx, n, at, func(ctx context.Context, tx pgx.Tx, _ site.Site, by site.Profile) error {
		r, err := onboardingdb.New(tx).InsertBatch(ctx, onboardingdb.InsertBatchParams{
			ID: id.New[id.OnboardingBatch](), SiteID: n.Site, ProfileID: by.ID, SkuID: n.SKU, Total: int32(len(n.Machines)), //nolint:gosec // bounded by MaxBatch
			RequestedBy: auth.From(ctx).ID, CorrelationID: telemetry.Correlation(ctx), RequestedAt: s.now(),
		})
		if err != nil {
			return fmt.Errorf("insert batch: %w", err)
		}
		batch = batchFrom(r)
		if rows, err = s.insert(ctx, tx, n, by, batch.ID); err != nil {
			return err
		}
		if err := recordBatch(ctx, tx, "onboarding_batch.request", batch, "", map[string]any{"initialize_disks": n.InitializeDisks}); err != nil {
			return err
		}
		return outbox.StartWorkflow(ctx, tx, *batchStart(batch.ID))
	})
	if err != nil {
		return Batch{}, nil, err
	}
	batch.Counts[rows[0].Status] = len(rows)
	return batch, rows, nil
}

// request refuses what cannot be begun, then begins it.
func (s *Service) request(ctx context.Context, n NewOnboarding, at func(int) string, begin func(context.Context, pgx.Tx, site.Site, site.Profile) error) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		where, by, err := site.ForNewWork(ctx, tx, n.Site, n.Profile)
		if err != nil {
			return err
		}
		_, err = sku.ForUse(ctx, tx, n.SKU)
		if fault.KindOf(err) == fault.NotFound {
			err = fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").
				WithFields(fault.Field{Path: "body.sku_id", Message: "is not in the catalog"})
		}
		if err != nil {
			return err
		}
		// No index spans the sites of a region: whoever asks for names there takes turns.
		if err := onboardingdb.New(tx).LockNames(ctx, where.Settings.RegionCode); err != nil {
			return fmt.Errorf("lock names of region: %w", err)
		}
		taken, err := inUse(ctx, onboardingdb.New(tx), where, n.Machines)
		if err != nil {
			return err
		}
		if len(taken) > 0 {
			return clash(taken, at)
		}
		return begin(ctx, tx, where, by)
	})
	if postgres.Violates(err, "node_onboardings_hostname") || postgres.Violates(err, "node_onboardings_ipmi_ip") {
		taken, look := s.InUse(ctx, n.Site, n.Machines) // somebody else was faster: say which they have
		if look != nil {
			return look
		}
		return clash(taken, at)
	}
	return err
}

func (s *Service) insert(ctx context.Context, tx pgx.Tx, n NewOnboarding, by site.Profile, batch id.OnboardingBatch) ([]Onboarding, error) {
	p := onboardingdb.InsertOnboardingsParams{
		BatchID: batch, SiteID: n.Site, ProfileID: by.ID, SkuID: n.SKU, InitializeDisks: n.InitializeDisks, CurrentStage: table.First(),
		RequestedBy: auth.From(ctx).ID, CorrelationID: telemetry.Correlation(ctx), RequestedAt: s.now(),
	}
	for _, m := range n.Machines {
		job := id.New[id.Onboarding]()
		p.Ids = append(p.Ids, job.String())
		p.NodeIds = append(p.NodeIds, id.New[id.Node]().String())
		p.Hostnames = append(p.Hostnames, m.Hostname)
		p.IpmiIps = append(p.IpmiIps, m.IPMIIP)
		p.WorkflowIds = append(p.WorkflowIds, WorkflowID(job))
	}
	q := onboardingdb.New(tx)
	if err := q.InsertOnboardings(ctx, p); err != nil {
		return nil, fmt.Errorf("insert onboardings: %w", err)
	}
	rows, err := q.OfIDs(ctx, p.Ids)
	if err != nil {
		return nil, fmt.Errorf("read new onboardings: %w", err)
	}
	made := map[string]Onboarding{}
	for _, r := range rows {
		o, err := fromRow(r)
		if err != nil {
			return nil, err
		}
		made[r.ID.String()] = o
	}
	out := make([]Onboarding, len(p.Ids)) // in the order of the request
	for i, job := range p.Ids {
		out[i] = made[job]
	}
	return out, nil
}

func recordBatch(ctx context.Context, tx pgx.Tx, action string, b Batch, reason string, metadata map[string]any) error {
	maps.Copy(metadata, map[string]any{
		"site_id": b.Site, "profile_id": b.Profile, "sku": b.SKU, "total": b.Total, "workflow_id": BatchWorkflowID(b.ID),
	})
	return audit.Record(ctx, tx, audit.Entry{
		Action: action, TargetKind: "onboarding_batch", TargetID: b.ID.String(), Result: audit.Success, Reason: reason, Metadata: metadata,
	})
}
