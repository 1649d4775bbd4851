package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// jobNoun is how jobs of a kind are named and shown on the command line.
type jobNoun[T any] struct {
	noun, argument string
	columns        []table.Column[T]
	resolve        func(s *session, name string) (types.UUID, error)
	many           manyJobs
}

// about is a command about one job and nothing else.
func (n jobNoun[T]) about(do func(s *session, job types.UUID) error) action {
	return func(s *session, args []string) error {
		id, err := n.resolve(s, args[0])
		if err != nil {
			return err
		}
		return do(s, id)
	}
}

// ledgerEntry is an entry of the ledger of a job of any kind.
type ledgerEntry struct {
	OccurredAt time.Time `json:"occurred_at"`
	Stage      string    `json:"stage"`
	Attempt    int64     `json:"attempt"`
	Status     string    `json:"status"`
	Message    string    `json:"message"`
}

func (a *app) ledgerColumns() []table.Column[ledgerEntry] {
	type entry = ledgerEntry
	return []table.Column[entry]{
		{Title: "TIME", Text: func(v entry) string { return v.OccurredAt.In(a.Zone).Format("2006-01-02 15:04:05") }},
		{Title: "STAGE", Text: func(v entry) string { return v.Stage }},
		{Title: "ATTEMPT", Text: func(v entry) string { return strconv.FormatInt(v.Attempt, 10) }},
		{Title: "STATUS", Text: func(v entry) string { return v.Status }},
		{Title: "MESSAGE", Long: true, Text: func(v entry) string { return v.Message }},
	}
}

// jobDetail is a job of any kind with the newest entries of its ledger.
type jobDetail struct {
	jobView
	Events []ledgerEntry `json:"events"`
}

// explanation is how a job of any kind stands, as the contract says it.
type explanation struct {
	Summary       string              `json:"summary"`
	Status        string              `json:"status"`
	Expected      string              `json:"expected"`
	Observed      string              `json:"observed"`
	ObservedAt    *time.Time          `json:"observed_at"`
	ObservedSince *time.Time          `json:"observed_since"`
	WaitingSince  *time.Time          `json:"waiting_since"`
	FailureClass  string              `json:"failure_class"`
	ErrorCode     string              `json:"error_code"`
	LikelyCause   string              `json:"likely_cause"`
	Remedy        string              `json:"remedy"`
	Actions       []explanationAction `json:"actions"`
	Override      *explanationAction  `json:"override"`
}

type explanationAction struct {
	Rank    int    `json:"rank"`
	Legal   bool   `json:"legal"`
	Safety  string `json:"safety"`
	Does    string `json:"does"`
	Command string `json:"command"`
}

// explainCommand says why a job stands where it does.
func explainCommand[T any](a *app, n jobNoun[T], v verb,
	get func(s *session, job types.UUID) (apiclient.Answer, error),
) *cobra.Command {
	v.use, v.args = "explain "+n.argument, frame.Exactly(n.argument)
	v.run = n.about(func(s *session, id types.UUID) error {
		raw, err := apiclient.Read(get(s, id))
		if err != nil {
			return err
		}
		format, err := s.Format()
		if err != nil {
			return err
		}
		if format != output.Table {
			return output.Print(s.Program.Out, format, raw)
		}
		e, err := output.Decode[explanation](raw)
		if err != nil {
			return err
		}
		return output.Write(s.Program.Out, a.explanationText(e.Value))
	})
	return a.verb(v)
}

// explanationText is an explanation for people.
func (a *app) explanationText(e explanation) string {
	var b strings.Builder
	b.WriteString(output.Harmless(e.Summary) + "\n\n")
	line := func(title, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(&b, "%-14s %s\n", title, output.Harmless(value)) // a builder takes everything
		}
	}
	line("expected", e.Expected)
	line("observed", e.Observed)
	line("seen at", a.Whenever(e.ObservedAt))
	line("unchanged since", a.Whenever(e.ObservedSince))
	if e.Expected == "" { // it waits for nothing any more
		line("ended", a.Whenever(e.WaitingSince))
	} else {
		line("waiting since", a.Whenever(e.WaitingSince))
	}
	if e.FailureClass != "" {
		line("failure", e.FailureClass+prefixed(", ", e.ErrorCode))
	}
	line("likely cause", e.LikelyCause)
	line("remedy", e.Remedy)
	b.WriteString(actionsText(e))
	if e.Override != nil {
		b.WriteString("\nor, if that cannot be fixed:\n  " + output.Harmless(e.Override.Command) + "\n     " +
			output.Harmless(safetyText("needs_care")+": "+e.Override.Does) + "\n")
	}
	return b.String()
}

// actionsText lists what can be done. What goes on by itself needs nothing.
func actionsText(e explanation) string {
	var b strings.Builder
	for _, action := range e.Actions {
		if !action.Legal || action.Rank == 0 {
			continue
		}
		b.WriteString(output.Harmless(fmt.Sprintf("  %d. %s", action.Rank, action.Command)) + "\n")
		b.WriteString(output.Harmless("     "+safetyText(action.Safety)+": "+action.Does) + "\n")
	}
	switch {
	case strings.HasPrefix(e.Status, "failed_"):
		return "\nwhat you can do, best option first:\n" + b.String()
	case e.Expected == "": // it has ended
		return ""
	case b.Len() == 0:
		return "\nnothing to do: it continues automatically\n"
	case e.Remedy != "":
		return "\nwhat else you can do:\n" + b.String()
	}
	return "\nnothing to do: it continues automatically\n\nwhat you can do to intervene:\n" + b.String()
}

// safetyText is a safety class for people.
func safetyText(class string) string {
	switch class {
	case "destroys_data":
		return "DESTROYS DATA"
	case "needs_care":
		return "needs care"
	}
	return class
}
