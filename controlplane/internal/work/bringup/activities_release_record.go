package bringup

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/fleet/site"
)

// releaseRecord is what MAAS has recorded since the machine was last deployed.
type releaseRecord struct {
	ours    bool // the newest request about a release came from this job
	earlier bool // it came from an earlier job of this node, which did not go on
	broken  bool // and was to mark the machine broken
	erased  bool // MAAS says that it erased the disks, as the job asked for last
	erase   site.Erase
	said    []string
}

// achieved returns the erasing that MAAS reports.
func (rec releaseRecord) achieved() site.Erase {
	if !rec.erased {
		return site.EraseNone
	}
	return rec.erase
}

// The events of a release. Events of what MAAS did by itself have no user.
const (
	releasingRequest = "User releasing node"
	erasingRequest   = "User erasing disk"
	abortingErasure  = "User aborting disk erase"
	breakingRequest  = "User marking node broken"
	fixingRequest    = "User marking node fixed"
	disksErased      = "Disks erased"
)

// mostSaid limits how much of what MAAS said is kept.
const mostSaid = 20

func (b *Bringup) releaseRecord(ctx context.Context, r *region, w *Work) (releaseRecord, error) {
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelDebug, Limit: maxRequests})
	if err != nil {
		return releaseRecord{}, err
	}
	var rec releaseRecord
	erasing := false
	for _, e := range events {
		switch e.Type {
		case deploying:
			rec, erasing = releaseRecord{}, false
			continue
		case releasingRequest, erasingRequest, abortingErasure, breakingRequest, fixingRequest:
			if e.Description == "" {
				continue
			}
			rec.ours, rec.earlier = fromAny(e, []string{w.Job}), fromAny(e, w.Prior)
			rec.broken = rec.ours && e.Type == breakingRequest
			if e.Type == erasingRequest {
				erasing, rec.erased, rec.erase = rec.ours || rec.earlier, false, eraseOf(e.Description)
			}
		case disksErased:
			rec.erased = erasing
		default:
			if e.Level == maas.LevelDebug {
				continue
			}
		}
		rec.said = append(rec.said, fmt.Sprintf("%s %s", e.Created.UTC().Format(time.RFC3339),
			maas.Shown(strings.TrimSuffix(e.Type+": "+e.Description, ": "))))
	}
	return rec, nil
}

func (rec releaseRecord) texts(m maas.Machine) []string {
	said := rec.said
	if len(said) > mostSaid {
		said = said[len(said)-mostSaid:]
	}
	return append(said[:len(said):len(said)], "status "+m.Status.Label())
}

func (rec releaseRecord) details(m maas.Machine) map[string]any {
	return map[string]any{"maas_status": m.Status.Label(), "maas_said": rec.texts(m)}
}
