package onboarding

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/fleet/sku"
	"gpuaas/controlplane/internal/work/job"
	"gpuaas/controlplane/internal/work/onboarding/internal/onboardingdb"
)

// MaxBatch is how many machines one request may ask for.
const MaxBatch = 1000

// Request asks to onboard one machine. The onboarding starts when the site has
// a free place: at once, or when another onboarding gives its place back.
func (s *Service) Request(ctx context.Context, n NewOnboarding) (Onboarding, error) {
	if len(n.Machines) != 1 {
		return Onboarding{}, fault.New(fault.Invalid, "machine_missing",
			"exactly one machine is onboarded at a time; several are a batch")
	}
	machines, err := checked(n.Machines, func(int) string { return "body." })
	if err != nil {
		return Onboarding{}, err
	}
	n.Machines = machines
	var made Onboarding
	err = s.request(ctx, n, func(int) string {
		return "body."
	}, func(ctx context.Context, tx pgx.Tx, by site.Profile) error {
		rows, err := s.insert(ctx, tx, n, by, id.OnboardingBatch{})
		if err != nil {
			return err
		}
		made = rows[0]
		if err := family.Audit(ctx, tx, "request", made, "",
			map[string]any{
				"site_id": n.Site, "profile_id": by.ID, "sku": n.SKU, "initialize_disks": n.InitializeDisks,
				"asked": n.Asked,
			}); err != nil {
			return err
		}
		if err := s.rows.Admit(ctx, tx, "", s.now(), made.ID.String()); err != nil {
			return err
		}
		if rows, err = s.rows.Of(ctx, tx, []string{made.ID.String()}); err != nil {
			return err
		}
		made = rows[0]
		return nil
	})
	return made, err
}

// RequestBatch asks to onboard machines side by side, as many at once as the
// profile and the site allow.
func (s *Service) RequestBatch(ctx context.Context, n NewOnboarding) (Batch, []Onboarding, error) {
	switch {
	case len(n.Machines) == 0:
		return Batch{}, nil, fault.New(fault.Invalid, "batch_empty", "a batch needs at least one machine")
	case len(n.Machines) > MaxBatch:
		return Batch{}, nil, fault.New(fault.Invalid, "batch_too_large", "a batch has %d machines at most, not %d", MaxBatch,
			len(n.Machines)).
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
	err = s.request(ctx, n, at, func(ctx context.Context, tx pgx.Tx, by site.Profile) error {
		batch = Batch{ID: id.New[id.OnboardingBatch](), Site: n.Site, Profile: by.ID, SKU: n.SKU}
		var err error
		batch.Batch, err = s.rows.InsertBatch(ctx, tx, job.Batch{
			ID: id.JobBatch(batch.ID), Total: len(n.Machines), MaxFailures: n.MaxFailures, RequestedAt: s.now(),
		}, job.Prepared(onboardingdb.InsertBatch, onboardingdb.InsertBatchParams{
			BatchID: batch.ID, SiteID: n.Site, ProfileID: by.ID, SkuID: n.SKU,
		}))
		if err != nil {
			return err
		}
		if rows, err = s.insert(ctx, tx, n, by, batch.ID); err != nil {
			return err
		}
		if err := s.batches.Audit(ctx, tx, "request", batch.Batch, "", map[string]any{
			"site_id": n.Site, "profile_id": by.ID, "sku": n.SKU, "initialize_disks": n.InitializeDisks,
			"asked": n.Asked, "workflow_id": BatchWorkflowID(batch.ID.String()),
		}); err != nil {
			return err
		}
		return s.rows.Admit(ctx, tx, batch.ID.String(), s.now())
	})
	if err != nil {
		return Batch{}, nil, err
	}
	return batch, rows, nil
}

// request refuses a request that cannot begin, and otherwise calls begin in the
// same transaction as the last checks.
func (s *Service) request(ctx context.Context, n NewOnboarding, at func(int) string,
	begin func(context.Context, pgx.Tx, site.Profile) error,
) error {
	if err := s.requireWorkable(ctx, n, at); err != nil {
		return err
	}
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
		// No index spans the sites of a region: a lock lets requests for names
		// in the region take turns.
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
		return begin(ctx, tx, by)
	})
	if postgres.Violates(err, job.ClaimTaken) {
		taken, look := s.InUse(ctx, n.Site, n.Machines) // somebody else was faster: the error says which machines they have
		if look != nil {
			return look
		}
		return clash(taken, at)
	}
	return err
}

func (s *Service) insert(ctx context.Context, tx pgx.Tx, n NewOnboarding, by site.Profile,
	batch id.OnboardingBatch,
) ([]Onboarding, error) {
	own := onboardingdb.InsertOnboardingsParams{ProfileID: by.ID, SkuID: n.SKU, InitializeDisks: n.InitializeDisks}
	jobs := make([]job.NewJob, len(n.Machines))
	ids := make([]id.Onboarding, len(n.Machines)) // in the order in which places are given
	for i := range ids {
		ids[i] = id.New[id.Onboarding]()
	}
	slices.SortFunc(ids, func(a, b id.Onboarding) int { return bytes.Compare(a[:], b[:]) })
	for i, m := range n.Machines {
		facts, err := n.factsOf(m).Encode()
		if err != nil {
			return nil, err
		}
		of := ids[i]
		jobs[i] = job.NewJob{
			ID: of.String(), Site: n.Site, SitePlace: true, Node: id.New[id.Node](), Subject: m.Hostname, Stage: table.First(),
			WorkflowID: WorkflowID(of),
			Claims:     []job.Claim{claim(claimHostname, n.Site, m.Hostname), claim(claimBMC, n.Site, m.IPMIIP)},
		}
		own.Ids, own.IpmiIps = append(own.Ids, of.String()), append(own.IpmiIps, m.IPMIIP)
		own.Facts = append(own.Facts, string(facts))
	}
	return s.rows.Insert(ctx, tx, job.Asked{At: s.now(), Batch: textOf(batch)}, jobs,
		job.Prepared(onboardingdb.InsertOnboardings, own))
}
