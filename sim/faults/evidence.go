package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gpuaas/contract/apiclient"
	"gpuaas/contract/certificate"
)

// endsAs is the state of a node after a mode.
var endsAs = map[string]string{
	softReset: active, reimage: active, reactivateMode: active, retireMode: "retired", fullDecommission: deleted,
	removeMode: deleted,
}

const deleted = "deleted"

// certified are the modes that end with a certificate or a receipt.
var certified = []string{softReset, reimage, fullDecommission, retireMode}

// checkDecommissioned checks what must hold for a node after its decommission.
func (r *run) checkDecommissioned(ctx context.Context, v *standing) {
	n, want := r.nodeNow(ctx), endsAs[r.Mode]
	r.mu.Lock()
	if r.distrusted && want == active {
		want = "quarantined" // whoever did that decides when it ends
	}
	r.mu.Unlock()
	if string(n.Status) != want {
		r.violate("the %s ended, and its node is %q, not %s", r.Mode, n.Status, want)
	}
	if n.HeldBy != "" && want != deleted {
		r.violate("the %s ended, and its node is still held by %s", r.Mode, n.HeldBy)
	}
	if want == active && (!n.Schedulable || n.Tainted) {
		r.violate("the %s ended, and its node is schedulable: %t, tainted: %t", r.Mode, n.Schedulable, n.Tainted)
	}
	r.checkHistory(ctx)
	r.checkTasks(ctx)
	r.checkErase(v)
	r.checkReleases()
	if err := r.checkCertificate(ctx, v); err != nil {
		r.violate("the %s ended, and its certificate does not hold: %v", r.Mode, err)
	}
	if r.Mode == fullDecommission && r.Kind == Twice {
		r.checkAnew(ctx)
	}
}

// history returns all that happened to the node, the oldest first.
func (r *run) history(ctx context.Context) ([]apiclient.NodeHistoryView, error) {
	var out []apiclient.NodeHistoryView
	size := int64(100)
	for params := (&apiclient.GetNodeHistoryParams{PageSize: &size}); ; {
		page, err := r.world.api.GetNodeHistoryWithResponse(ctx, r.node, params)
		if _, err := apiclient.Read(page, err); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		out = append(out, page.JSON.Items...)
		if page.JSON.NextCursor == nil {
			slices.Reverse(out)
			return out, nil
		}
		params.Cursor = page.JSON.NextCursor
	}
}

// notEnabling are events that make no node schedulable.
var notEnabling = []string{"taint", "clean", "hold", "keep_out", "regain_contact"}

// checkHistory looks for gaps, and for moments in which the node could be
// scheduled although what a tenant left on it was not proven gone. Regaining
// contact only restores what was before.
func (r *run) checkHistory(ctx context.Context) {
	entries, err := r.history(ctx)
	if err != nil {
		r.trouble(err)
		return
	}
	status := ""
	for _, e := range entries {
		if from := text(e.FromStatus); from != "" && status != "" && from != status {
			r.violate("the history of the node has a gap: it was %s, and left %s", status, from)
		}
		if to := text(e.ToStatus); to != "" {
			status = to
		}
		event := text(e.Event)
		if slices.Contains(notEnabling, event) || event != "unhold" && text(e.ToStatus) != active && e.Kind != "updated" {
			continue
		}
		at := e.OccurredAt.Add(time.Microsecond)
		then, err := r.world.api.GetNodeHistoryWithResponse(ctx, r.node, &apiclient.GetNodeHistoryParams{At: &at})
		if _, err := apiclient.Read(then, err); err != nil {
			r.trouble(fmt.Errorf("read node as it was: %w", err))
			return
		}
		if was := then.JSON.AsOf; was != nil && was.Schedulable && was.Tainted {
			r.violate("%s made the node schedulable while it was tainted: %s", event, e.Cause)
		}
	}
}

func text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// tasks returns the tasks that this job gave the node.
func (r *run) tasks(ctx context.Context) []apiclient.AgenttaskView {
	return slices.DeleteFunc(r.allTasks(ctx), func(t apiclient.AgenttaskView) bool {
		return !strings.HasSuffix(text(t.WorkflowId), r.job.String())
	})
}

// allTasks returns the tasks that the node was given.
func (r *run) allTasks(ctx context.Context) []apiclient.AgenttaskView {
	var out []apiclient.AgenttaskView
	size := int64(100)
	for params := (&apiclient.ListNodeTasksParams{PageSize: &size}); ; {
		page, err := r.world.api.ListNodeTasksWithResponse(ctx, r.node, params)
		if _, err := apiclient.Read(page, err); err != nil {
			return nil // there is no node yet
		}
		out = append(out, page.JSON.Items...)
		if page.JSON.NextCursor == nil {
			return out
		}
		params.Cursor = page.JSON.NextCursor
	}
}

// checkTasks looks for tasks that were given while one of the same type was
// under way.
func (r *run) checkTasks(ctx context.Context) {
	all := r.tasks(ctx)
	for _, t := range all {
		if t.FinishedAt == nil {
			r.violate("the %s ended, and its task %s is %s", r.Mode, t.Type, t.Status)
		}
	}
	if task := givenTwice(all); task != "" {
		r.violate("the task %s was given twice at once", task)
	}
}

