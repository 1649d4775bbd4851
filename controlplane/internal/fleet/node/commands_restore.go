package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/engine/audit"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
)

// NoteRestore records that this control plane was restored from a backup. The
// certificates of nodes that were issued in between are missing in it; see
// adoptLost. Noting the same restore again changes nothing.
func (s *Service) NoteRestore(ctx context.Context, taken, restored time.Time) error {
	if restored.Before(taken) || restored.After(s.now().Add(time.Minute)) {
		return fault.New(fault.Invalid, "restore_times", "a backup of %s cannot have been restored at %s",
			taken.Format(time.RFC3339), restored.Format(time.RFC3339)).
			WithRemedy("name the time at which the backup was taken; it lies before the restore, and that before now")
	}
	return s.inChange(auth.With(ctx, auth.System("restore")), func(ctx context.Context, c change) error {
		added, err := c.InsertRestore(ctx, nodedb.InsertRestoreParams{TakenAt: taken, RestoredAt: restored})
		if err != nil || added == 0 {
			return err
		}
		return audit.Record(ctx, c.tx, audit.Entry{
			Action: "system.restore", TargetKind: "system", TargetID: "restore", Result: audit.Success,
			Reason:   "the control plane was restored from a backup",
			Metadata: map[string]any{"backup_taken_at": taken, "restored_at": restored},
		})
	})
}

// adoptLost takes a certificate into the rows that a restored backup does not know.
// TLS proved that our CA issued it to the node. It must have been issued between
// the backup and its restore, to the machine that the node is, and the node must
// not have lost its identity before. A revocation in that time is lost as well:
// whoever restores is told to repeat it.
func (s *Service) adoptLost(ctx context.Context, p Presented) (adopted bool, err error) {
	lost, err := s.reads.LostInRestore(ctx, p.Certificate.IssuedAt)
	if err != nil || !lost {
		return false, err
	}
	err = s.inChange(asAgent(ctx, p.Node), func(ctx context.Context, c change) error {
		adopted = false
		n, err := c.lock(ctx, p.Node)
		if err != nil {
			return err
		}
		// Another request of the same agent may have been faster.
		adopted, err = c.CertificateLives(ctx, nodedb.CertificateLivesParams{
			Serial: strings.ToLower(p.Serial), NodeID: p.Node,
		})
		if err != nil || adopted {
			return err
		}
		living, err := c.HasLivingCertificate(ctx, p.Node)
		if err != nil || !living || n.Status.fenced() || n.AgentInstance != p.Instance {
			return err
		}
		err = c.InsertCertificate(ctx, nodedb.InsertCertificateParams{
			Serial: strings.ToLower(p.Serial), NodeID: p.Node, KeyFingerprint: p.Certificate.KeyFingerprint,
			NotAfter: p.Certificate.NotAfter,
		})
		if err != nil {
			return fmt.Errorf("insert certificate: %w", err)
		}
		row, err := c.SetCertificateEnd(ctx, nodedb.SetCertificateEndParams{
			ID: p.Node, CertificateNotAfter: &p.Certificate.NotAfter, LastDeliveryResult: n.LastDeliveryResult,
		})
		if err != nil {
			return fmt.Errorf("note end of certificate: %w", err)
		}
		adopted = true
		return c.record(ctx, nodeFrom(row), entry{
			kind: KindCertificateRenewed, action: "node.adopt_certificate",
			cause:    "the agent renewed its certificate after the backup that this control plane was restored from",
			metadata: map[string]any{"serial": p.Serial, "issued_at": p.Certificate.IssuedAt},
		})
	})
	return adopted, err
}
