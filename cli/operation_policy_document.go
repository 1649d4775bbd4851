package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) policyDocumentColumns() []table.Column[apiclient.PolicyDocumentView] {
	type document = apiclient.PolicyDocumentView
	return []table.Column[document]{
		{Title: "DOCUMENT", Text: func(v document) string { return v.Document }},
		{Title: "DECIDES", Text: func(v document) string { return yesNo(v.Active) }},
		{Title: "TITLE", Text: func(v document) string { return v.Title }},
		ago(a, "ADDED", func(v document) time.Time { return v.CreatedAt }),
		{Title: "DIGEST", Text: func(v document) string { return v.Digest }},
		{Title: "REASON", Text: func(v document) string { return text(v.Reason) }, Detail: true},
		{Title: "EXAMPLES", Text: func(v document) string {
			if v.Examples == nil {
				return ""
			}
			names := make([]string, len(*v.Examples))
			for i, e := range *v.Examples {
				names[i] = e.Name
			}
			return strings.Join(names, "; ")
		}, Detail: true},
	}
}

func (a *app) trialColumns() []table.Column[apiclient.PolicyTrialView] {
	type trial = apiclient.PolicyTrialView
	return []table.Column[trial]{
		{Title: "EXAMPLE", Long: true, Text: func(v trial) string { return v.Name }},
		{Title: "PASSED", Text: func(v trial) string { return yesNo(v.Passed) }},
		{Title: "DENIED", Text: func(v trial) string { return yesNo(v.Denied) }},
		{Title: "REASONS", Long: true, Text: func(v trial) string { return strings.Join(v.Reasons, "; ") }},
		{Title: "WHY IT FAILED", Long: true, Text: func(v trial) string { return text(v.Message) }},
	}
}

// readPolicyDocument reads a file as YAML or JSON. A name that a document does not have
// is refused.
func readPolicyDocument(s *session, file string) (apiclient.PolicyDocumentBody, error) {
	var body apiclient.PolicyDocumentBody
	refuse := func(err error) error {
		return failure.New(failure.Usage, "policy_document_unreadable",
			"name a file with title, rego and examples, as YAML or JSON", "read the policy document: %v", err)
	}
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(s.Cmd.InOrStdin())
	} else {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return body, refuse(err)
	}
	var plain any
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		return body, refuse(err)
	}
	if raw, err = json.Marshal(plain); err != nil {
		return body, refuse(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return body, refuse(err)
	}
	return body, nil
}

func (a *app) policyDocumentCommand() *cobra.Command {
	return a.noun(noun{
		use: "document", short: "The policy document of the platform, which decides after the levels",
		long: "A policy document is a file with a title, a policy in the language of Open Policy Agent (rego) and examples.\n" +
			"It can only deny. Versions never change; one decides about runs once it is activated, and it is activated only\n" +
			"if all of its examples pass. Only administrators of the platform use these commands.",
	},
		a.policyDocumentApplyCommand(), a.policyDocumentTryCommand(),
		a.verb(verb{
			use: "list", short: "List the versions, newest first", aliases: []string{"ls"},
			operations: []string{"list-operation-policy-documents"},
			flags: func(cmd *cobra.Command) action {
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.PolicyDocumentView]{
						Columns: a.policyDocumentColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListOperationPolicyDocumentsWithResponse(s.Ctx,
								&apiclient.ListOperationPolicyDocumentsParams{Cursor: p.Cursor, PageSize: p.Size})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "show VERSION", short: "Show a version; with -o yaml as a file", aliases: []string{"get"},
			args: frame.Exactly("VERSION"), operations: []string{"get-operation-policy-document"},
			run: func(s *session, args []string) error {
				show := frame.Show(s.Session, a.policyDocumentColumns())
				return show(s.API.GetOperationPolicyDocumentWithResponse(s.Ctx, args[0]))
			},
		}),
		a.verb(verb{
			use: "activate VERSION", short: "Have a version decide about runs, if its examples pass",
			args: frame.Exactly("VERSION"), operations: []string{"activate-operation-policy-document"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, args []string) error {
					return frame.Show(s.Session, a.policyDocumentColumns())(s.API.ActivateOperationPolicyDocumentWithResponse(s.Ctx,
						args[0], &apiclient.ActivateOperationPolicyDocumentParams{},
						apiclient.PolicyDocumentReasonBody{Reason: frame.Given(s.Session, "reason", reason)}))
				}
			},
		}),
		a.verb(verb{
			use: "deactivate", short: "Deactivate the document: only the levels decide",
			operations: []string{"deactivate-operation-policy-document"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "the reason, kept in the audit log")
				return func(s *session, _ []string) error {
					return frame.Done(s.Session, "no policy document decides any more")(
						s.API.DeactivateOperationPolicyDocumentWithResponse(s.Ctx, &apiclient.DeactivateOperationPolicyDocumentParams{},
							apiclient.PolicyDocumentReasonBody{Reason: frame.Given(s.Session, "reason", reason)}))
				}
			},
		}),
	)
}

