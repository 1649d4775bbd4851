package decommission

import (
	"fmt"
	"slices"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/fleet/node"
)

// testimony states what access tenants had on the node, and which installation
// gives the evidence.
func (b *builder) testimony() {
	n := b.node
	b.doc.Access = &certificate.Access{Had: certificate.NoAccess}
	switch {
	case b.d.hadRoot(n):
		at := n.Root.At.UTC()
		b.doc.Access = &certificate.Access{Had: certificate.RootAccess, Cause: string(n.Root.Cause), At: &at}
	case n.TaintedAt != nil:
		at := n.TaintedAt.UTC()
		b.doc.Access = &certificate.Access{Had: certificate.UserAccess, At: &at}
	}
	b.doc.Installation = &certificate.Installation{
		Generation: n.Generation, MadeBy: n.Installation.By,
		Independent: !n.Compromised() && !n.Root.Accepted(),
	}
	if made := n.Installation.MadeAt; made != nil {
		at := made.UTC()
		b.doc.Installation.MadeAt = &at
	}
}

// acceptedBefore names a risk that an earlier operation accepted. The
// installation is the same, so this document carries the risk as well.
func (b *builder) acceptedBefore() {
	r := b.node.Root
	if !r.Accepted() || slices.ContainsFunc(b.d.Overrides, func(o Override) bool { return o.Stage == RootTaint }) {
		return
	}
	b.doc.Overrides = append(b.doc.Overrides, certificate.Override{
		Stage: RootTaint, By: or(r.AcceptedBy, "see the history of the node"), At: r.EndedAt.UTC(), ResidualRisk: r.Risk,
		Why: fmt.Sprintf("accepted by an earlier operation, after somebody had root at %s (%s)", stamp(*r.At), r.Cause),
	})
}

// hear adds what a piece of evidence supports. Evidence from an installation
// that somebody had root on is shown with that remark, and supports no claim.
func (b *builder) hear(e Evidence) error {
	why := b.dependent[e.Seq]
	if why == "" {
		return b.take(e)
	}
	aside := builder{d: b.d, node: b.node, judged: b.judged}
	if err := aside.take(e); err != nil {
		return err
	}
	for _, s := range aside.doc.Subjects {
		s.NotIndependent, s.Level, s.Verification.Result = why, certificate.None, certificate.NotVerifiable
		if s.Outcome == certificate.Sanitized {
			s.Outcome, s.Detail = certificate.Done, "as that installation says"
		}
		b.doc.Subjects = append(b.doc.Subjects, s)
	}
	if v := aside.doc.Validation; v != nil {
		v.NotIndependent = why
		b.doc.Validation = v
	}
	return nil
}

// rootGaps names what stays open because somebody had root or may have had it.
func (b *builder) rootGaps() {
	const firmware = "firmware, BMC and memory of devices other than those named"
	n := b.node
	if b.d.hadRoot(n) {
		b.gap(firmware, "somebody had root, who can change them, and nothing here looks at them")
	} else {
		b.gap(firmware, "nothing here looks at them")
	}
	if b.d.Mode != SoftReset && b.d.Mode != Retire {
		return
	}
	const changes = "changes that somebody with root made to the installation"
	switch {
	case n.Root.Accepted():
		b.gap(changes, fmt.Sprintf("somebody had root at %s (%s), and the installation stays; only a reimage is rid of what that leaves; accepted as a risk: %s", stamp(*n.Root.At), n.Root.Cause, n.Root.Risk))
	case n.Access() != node.RootAccess:
		b.gap(changes, "nobody is known to have had root; whoever got it in another way is not noticed by looking through the same installation, and only a reimage is rid of what that leaves")
	}
}
