package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/enroll"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/journal"
	"gpuaas/agent/internal/update"
	"gpuaas/contract/agentwire"
)

// Status is everything about the agent of a machine that is worth knowing at a
// glance. It is read from the disk and disturbs no running agent.
type Status struct {
	Health
	Running             bool      `json:"running"`
	NodeID              string    `json:"node_id,omitempty"`
	ControlPlane        string    `json:"control_plane"`
	CertificateNotAfter time.Time `json:"certificate_not_after,omitzero"`
	RenewAfter          time.Time `json:"certificate_renew_after,omitzero"`
	CertificateSerial   string    `json:"certificate_serial,omitempty"`
	Generation          int64     `json:"generation"`
	VerifierVersion     int64     `json:"verifier_version"`
	BundleVersion       int64     `json:"trust_bundle_version"`
	// TrustRefused is what the agent was last told to trust and refused.
	TrustRefused    *enroll.Refused `json:"trust_refused,omitempty"`
	TasksUnfinished int             `json:"tasks_unfinished"`
	ResultsUnsent   int             `json:"results_unsent"`
	JournalDamage   []string        `json:"journal_damage,omitempty"`
	Draining        bool            `json:"draining"`
}

// ReadStatus looks at the agent of this machine.
func ReadStatus(o Options) (Status, error) {
	c, err := config.Load(o.HostRoot, o.ConfigPath)
	if err != nil {
		return Status{}, err
	}
	s := Status{ControlPlane: c.API.String(), Running: held(c.Lock())}
	s.Health = readHealth(c.Status())
	_, drained := os.Stat(c.DrainMarker())
	s.Draining = drained == nil
	if trust, err := enroll.NewStore(c).OpenTrust(""); err == nil {
		s.VerifierVersion, s.BundleVersion, s.TrustRefused = trust.Verifiers().Version(), trust.BundleVersion(),
			trust.Refused()
	}
	if s.TasksUnfinished, s.ResultsUnsent, s.JournalDamage, err = journal.Look(c.Journal()); err != nil {
		return Status{}, err
	}
	id, err := enroll.NewStore(c).Load()
	switch {
	case errors.Is(err, enroll.ErrNotEnrolled):
		s.State, s.Message = StateNotEnrolled, err.Error()
		return s, nil
	case err != nil:
		return Status{}, err
	}
	s.NodeID, s.CertificateNotAfter, s.RenewAfter, s.CertificateSerial, s.Generation = id.Node, id.NotAfter.UTC(),
		id.RenewAfter.UTC(), id.Serial, id.Generation
	if !s.Running {
		s.State = StateStopped
	}
	return s, nil
}

func readHealth(path string) Health {
	h := Health{State: StateStopped}
	raw, err := os.ReadFile(path)
	if err != nil {
		return h
	}
	if json.Unmarshal(raw, &h) != nil {
		return Health{State: StateStopped}
	}
	return h
}

// Guard runs in the previous version before every start. It takes back a new
// version that does not come up.
func Guard(o Options) (rolledBack bool, err error) {
	store := update.New(hostexec.Host{Root: o.HostRoot}, o.Build.Version, time.Now)
	rolledBack, err = store.Guard()
	if err != nil {
		return rolledBack, fmt.Errorf("guard update: %w", err)
	}
	return rolledBack, nil
}

// Version says what this program is.
func Version(version, commit string) agentwire.Build {
	if version == "" {
		version = "dev"
	}
	if commit == "" {
		commit = "unknown"
	}
	return agentwire.Build{Version: version, Commit: commit}
}