func (a *app) policyDocumentApplyCommand() *cobra.Command {
	return a.verb(verb{
		use: "apply -f FILE", short: "Keep a document as the next version",
		operations: []string{"add-operation-policy-document", "activate-operation-policy-document"},
		long:       "It decides about nothing until it is activated. What is the same as the newest version is not kept again.",
		example:    "  gpuaas operation policy document apply -f office-hours.yaml --activate",
		flags: func(cmd *cobra.Command) action {
			file := cmd.Flags().StringP("file", "f", "", "the document, as YAML or JSON; - reads standard input")
			activate := cmd.Flags().Bool("activate", false, "have it decide at once, if its examples pass")
			return func(s *session, _ []string) error {
				if err := s.Require("file"); err != nil {
					return err
				}
				body, err := readPolicyDocument(s, *file)
				if err != nil {
					return err
				}
				show := frame.Show(s.Session, a.policyDocumentColumns())
				answer, err := s.API.AddOperationPolicyDocumentWithResponse(s.Ctx,
					&apiclient.AddOperationPolicyDocumentParams{}, body)
				if !*activate {
					return show(answer, err)
				}
				made, err := frame.Fetch[apiclient.PolicyDocumentView](answer, err)
				if err != nil {
					return err
				}
				return show(s.API.ActivateOperationPolicyDocumentWithResponse(s.Ctx, made.Document,
					&apiclient.ActivateOperationPolicyDocumentParams{}, apiclient.PolicyDocumentReasonBody{}))
			}
		},
	})
}

func (a *app) policyDocumentTryCommand() *cobra.Command {
	return a.verb(verb{
		use: "try [VERSION]", short: "Ask a document about its examples, and change nothing", args: cobra.MaximumNArgs(1),
		operations: []string{"try-operation-policy-document", "try-kept-operation-policy-document"},
		long:       "Of a version that is kept, or of a file with -f. It ends with exit code 8 if an example fails.",
		flags: func(cmd *cobra.Command) action {
			file := cmd.Flags().StringP("file", "f", "", "the document, as YAML or JSON; - reads standard input")
			return func(s *session, args []string) error {
				if (len(args) == 1) == (*file != "") {
					return failure.Misuse(s.Cmd, "give either a version or -f FILE")
				}
				if len(args) == 1 {
					return a.showTrials(s)(s.API.TryKeptOperationPolicyDocumentWithResponse(s.Ctx, args[0],
						&apiclient.TryKeptOperationPolicyDocumentParams{}))
				}
				body, err := readPolicyDocument(s, *file)
				if err != nil {
					return err
				}
				return a.showTrials(s)(s.API.TryOperationPolicyDocumentWithResponse(s.Ctx,
					&apiclient.TryOperationPolicyDocumentParams{}, body))
			}
		},
	})
}

// showTrials prints what a document says of its examples, and fails if one fails.
func (a *app) showTrials(s *session) func(apiclient.Answer, error) error {
	return func(answer apiclient.Answer, err error) error {
		v, err := frame.Fetch[apiclient.PolicyTrialsView](answer, err)
		if err != nil {
			return err
		}
		raws := make([]json.RawMessage, len(v.Trials))
		failed := 0
		for i, t := range v.Trials {
			if raws[i], err = json.Marshal(t); err != nil {
				return fmt.Errorf("encode a trial: %w", err)
			}
			if !t.Passed {
				failed++
			}
		}
		if err := frame.PrintList(a.App, a.trialColumns(), raws); err != nil {
			return err
		}
		if failed > 0 {
			return failure.New(failure.Unsuccessful, "operation_policy_examples_failed",
				"fix the policy or the example and try again", "%d of %d examples fail", failed, len(v.Trials))
		}
		if format, err := a.Format(); err == nil && format == output.Table {
			s.Note("all %d examples pass", len(v.Trials))
		}
		return nil
	}
}
