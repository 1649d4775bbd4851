package bringup_test

import (
	"testing"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/work/bringup"
	simfault "gpuaas/sim/maas/fault"
)

// lost is a proxy in front of MAAS that does not find a machine.
func lost(job *bringup.Work) simfault.Rule {
	return simfault.Rule{
		Fault: simfault.ErrorBefore, Operation: "machine.get", Machine: job.SystemID, Status: 404,
		ContentType: "text/plain", Text: "404 page not found",
	}
}

// A proxy that answers 404 for itself does not say that a machine is gone.
func TestAProxyProvesNothingVacant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.deployed(t, job)
	w.fault(t, lost(job))
	missing, err := w.bringup.ProveVacant(system(t), job)
	if missing != "" || fault.KindOf(err) != fault.Unavailable || job.Observed.Status == bringup.Absent {
		t.Errorf("missing is %q, %v; the machine was seen as %q", missing, err, job.Observed.Status)
	}
}

// What only the word of MAAS may bring about waits for it.
func TestNoStageTakesTheWordOfAProxyForThatOfMAAS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.deployed(t, job)
	before := job.SystemID
	w.fault(t, lost(job))
	for _, stage := range []string{bringup.CreateOrFindInMAAS, bringup.DeployViaMAAS, bringup.RenderCloudInit} {
		if f := w.fails(t, stage, job, bringup.UpstreamTransient, maas.CodeUnreachable); f.Final {
			t.Errorf("%s is not repeated", stage)
		}
	}
	if _, err := w.bringup.Adopt(system(t), job); bringup.Classify(err).Class != bringup.UpstreamTransient {
		t.Errorf("adopt: %v", err)
	}
	if err := w.bringup.Compensate(system(t), job); bringup.Classify(err).Class != bringup.UpstreamTransient {
		t.Errorf("compensate: %v", err)
	}
	if job.SystemID != before || job.Observed.Status == bringup.Absent {
		t.Errorf("the machine %s is %s now, seen as %q", before, job.SystemID, job.Observed.Status)
	}
}

// One who waits asks once more before a machine counts as gone.
func TestAWaitDoesNotEndByTheWordOfAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, aFleet(1))
	job := w.ready(t, 1)
	w.does(t, bringup.RenderCloudInit, job)
	w.does(t, bringup.DeployViaMAAS, job)
	w.fault(t, simfault.Rule{
		Fault: simfault.ErrorBefore, Operation: "machines.get", Status: 200,
		ContentType: "application/json", Text: "[]", Count: 5,
	})
	w.fault(t, lost(job))
	w.fails(t, bringup.WaitForDeployed, job, bringup.UpstreamTransient, maas.CodeUnreachable)
}

// That a record is removed already is for MAAS to say.
func TestARecordIsNotRemovedByTheWordOfAProxy(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]simfault.Rule{
		"at the first look":    {{}},
		"at the second look":   {{Skip: 1}, {Operation: "machine.delete"}},
		"of the deletion only": {{Operation: "machine.delete"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aFleet(1))
			job := w.inService(t, 1, "none")
			w.does(t, bringup.ReleaseMAASNode, job)
			job.Profile.Policy.RemoveMAASRecord = true
			for _, r := range rules {
				rule := lost(job)
				rule.Skip = r.Skip
				if r.Operation != "" {
					rule.Operation = r.Operation
				}
				w.fault(t, rule)
			}
			result, err := w.bringup.RemoveMAASRecord(system(t), job)
			if f := job.Facts.RecordRemoved; f != nil && f.Removed {
				t.Errorf("the record counts as removed: %+v, %v", result, err)
			}
		})
	}
}
