package decommission

import (
	"context"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/work/job"
)

// Continue is Request for the plain steps of the life of a node. If the step is
// parked already, asking again resumes it from its last safe stage. So a node
// does not stay draining or removing because somebody does not know which
// operation to resume.
func (s *Service) Continue(ctx context.Context, of id.Node, r Request) (d Decommission, made bool, err error) {
	d, made, err = s.Request(ctx, of, r)
	if err != nil || made || !d.Parked() {
		return d, made, err
	}
	d, err = s.Act(ctx, d.ID, job.Resume, r.Reason)
	return d, false, err
}
