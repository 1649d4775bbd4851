package decommission

import (
	"context"
	"fmt"
	"strings"

	"gpuaas/contract/certificate"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/work/bringup"
)

// The words of documents that tenants read. The operation itself, which the document
// names, keeps who said what.
const (
	neutralRequester = "the control plane"
	neutralReason    = "a tenant has left"
	neutralOperator  = "an operator"
	neutralWhy       = "decided by an operator; kept with the operation"
	neutralRisk      = "what this would have removed or proven may be left"
)

// neutral takes the words of operators, their names and what a tenant called its
// file systems out of the document of an operation that cleans up after a tenant:
// that tenant and the next one read it. What was done and what was not stays.
func (s *Service) neutral(ctx context.Context, d Decommission, n node.Node, doc *certificate.Document) error {
	t, err := s.allocations.Of(ctx, s.db, d.Node)
	if err != nil || t == nil || t.Cleanup != d.ID {
		return err
	}
	o := &doc.Operation
	o.RequestedBy, o.Reason = neutralRequester, neutralReason
	o.Actors = []certificate.Actor{{Name: neutralRequester, Did: "asked for it: " + neutralReason, At: o.RequestedAt}}
	said := map[string]bool{}
	for i := range doc.Overrides {
		w := &doc.Overrides[i]
		said[w.Stage] = true
		w.By, w.Why, w.ResidualRisk = neutralOperator, neutralWhy, neutralRisk
		o.Actors = append(o.Actors, certificate.Actor{Name: neutralOperator, Did: "went on without " + w.Stage, At: w.At})
	}
	for i := range doc.Downgrades {
		w := &doc.Downgrades[i]
		switch {
		case said[w.Subject]:
			w.DecidedBy, w.Why, w.ResidualRisk = neutralOperator, neutralWhy, neutralRisk
		case strings.HasPrefix(w.DecidedBy, bringup.DecidedByAdopting):
			w.DecidedBy = bringup.DecidedByAdopting
		}
	}
	for i := range doc.Subjects {
		if s := &doc.Subjects[i]; s.Kind == "mounts" {
			s.Identifier = fmt.Sprintf("file systems of a tenant (%d)", i)
		}
	}
	if risk := n.Root.Risk; risk != "" {
		for i := range doc.NotCovered {
			doc.NotCovered[i].Why = strings.ReplaceAll(doc.NotCovered[i].Why, risk, neutralRisk)
		}
	}
	return nil
}
