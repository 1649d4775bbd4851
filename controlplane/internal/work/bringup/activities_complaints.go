package bringup

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
)

// complaints hold what MAAS recorded about a machine since the stage began.
type complaints struct {
	events []string
	bmc    bool // the power could not be controlled
	late   bool // MAAS itself gave up waiting
}

const (
	mostEvents = 5
	clocksOff  = time.Minute // the most by which the clocks differ, and the time from the request to the stage that waits
)

func (c complaints) details(m maas.Machine) map[string]any {
	d := map[string]any{"maas_status": m.Status.Label(), "power_state": string(m.PowerState)}
	if len(c.events) > 0 {
		d["maas_events"] = c.events
	}
	return d
}

func (b *Bringup) complaintsOf(ctx context.Context, w *Work) complaints {
	r, err := b.region(ctx, w)
	if err != nil {
		return complaints{}
	}
	return b.complaints(ctx, r, w)
}

// complaints reads the events that MAAS recorded since the stage began. If they
// cannot be read, the failure is reported without them.
func (b *Bringup) complaints(ctx context.Context, r *region, w *Work) complaints {
	var out complaints
	events, err := r.Events(ctx, maas.EventQuery{IDs: []string{w.SystemID}, Level: maas.LevelWarning, Limit: 20})
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "MAAS events cannot be read", "machine", w.SystemID, "error", err)
		return out
	}
	for _, e := range events {
		if !e.Created.IsZero() && e.Created.Before(w.Since.Add(-clocksOff)) {
			continue // belongs to an earlier round
		}
		text := maas.Shown(e.Type + ": " + e.Description)
		out.events = append(out.events, text)
		out.bmc = out.bmc || maas.AboutBMC(text)
		out.late = out.late || strings.Contains(text, "timed out after")
	}
	out.events = out.events[max(0, len(out.events)-mostEvents):]
	return out
}

// wordsOfMAAS returns what MAAS itself answered, or recorded as its reason. It
// returns "" if there is nothing, or if the answer did not come from MAAS.
func wordsOfMAAS(err error) string {
	if d, known := maas.DetailOf(err); known && fault.CodeOf(err) != maas.CodeNotMAAS &&
		!strings.HasPrefix(d.Snippet, "<") {
		return d.Snippet
	}
	var m *maas.MachineError
	if errors.As(err, &m) && m.Event != nil {
		return maas.Shown(cmp.Or(m.Event.Description, m.Event.Type))
	}
	return ""
}
