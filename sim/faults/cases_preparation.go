package faults

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas/fault"
	"gpuaas/sim/maas/region"
)

const layoutOp = "machine.set_storage_layout"

var storageCases = prepared((*run).blankDisks, map[Kind]Case{
	Before:    {What: "MAAS refuses to lay the disks out: it is being restarted", Mend: itsMAAS, set: away(layoutOp)},
	After:     {What: "MAAS lays the disks out, and its answer is lost", set: lost(layoutOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to lay the disks out", set: doubtful(layoutOp)},
	ErrorKind: {
		What: "no disk of the machine is a BOSS disk", Mend: "put the BOSS card in",
		set: func(r *run) {
			r.first(func(context.Context) error {
				others, err := r.otherDisks()
				if err != nil {
					return err
				}
				return r.rule(fault.Rule{
					Operation: readOp, Fault: fault.Lie,
					Set: map[string]any{"blockdevice_set": others, "boot_disk": nil},
				})
			})
		},
	},
	Lies: {
		What: "MAAS says that the disks are laid out as asked for, and has not touched them",
		set: func(r *run) {
			// As the machine looked before somebody blanked its disks.
			r.first(func(context.Context) error { return r.answers(layoutOp, r.laidOut, 1) })
		},
	},
	OutOfBand: {
		What: "somebody else deploys the machine", Mend: hisRelease,
		set: func(r *run) { befalls("redeploy")(r); r.mend = r.free },
	},
})

// blankDisks acts as somebody who removes the layout that an inspection leaves.
func (r *run) blankDisks() error {
	if r.Kind == OutOfBand || r.Kind == ErrorKind {
		return nil // that is enough
	}
	id, err := r.id()
	if err != nil {
		return err
	}
	if r.laidOut, err = r.document(nil); err != nil {
		return err
	}
	_, err = r.world.Lab.SetStorageLayout(admin, id, url.Values{"storage_layout": {"blank"}})
	return err
}

// otherDisks returns disks that nobody would take for a BOSS disk.
func (r *run) otherDisks() ([]any, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	all, err := r.world.Lab.BlockDevices(admin, id)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, d := range all {
		text, err := changed(d, nil)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(text, "BOSS") {
			out = append(out, d)
		}
	}
	return out, nil
}

const linkOp = "interface.link_subnet"

func withAddresses(w *wish) { w.addresses = true }

var roceCases = addressed(map[Kind]Case{
	Before:    {What: "MAAS refuses to link the address: it is being restarted", set: away(linkOp)},
	After:     {What: "MAAS links the address, and its answer is lost", set: lost(linkOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to link the address", set: doubtful(linkOp)},
	ErrorKind: {
		What: "MAAS refuses the address",
		set: func(r *run) {
			r.first(func(context.Context) error {
				return r.rule(fault.Rule{
					Operation: linkOp, Fault: fault.ErrorBefore, Status: 400, ContentType: "application/json",
					Text: `{"ip_address": ["IP address is not in the given subnet."]}`,
				})
			})
		},
	},
	Lies: {
		What: "MAAS says that the address is linked, and has done nothing",
		set: func(r *run) {
			r.first(func(context.Context) error {
				_, doc, err := r.iface(roceIface)
				if err != nil {
					return err
				}
				text, err := changed(doc, nil)
				if err != nil {
					return err
				}
				return r.answers(linkOp, text, 1)
			})
		},
	},
	OutOfBand: {What: "somebody removes the machine from MAAS", set: befalls("delete")},
})

// addressed returns the cases of RoCE, including the usual ones, at a site that
// has an address for the machine. Only an address that MAAS refuses may be
// missing in the end.
func addressed(own map[Kind]Case) map[Kind]Case {
	for _, kind := range Kinds {
		c, described := own[kind]
		if !described {
			c = usual(kind)
		}
		c.wish = withAddresses
		if kind != Before && kind != ErrorKind {
			c.proof = (*run).hasAddress
		}
		own[kind] = c
	}
	return own
}

func (r *run) hasAddress() error {
	_, doc, err := r.iface(roceIface)
	if err != nil {
		return err
	}
	for _, l := range doc.Links {
		if l.IP == r.address() {
			return nil
		}
	}
	return fmt.Errorf("%s has not got the address %s", roceIface, r.address())
}

// iface finds an interface of the machine.
func (r *run) iface(name string) (id string, doc region.InterfaceDoc, err error) {
	if id, err = r.id(); err != nil {
		return id, doc, err
	}
	all, err := r.world.Lab.Interfaces(admin, id)
	if err != nil {
		return id, doc, err
	}
	for _, i := range all {
		if i.Name == name {
			return id, i, nil
		}
	}
	return id, doc, fmt.Errorf("%s has no interface %s", r.hostname, name)
}

var pxeCases = prepared((*run).unlinkPXE, map[Kind]Case{
	Before:    {What: "MAAS refuses to link the interface: it is being restarted", Mend: itsMAAS, set: away(linkOp)},
	After:     {What: "MAAS links the interface, and its answer is lost", set: lost(linkOp)},
	Ambiguous: {What: "a proxy gives up waiting for MAAS to link the interface", set: doubtful(linkOp)},
	ErrorKind: {
		What: "the machine has no interface of the name that the profile gives", Mend: "correct the profile",
		wish: func(w *wish) { w.pxeIface = "eno9999" },
		set: func(r *run) {
			r.mend = func(ctx context.Context) error {
				none := ""
				return r.world.change(ctx, r, apiclient.SiteProfileChangeBody{NodePxeIface: &none})
			}
		},
	},
	Lies: {
		What: "MAAS says that the interface is linked, and has done nothing",
		set: func(r *run) {
			r.first(func(context.Context) error { return r.answers(linkOp, r.linked, 1) })
		},
	},
	OutOfBand: {What: "somebody takes the link of the interface away", set: func(*run) {}},
})

// unlinkPXE acts as somebody who takes the PXE interface off its network.
func (r *run) unlinkPXE() error { return r.unlink(lab.PXEIface) }

// unlinkRoCE removes the address that an earlier installation has left.
func (r *run) unlinkRoCE() error { return r.unlink(roceIface) }

func (r *run) unlink(name string) error {
	id, doc, err := r.iface(name)
	if err != nil {
		return err
	}
	if r.linked, err = changed(doc, nil); err != nil {
		return err
	}
	for _, l := range doc.Links {
		if _, err := r.world.Lab.Unlink(admin, id, doc.ID, url.Values{"id": {strconv.Itoa(l.ID)}}); err != nil {
			return err
		}
	}
	return nil
}

var renderCases = map[Kind]Case{
	ErrorKind: {
		What: "the database has lost the bundle of the site", Mend: "take it out of the profile",
		wish: func(w *wish) { w.bundle = "base@1" },
		set: func(r *run) {
			r.first(func(ctx context.Context) error { return r.world.Lose(ctx, r.programDigest()) })
			r.mend = func(ctx context.Context) error {
				none := ""
				return r.world.change(ctx, r, apiclient.SiteProfileChangeBody{SiteBootstrapBundleRef: &none})
			}
		},
	},
	Lies: {
		What: "the secrets engine says that it keeps the first boot, and does not have it afterwards",
		set: func(r *run) {
			r.at(deploy, func(ctx context.Context) error {
				return r.world.Forget(ctx, "first-boot/"+string(r.Family)+"/"+r.job.String())
			})
		},
	},
	OutOfBand: {What: "somebody removes the machine from MAAS", set: befalls("delete")},
}
