package bringup

import (
	"context"
	"fmt"
	"slices"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/job"
)

// advanced says whether a machine of this job is past commissioning: what was
// settled before a deployment is not changed again.
func advanced(m maas.Machine) bool {
	return m.Status == maas.StatusAllocated || m.Status == maas.StatusDeploying || m.Status == maas.StatusDeployed
}

func skipAdvanced(m maas.Machine) Result {
	return Result{Skipped: true, Message: fmt.Sprintf("the machine is %s for this job already", m.Status.Label())}
}

// unproven turns an error of a write into a failure that is attempted again, if MAAS
// did not say whether it wrote. Other errors stay as they are. Use it only for writes
// that may be repeated.
func unproven(err error, code *job.Code, format string, args ...any) error {
	if fault.KindOf(err) != fault.Ambiguous {
		return err
	}
	return code.Failed(format, args...).Because(err)
}

// editable reads the machine for a stage that changes what a deployment will
// find. skip says that the deployment of this job has begun.
func (b *Bringup) editable(ctx context.Context, r *region, w *Work) (m maas.Machine, skip bool, err error) {
	if m, err = b.machine(ctx, r, w); err != nil {
		return m, false, err
	}
	free, err := b.available(ctx, r, w, m)
	switch {
	case err != nil || !free:
		return m, false, orForeign(err, m, w)
	// a refused deployment leaves the machine allocated
	case m.Status == maas.StatusReady, m.Status == maas.StatusAllocated:
		return m, false, nil
	case advanced(m):
		return m, true, nil
	case m.Status == maas.StatusNew && w.Reimage:
		return m, false, uncommissioned(w)
	}
	return m, false, codeMachineNotReady.Failed("%s is %s in MAAS, and was Ready before", w.Hostname, m.Status.Label()).
		ForGood().About(map[string]any{"maas_status": m.Status.Label()})
}

func interfaceOf(m maas.Machine, name string) *maas.Interface {
	i := slices.IndexFunc(m.Interfaces, func(i maas.Interface) bool { return i.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Interfaces[i]
}
