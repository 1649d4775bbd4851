package decommission

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/site"
	"gpuaas/controlplane/internal/work/bringup"
	"gpuaas/controlplane/internal/work/job"
)

// StageSecrets names the stage "Clean up secrets".
const StageSecrets = "cleanup_secrets"

var _ = catalog.Declare(job.Stage{
	Name: StageSecrets, Title: "Clean up secrets", Attempts: 3, Resume: StageSecrets,
	Looks: "the secrets that belong to the node",
	Does: "deletes its first boots, voids its tokens, revokes its certificates; of a machine that leaves, deletes the " +
		"BMC credentials of its own",
	Expects:  "they are gone; what could not be removed is a follow-up and never stops the job",
	Again:    "what is gone is gone",
	OnCancel: nothingUndone,
	Fails:    []job.FailureMode{maasAway},
}, hooks.cleanSecrets)

// firstBoots returns the paths at which the secrets engine keeps the first
// boots of machines and the keys to them, by kind and id of the job.
func firstBoots(prior []priorJob) []string {
	paths := make([]string, 0, 2*len(prior))
	for _, p := range prior {
		paths = append(paths, bringup.FirstBootPath(p.kind, p.id), bringup.LoginPath(p.kind, p.id))
	}
	return paths
}

// cleanSecrets deletes what the secrets engine keeps about the node. What it
// cannot delete becomes a follow-up and never stops the job.
func (s *Service) cleanSecrets(ctx context.Context, d Decommission, w *bringup.Work) (job.Result, error) {
	prior, err := s.prior(ctx, d.Node)
	if err != nil {
		return job.Result{}, err
	}
	if err := w.Fence(ctx); err != nil {
		return job.Result{}, err
	}
	removed, evidence := []string{}, []job.Evidence{}
	for _, path := range firstBoots(prior) {
		err := s.secrets.Delete(ctx, path)
		if err == nil {
			removed = append(removed, path)
			continue
		}
		if ctx.Err() != nil {
			return job.Result{}, ctx.Err()
		}
		f := bringup.Classify(err)
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case !f.Final && w.Attempt < databaseRetryCount:
			return job.Result{}, err
		default:
			evidence = append(evidence, followUp("delete "+path+" in the secrets engine", f.Message, ""))
		}
	}
	overrides, err := s.forgetPower(ctx, d, w)
	if err != nil {
		f := bringup.Classify(err)
		if ctx.Err() != nil || !f.Final && w.Attempt < databaseRetryCount {
			return job.Result{}, err
		}
		evidence = append(evidence, followUp("delete the BMC credentials that only "+d.Hostname+" had", f.Message,
			"gpuaas site power list "+w.Site.Name))
	}
	if left := len(evidence); left > 0 {
		return job.Result{
			Message:  fmt.Sprintf("%d secrets of the node could not be removed; that is left to be done", left),
			Evidence: evidence,
		}, nil
	}
	return job.Result{
		Message: fmt.Sprintf("%d secrets of the node were removed; its tokens are void and its certificates revoked",
			len(removed)),
		Evidence: []job.Evidence{{Kind: EvidenceSecrets, Value: map[string]any{
			"removed":                 removed,
			"power_overrides_removed": overrides,
			"looked_for":              len(prior),
		}}},
	}, nil
}

// forgetPower deletes BMC credentials that only this machine uses. If only the
// node is removed and the machine stays, they stay.
func (s *Service) forgetPower(ctx context.Context, d Decommission, w *bringup.Work) (removed int, err error) {
	if d.Mode != FullDecommission || !d.managed() {
		return 0, nil
	}
	return s.sites.ForgetMachine(ctx, w.Site.ID, site.Machine{Hostname: d.Hostname, IPMIIP: d.IPMIIP, PXEMAC: d.PXEMAC})
}
