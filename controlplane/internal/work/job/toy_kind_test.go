package job_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/httpapi/httpapitest"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/work/job"
)

// What the control plane asks of a kind of job: Described, RegisterWorker, Register
// and Page. The rest of a loan is in toy_test.go.

// Described says what loans are called and how they live.
func (s *library) Described() job.Described { return loans.Described() }

// loanNames are the names in the histories of loans.
var loanNames = job.WorkflowNames{
	Type: "Loan", Next: "next_loan", Lost: "lose_loan", Wake: "wake_loan",
	Stage: func(s string) string { return "loan." + s },
}

func lend(ctx workflow.Context, in job.Input) error { return loanNames.Run(ctx, in.ID) }

// RegisterWorker adds the workflow of a loan and its activities to a worker.
func (s *library) RegisterWorker(w worker.Registry) { s.runner.RegisterWorker(w, lend) }

const loansPath, loanPath = "/api/v1/admin/loans", "/api/v1/admin/loans/{loan_id}"

type (
	// LoanPath names a loan in the path. It is exported because the framework reads
	// only exported embedded parameters.
	LoanPath struct {
		LoanID id.Job `path:"loan_id"`
	}
	// AskLoan is a request for a book.
	AskLoan struct {
		Body AskLoanBody
	}
	// AskLoanBody says which book.
	AskLoanBody struct {
		Book string `json:"book" minLength:"1" maxLength:"200"`
	}
	// ActOnLoan is what an operator does about a loan.
	ActOnLoan struct {
		LoanPath
		Body job.ActionBody
	}
	// LoanView is a loan as the API shows it. Statuses are texts, because the enums
	// of package job are those of the lifecycle Parking.
	LoanView struct {
		LoanID  string   `json:"loan_id"`
		Book    string   `json:"book"`
		Status  string   `json:"status"`
		Page    int      `json:"page"`
		Actions []string `json:"legal_actions" nullable:"false"`
	}
)

func showLoan(l loan) LoanView {
	v := LoanView{LoanID: l.ID, Book: l.Book, Status: string(l.Status), Page: l.Page, Actions: []string{}}
	legal, _ := loans.ActionsOf(l)
	for _, action := range legal {
		v.Actions = append(v.Actions, string(action))
	}
	return v
}

// Register adds the operations of loans to an API. A kind with events also has a
// feed of them (job.RegisterFeed).
func (s *library) Register(api *httpapi.API, _ job.Feed) {
	like := httpapi.Operation{Tag: "Loans", Access: httpapi.Platform(auth.OnboardingManage)}

	ask := like
	ask.ID, ask.Method, ask.Path, ask.Summary = "ask-loan", http.MethodPost, loansPath, "Ask for a book"
	ask.Status = http.StatusAccepted
	httpapi.Register(api, ask, func(ctx context.Context, in *AskLoan) (*httpapi.Plain[LoanView], error) {
		made, err := s.ask(ctx, in.Body.Book)
		if postgres.Violates(err, job.ClaimTaken) {
			err = fault.New(fault.Conflict, "book_taken", "%s is lent already", in.Body.Book).
				WithRemedy("wait until it is back")
		}
		return &httpapi.Plain[LoanView]{Body: showLoan(made)}, err
	})

	get := like
	get.ID, get.Method, get.Path, get.Summary = "get-loan", http.MethodGet, loanPath, "Read a loan"
	httpapi.Register(api, get, func(ctx context.Context, in *LoanPath) (*httpapi.Plain[LoanView], error) {
		l, err := s.rows.Get(ctx, in.LoanID.String())
		return &httpapi.Plain[LoanView]{Body: showLoan(l)}, err
	})

	like.Path = loanPath
	job.RegisterVerbs(api, like, &lending, []job.Verb{
		{ID: "try-loan-again", Action: again, Summary: "Run the failed stage again"},
		{ID: "withdraw-loan", Action: withdraw, Summary: "Fetch the book back"},
	}, func(ctx context.Context, in *ActOnLoan, action job.Trigger) (LoanView, error) {
		after, err := s.runner.Act(ctx, in.LoanID.String(), action, in.Body.Reason)
		return showLoan(after), err
	})
}

// Page is the page of the documents about the stages. The heading of a stage ends
// with its name in quotes: gpuaas sim faults reads it there.
func (s *library) Page() string {
	var page strings.Builder
	page.WriteString("# The stages of a loan\n")
	for _, stage := range loans.Table(loan{}) {
		fmt.Fprintf(&page, "\n## %s (`%s`)\n\n- Ends when: %s\n", stage.Title, stage.Name, stage.Expects)
	}
	return page.String()
}

func TestAKindIsAskedForReadAndActedOnThroughItsOwnOperations(t *testing.T) {
	s := newLibrary(t)
	api := httpapitest.New(s.db)
	s.Register(api, nil)
	call := func(method, path string, body any) httpapitest.Answer {
		return httpapitest.Call(t, api.Handler(), httpapitest.Request{
			As: httpapitest.Operator, Method: method, Path: path, Body: body,
		})
	}
	var l LoanView
	call(http.MethodPost, loansPath, map[string]any{"book": "Dune"}).Into(t, http.StatusAccepted, &l)
	if l.Status != "asked" || l.Book != "Dune" {
		t.Errorf("asked for: %+v", l)
	}
	taken := call(http.MethodPost, loansPath, map[string]any{"book": "Dune"})
	if taken.Status != http.StatusConflict || taken.Problem(t).Code != "book_taken" {
		t.Errorf("two readers have the book: %d %s", taken.Status, taken.Body)
	}
	one := loansPath + "/" + l.LoanID
	call(http.MethodPost, one+"/"+string(withdraw), map[string]any{"reason": "it is needed elsewhere"}).
		Into(t, http.StatusAccepted, &l)
	call(http.MethodGet, one, nil).Into(t, http.StatusOK, &l)
	if l.Status != "withdrawn" || len(l.Actions) != 0 {
		t.Errorf("withdrawn: %+v", l)
	}
	if page := s.Page(); !strings.Contains(page, "(`hand_over`)") || s.Described().Noun != "loan" {
		t.Errorf("its page is %q", page)
	}
}
