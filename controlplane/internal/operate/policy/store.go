package policy

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/operate/policy/internal/policydb"
)

func from(r policydb.OperationPolicyOverride) Override {
	return Override{
		Owner: Owner{Org: r.OrgID, Project: r.ProjectID}, Type: r.OperationType,
		Values: Values{
			Enabled: r.Enabled, MaxConcurrency: r.MaxConcurrency, TimeoutSeconds: r.TimeoutSeconds,
			ArtifactSources: list(r.AllowedArtifactSources), TargetKinds: list(r.AllowedTargetKinds),
			RequireSignature: r.RequireSignatureVerification, MaxArtifactSize: r.MaxArtifactSizeBytes, HardDeny: r.HardDeny,
		},
		Reason: r.Reason, Version: r.Version, UpdatedAt: r.UpdatedAt, UpdatedBy: r.UpdatedBy,
	}
}

// list tells a list that is empty from one that was never set.
func list(stored []string) *[]string {
	if stored == nil {
		return nil
	}
	return &stored
}

// Get puts together what counts for a type of operation, through a pool or a
// transaction: in a project, in a tenant (no project), or on the platform (neither).
func Get(ctx context.Context, db policydb.DBTX, of Owner, operation string) (Effective, error) {
	rows, err := policydb.New(db).Applying(ctx, policydb.ApplyingParams{
		OperationType: operation, OrgID: of.Org, ProjectID: of.Project,
	})
	if err != nil {
		return Effective{}, fmt.Errorf("read operation policies: %w", err)
	}
	levels := make([]Level, len(rows))
	for i, row := range rows {
		o := from(row)
		levels[i] = Level{Scope: o.Scope(), Type: o.Type, Values: o.Values}
	}
	return Resolve(operation, levels), nil
}
