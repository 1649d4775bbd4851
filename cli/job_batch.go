package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// batchView is a batch of any family: what all batches show, and what only those of
// one family do.
type batchView struct {
	apiclient.OnboardingBatchView
	Mode string `json:"mode"` // of decommissions
}

// batchKind is what a family brings to the commands on its batches.
type batchKind struct {
	noun, unit string // onboarding, server
	total      string // title of the column that says how many there are
	short      string
	cancels    string // what cancelling does
	own        []table.Column[batchView]
	list       func(s *session, p listing.Page) (apiclient.Answer, error)
	get        func(s *session, id types.UUID) (apiclient.Answer, error)
	// pause, resume and cancel are called with a reason.
	pause, resume, cancel func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error)
}

func (a *app) batchColumns(k batchKind) []table.Column[batchView] {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return slices.Concat([]table.Column[batchView]{
		{Title: "BATCH", Text: func(v batchView) string { return v.BatchId.String() }},
	}, k.own, []table.Column[batchView]{
		{Title: "STATE", Text: func(v batchView) string { return string(v.State) }},
		{Title: k.total, Text: func(v batchView) string { return count(v.Total) }},
		{Title: "SUCCEEDED", Text: func(v batchView) string { return count(v.Succeeded) }},
		{Title: "PARKED", Text: func(v batchView) string { return count(v.Failed) }},
		{Title: "RUNNING", Text: func(v batchView) string { return count(v.Counts.Running + v.Counts.Compensating) }},
		{Title: "PENDING", Wide: true, Text: func(v batchView) string { return count(v.Counts.Pending) }},
		{Title: "CANCELLED", Wide: true, Text: func(v batchView) string { return count(v.Counts.Cancelled) }},
		ago(a, "REQUESTED", func(v batchView) time.Time { return v.RequestedAt }),
		{Title: "AT ONCE", Text: func(v batchView) string { return count(v.MaxParallel) }, Detail: true},
		{Title: "MAY FAIL", Text: func(v batchView) string {
			if v.MaxFailures == nil {
				return "any number"
			}
			return count(*v.MaxFailures)
		}, Detail: true},
		{Title: "BECAUSE", Text: func(v batchView) string { return v.Reason }, Detail: true},
		{Title: "REQUESTED BY", Text: func(v batchView) string { return v.RequestedBy }, Detail: true},
		{Title: "PAUSED", Text: func(v batchView) string { return a.Whenever(v.PausedAt) }, Detail: true},
		{Title: "PAUSED BY", Text: func(v batchView) string { return text(v.PausedByName) }, Detail: true},
		{Title: "PAUSED BECAUSE", Text: func(v batchView) string { return text(v.PauseReason) }, Detail: true},
		{Title: "CANCELLED AT", Text: func(v batchView) string { return a.Whenever(v.CancelledAt) }, Detail: true},
	})
}

// batchCommand is the command on the batches of a family; more are the verbs that
// only this family has.
func (a *app) batchCommand(k batchKind, more ...*cobra.Command) *cobra.Command {
	return a.noun(noun{use: "batch", short: k.short}, append(more,
		a.verb(verb{
			use: "list", short: "List batches, newest first", aliases: []string{"ls"},
			operations: []string{"list-" + k.noun + "-batches"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 50)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[batchView]{
						Columns: a.batchColumns(k), Fetch: func(p listing.Page) (apiclient.Answer, error) { return k.list(s, p) },
					})
				}
			},
		}),
		a.verb(verb{
			use: "show BATCH", short: "Show how many " + k.unit + "s of a batch stand how", aliases: []string{"get"},
			args:       frame.Exactly("BATCH"),
			operations: []string{"get-" + k.noun + "-batch"},
			run: func(s *session, args []string) error {
				id, err := s.IDOf("a batch", args[0])
				if err != nil {
					return err
				}
				return s.showBatch(k, func() (apiclient.Answer, error) { return k.get(s, id) })
			},
		}),
		a.batchActionCommand(k, "pause", "Begin no further "+k.unit+" of a batch; running ones continue", k.pause),
		a.batchActionCommand(k, "resume", "Continue a batch that is paused, or was halted because too many failed", k.resume),
		a.batchActionCommand(k, "cancel", k.cancels, k.cancel),
	)...)
}

// showBatch shows a batch, and says where to look next.
func (s *session) showBatch(k batchKind, get func() (apiclient.Answer, error)) error {
	raw, err := apiclient.Read(get())
	if err != nil {
		return err
	}
	if err := frame.PrintOne(s.App, s.app.batchColumns(k), raw); err != nil {
		return err
	}
	b, err := output.Decode[batchView](raw)
	if err != nil {
		return err
	}
	s.Note("its %ss: gpuaas %s list --batch %s", k.unit, k.noun, b.Value.BatchId)
	if b.Value.State == "halted" {
		s.Note("%s, so no further %s starts; look at those that failed: gpuaas %s list --batch %s --status failed; "+
			"then continue: gpuaas %[3]s batch resume %[4]s",
			text(b.Value.PauseReason), k.unit, k.noun, b.Value.BatchId)
	}
	return nil
}

// batchActionCommand is what is done to a batch.
func (a *app) batchActionCommand(k batchKind, word, short string,
	call func(s *session, id types.UUID, b apiclient.JobActionBody) (apiclient.Answer, error),
) *cobra.Command {
	return a.verb(verb{
		use: word + " BATCH", short: short, args: frame.Exactly("BATCH"),
		operations: []string{word + "-" + k.noun + "-batch"},
		flags: func(cmd *cobra.Command) action {
			reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
			return func(s *session, args []string) error {
				if err := s.Require("reason"); err != nil {
					return err
				}
				id, err := s.IDOf("a batch", args[0])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.batchColumns(k))(call(s, id, apiclient.JobActionBody{Reason: *reason}))
			}
		},
	})
}