// givenTwice returns the type of a task that was given before one of the same
// type had ended. It is empty if there is none.
func givenTwice(all []apiclient.AgenttaskView) string {
	inOrder := slices.SortedStableFunc(slices.Values(all),
		func(a, b apiclient.AgenttaskView) int { return a.CreatedAt.Compare(b.CreatedAt) })
	open := map[string]*time.Time{} // by type: when the last one ended
	for _, t := range inOrder {
		ended, known := open[t.Type]
		if known && (ended == nil || t.CreatedAt.Before(*ended)) {
			return t.Type
		}
		open[t.Type] = t.FinishedAt
	}
	return ""
}

// checkErase checks that a weaker erase than requested is never done silently.
func (r *run) checkErase(v *standing) {
	facts, _ := v.Facts["release"].(map[string]any)
	if facts == nil {
		return
	}
	fellBack, _ := facts["fell_back"].(bool)
	if facts["achieved"] != facts["requested"] && !fellBack && len(v.Overrides) == 0 {
		r.violate("the erase that was asked for is %v, it is %v, and nobody decided that", facts["requested"],
			facts["achieved"])
	}
}

// checkReleases checks that nothing is released that others have deployed, and
// nothing at all in modes that release nothing.
func (r *run) checkReleases() {
	events := r.events()
	slices.Reverse(events)
	foreign := false
	for _, e := range events {
		ours := strings.Contains(e.Description, r.job.String())
		switch e.Type {
		case deployRequest:
			foreign = !ours && !strings.Contains(e.Description, r.brought.String())
		case "User releasing node":
			if ours && foreign {
				r.violate("a machine was released that somebody else had deployed")
			}
			if ours && r.Mode != reimage && r.Mode != fullDecommission {
				r.violate("a %s released the machine", r.Mode)
			}
		}
	}
}

// checkCertificate verifies the document as somebody would who does not trust
// the control plane, and looks for the evidence of its claims.
func (r *run) checkCertificate(ctx context.Context, v *standing) error {
	list, err := r.world.api.ListNodeCertificatesWithResponse(ctx, r.node, &apiclient.ListNodeCertificatesParams{})
	if _, err := apiclient.Read(list, err); err != nil {
		return fmt.Errorf("list certificates: %w", err)
	}
	mine := slices.DeleteFunc(list.JSON.Items, func(c apiclient.CertificateView) bool { return c.DecommissionId != r.job })
	if want := slices.Contains(certified, r.Mode); want != (len(mine) > 0) {
		return fmt.Errorf("there are %d", len(mine))
	}
	published, err := r.world.api.ListCertificateKeysWithResponse(ctx)
	if _, err := apiclient.Read(published, err); err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	keys, err := certificate.ParseKeys(published.Body)
	if err != nil {
		return err
	}
	for _, c := range mine {
		if err := r.checkSigned(ctx, c, keys, v); err != nil {
			return fmt.Errorf("number %d: %w", c.Seq, err)
		}
	}
	return nil
}

func (r *run) checkSigned(ctx context.Context, c apiclient.CertificateView, keys []certificate.Key, v *standing) error {
	answer, err := r.world.api.GetCertificateWithResponse(ctx, c.CertificateId)
	if _, err := apiclient.Read(answer, err); err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	signed, err := certificate.Verify(answer.Body, keys)
	if err != nil {
		return err
	}
	if err := signed.Document.Validate(); err != nil {
		return err
	}
	if facts, _ := v.Facts["release"].(map[string]any); facts != nil && facts["fell_back"] == true &&
		len(signed.Document.Downgrades) == 0 {
		return errors.New("it does not tell of the erase that was not done")
	}
	return r.founded(ctx, signed.Document)
}

// founded looks for the evidence that a certificate names.
func (r *run) founded(ctx context.Context, d certificate.Document) error {
	kept, err := r.world.api.ListDecommissionEvidenceWithResponse(ctx, r.job)
	if _, err := apiclient.Read(kept, err); err != nil {
		return fmt.Errorf("read evidence: %w", err)
	}
	there := map[string]bool{}
	for _, e := range kept.JSON.Items {
		there[fmt.Sprint(e.Seq, e.Stage, e.Kind)] = true
	}
	var named []certificate.Evidence
	for _, s := range d.Subjects {
		named = append(named, s.Evidence...)
	}
	for _, s := range d.Reported {
		named = append(named, s.Evidence...)
	}
	if d.Validation != nil {
		named = append(named, d.Validation.Evidence...)
	}
	for _, e := range named {
		if !there[fmt.Sprint(e.Seq, e.Stage, e.Kind)] {
			return fmt.Errorf("evidence %d (%s of %s) is not on record", e.Seq, e.Kind, e.Stage)
		}
	}
	return nil
}

// checkAnew onboards the machine of a deleted node again: it becomes another
// node.
func (r *run) checkAnew(ctx context.Context) {
	before := r.node
	if err := r.undisturbed(ctx, r.onboard); err != nil {
		r.trouble(fmt.Errorf("onboard the machine again: %w", err))
		return
	}
	if r.node == before {
		r.violate("the machine of a deleted node was given its id again")
	}
}
