package bringup

import (
	"context"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/adapter/maas"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/node"
)

// hardwareOf returns the serials and the UUID that commissioning found. MAAS writes
// Unknown for what it did not find; that does not count as a serial.
func hardwareOf(m maas.Machine) agentwire.Hardware {
	h := agentwire.Hardware{
		UUID: m.HardwareUUID, SystemSerial: m.HardwareInfo["system_serial"], BoardSerial: m.HardwareInfo["mainboard_serial"],
		ChassisSerial: m.HardwareInfo["chassis_serial"],
	}
	for _, i := range m.Interfaces {
		h.MACs = append(h.MACs, i.MAC)
	}
	if m.BootInterface != nil {
		h.MACs = append(h.MACs, m.BootInterface.MAC)
	}
	return h
}

// IdentityVoid returns why a job cannot go on with a node whose identity was
// voided. It returns nil if the identity is valid.
func IdentityVoid(n node.Node) *Failure {
	if n.IdentityVoid == "" {
		return nil
	}
	return CodeIdentityVoid.Failed("no machine can be trusted to be %s any more: %s", n.Hostname, n.IdentityVoid).
		With("find out who had the token of %s, and whether the machine is the one that MAAS knows; then resume: "+
			"the machine is reinstalled with a new token, and the old token stops working", n.Hostname).ForGood().
		About(map[string]any{
			"identity_void": n.IdentityVoid,
			"expected":      "the machine that MAAS knows enrols, and nobody else",
		})
}

// withoutVoid releases a machine whose first boot holds a token that was voided.
// The machine can never enrol with that token, and somebody else may have read it.
// Releasing destroys nothing of value, because no tenant ever had the machine.
func (b *Bringup) withoutVoid(ctx context.Context, r *region, w *Work, m maas.Machine) (maas.Machine, error) {
	if m.Status != maas.StatusDeploying && m.Status != maas.StatusDeployed {
		return m, nil
	}
	n, err := b.cfg.Nodes.Node(ctx, w.Node)
	if fault.KindOf(err) == fault.NotFound {
		return m, nil
	}
	if err != nil || n.IdentityVoid == "" {
		return m, err
	}
	if err := b.ourDeployment(ctx, r, w, m); err != nil {
		return m, err
	}
	giveUp := *w
	giveUp.Reset = true // a machine that became Deployed meanwhile is not wanted either
	if m, err = b.release(ctx, r, &giveUp); err != nil {
		return m, err
	}
	w.Observed = giveUp.Observed
	w.Facts.uninstalled()
	return m, w.Save(ctx)
}
