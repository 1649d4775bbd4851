package reconciliation

import (
	"fmt"
	"time"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/site"
)

// TypeHWSyncStale says: the machine does not report its hardware to MAAS as it
// should.
const TypeHWSyncStale Type = "hw_sync_stale"

var ruleHWSyncStale = Rule{
	Type: TypeHWSyncStale, Severity: Warning, Looks: 1, Action: Reseed,
	Title: "Hardware sync missing or late",
	Means: "What MAAS knows of the hardware is old, so a failed or replaced part would go unnoticed; what runs on the " +
		"node is fine.",
	When: whenHWSyncStale,
	Advice: []string{
		adviceShow, "Wait: the agent gets the token of its machine anew, which usually fixes it within one interval",
		"On the machine: systemctl list-timers, and the log of maas_hardware_sync.service", adviceReimage,
	},
	Holds: "The node is active, its machine is Deployed, `require_hw_sync` is set in the profile, and hardware sync " +
		"is disabled, or the last one is older than one and a half intervals by the clock of MAAS, or there was none " +
		"within two intervals of the node being bound. No new token is sent if sync is disabled or " +
		"the machine is off.",
	Runbook: "machine-settings-drifted",
}

// defaultSyncInterval is MAAS's own default.
const defaultSyncInterval = 15 * time.Minute

func whenHWSyncStale(s Subject) (Verdict, bool) {
	if s.Status != node.Active || !s.shows(Installed) || !s.Policy.RequireHWSync {
		return Verdict{}, false
	}
	interval := s.syncInterval()
	v := Verdict{Expected: fmt.Sprintf("a sync every %s", interval), Withheld: s.reseedWithheld()}
	switch {
	case !s.Machine.SyncEnabled:
		v.Observed, v.Message = "sync disabled", fmt.Sprintf("hardware sync of %s is disabled in MAAS", s.Hostname)
		v.Withheld = "MAAS enables it only when a machine is deployed: reimage the node"
	case s.Machine.LastSync != nil && s.SyncAge != nil && *s.SyncAge > interval+interval/2: // MAAS's own limit
		// The time of the report, not its age: two looks must observe the same
		// text.
		at := s.Machine.LastSync.UTC().Format(time.RFC3339)
		v.Observed, v.Message = "last sync at "+at,
			fmt.Sprintf("the hardware of %s was last synced at %s by the clock of MAAS, which is too long ago", s.Hostname, at)
	case s.Machine.LastSync == nil && s.Now.Sub(s.BoundAt) > 2*interval:
		v.Observed, v.Message = "never synced", fmt.Sprintf("the hardware of %s was never synced", s.Hostname)
	default:
		return Verdict{}, false
	}
	v.Details = s.with(map[string]any{
		"sync_enabled":          s.Machine.SyncEnabled,
		"sync_interval_seconds": int64(interval / time.Second), "last_sync_at": s.Machine.LastSync,
	})
	return v, true
}

// syncInterval is how often the machine should report: what MAAS was told at
// deployment, otherwise what the profile says.
func (s Subject) syncInterval() time.Duration {
	if s.Machine.SyncInterval > 0 {
		return s.Machine.SyncInterval
	}
	if d, err := site.ParseInterval(s.Policy.HardwareSyncInterval); err == nil && d > 0 {
		return d
	}
	return defaultSyncInterval
}

// reseedWithheld says why a new token would not help.
func (s Subject) reseedWithheld() string {
	switch {
	case s.reinstalled():
		return "the machine was reinstalled by somebody else: settle that first"
	case s.Machine.Power == powerOff:
		return "the machine is off"
	}
	return ""
}
