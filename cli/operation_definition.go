package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) catalogColumns() []table.Column[apiclient.DefinitionCatalogView] {
	type entry = apiclient.DefinitionCatalogView
	return []table.Column[entry]{
		{Title: "DEFINITION", Text: func(v entry) string { return v.DefinitionId }},
		{Title: "STATUS", Text: func(v entry) string { return string(v.Status) }},
		{Title: "RISK", Text: func(v entry) string { return string(v.Risk) }},
		{Title: "IMPACT", Text: func(v entry) string { return string(v.Impact) }},
		{Title: "TARGETS", Long: true, Text: func(v entry) string { return strings.Join(v.Targets, ", ") }},
		{Title: "TITLE", Long: true, Text: func(v entry) string { return v.Title }},
		{Title: "DESCRIPTION", Text: func(v entry) string { return text(v.Description) }, Detail: true},
		{Title: "RISK IN WORDS", Text: func(v entry) string { return v.RiskText }, Detail: true},
		{Title: "STATUS REASON", Text: func(v entry) string { return text(v.StatusReason) }, Detail: true},
		{Title: "NODE MAY BE RENTED BY", Text: func(v entry) string { return string(v.Rented) }, Detail: true},
		{Title: "NEEDS APPROVAL BY", Text: func(v entry) string { return string(v.Approval) }, Detail: true},
		{Title: "TAKES AT MOST", Text: func(v entry) string {
			return strconv.FormatInt(v.MaxDurationSeconds, 10) + " s"
		}, Detail: true},
		{Title: "INPUTS", Text: func(v entry) string { return inputNames(compact(v.Inputs)) }, Detail: true},
		{Title: "STEPS", Text: stepsText, Detail: true},
		{Title: "DIGEST", Text: func(v entry) string { return v.Digest }, Detail: true},
	}
}

// stepsText is one line for all steps.
func stepsText(v apiclient.DefinitionCatalogView) string {
	steps := make([]string, len(v.Steps))
	for i, s := range v.Steps {
		steps[i] = s.Id + " (" + s.Kind + ")"
	}
	return strings.Join(steps, ", then ")
}

// inputNames lists what a schema asks for; a star marks what must be given.
func inputNames(schema string) string {
	var s struct {
		Properties map[string]struct {
			Type    string          `json:"type"`
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return ""
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		line := name + " " + p.Type
		if p.Default != nil {
			line += " = " + string(p.Default)
		}
		for _, r := range s.Required {
			if r == name {
				line = name + "* " + p.Type
			}
		}
		names = append(names, line)
	}
	return strings.Join(names, ", ")
}

func (a *app) definitionColumns() []table.Column[apiclient.DefinitionAdminView] {
	type version = apiclient.DefinitionAdminView
	return []table.Column[version]{
		{Title: "DEFINITION", Text: func(v version) string { return v.DefinitionId }},
		{Title: "STATUS", Text: func(v version) string { return string(v.Status) }},
		{Title: "RISK", Text: func(v version) string { return string(v.Risk) }},
		{Title: "IMPACT", Text: func(v version) string { return string(v.Impact) }},
		{Title: "STEPS", Text: func(v version) string { return strconv.FormatInt(v.Steps, 10) }},
		{Title: "ORIGIN", Text: func(v version) string { return string(v.Origin) }},
		{Title: "TITLE", Long: true, Text: func(v version) string { return v.Title }},
		{Title: "STATUS REASON", Text: func(v version) string { return text(v.StatusReason) }, Detail: true},
		{Title: "DIGEST", Text: func(v version) string { return v.Digest }, Detail: true},
		{Title: "UPDATED", Text: func(v version) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "REVISION", Text: func(v version) string { return strconv.FormatInt(v.Revision, 10) }, Detail: true},
	}
}

func (a *app) operationDefinitionCommand() *cobra.Command {
	return a.noun(noun{
		use: "definition", short: "What work on nodes can be: versions of definitions",
		long: "A definition is a file: inputs, typed steps, safety and risk. A version is a draft until it is activated, and\n" +
			"its document never changes afterwards. Only administrators of the platform register and change them.",
	},
		a.definitionListCommand(),
		a.verb(verb{
			use: "show TYPE@VERSION", short: "Show an operation that can be run: its inputs, steps and risk",
			args: frame.Exactly("TYPE@VERSION"), operations: []string{"get-operation-catalog-entry"},
			run: func(s *session, args []string) error {
				return frame.Show(s.Session, a.catalogColumns())(s.API.GetOperationCatalogEntryWithResponse(s.Ctx, args[0]))
			},
		}),
		a.definitionApplyCommand(), a.definitionValidateCommand(), a.definitionDiffCommand(),
		a.verb(verb{
			use: "export TYPE@VERSION", short: "Print the whole definition as a file, for administrators",
			args: frame.Exactly("TYPE@VERSION"), operations: []string{"get-operation-definition"},
			long: "It prints YAML, or JSON with -o json; both can be applied again.",
			run: func(s *session, args []string) error {
				v, err := frame.Fetch[struct {
					Document json.RawMessage `json:"document"`
				}](s.API.GetOperationDefinitionWithResponse(s.Ctx, args[0]))
				if err != nil {
					return err
				}
				format, err := a.Format()
				if err != nil {
					return err
				}
				if format == output.Table {
					format = output.YAML
				}
				return output.Print(a.Program.Out, format, v.Document)
			},
		}),
		a.verb(verb{
			use: "activate TYPE@VERSION", short: "Activate a draft: it can be run, and never changes again",
			args: frame.Exactly("TYPE@VERSION"), operations: []string{"activate-operation-definition"},
			run: func(s *session, args []string) error {
				return frame.Show(s.Session, a.definitionColumns())(s.API.ActivateOperationDefinitionWithResponse(s.Ctx, args[0],
					&apiclient.ActivateOperationDefinitionParams{}, apiclient.DefinitionReasonBody{}))
			},
		}),
		a.verb(verb{
			use: "deprecate TYPE@VERSION", short: "Tell whoever runs a version to use another",
			args: frame.Exactly("TYPE@VERSION"), operations: []string{"deprecate-operation-definition"},
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "what to use instead; whoever runs it reads it")
				return func(s *session, args []string) error {
					return frame.Show(s.Session, a.definitionColumns())(s.API.DeprecateOperationDefinitionWithResponse(s.Ctx,
						args[0], &apiclient.DeprecateOperationDefinitionParams{},
						apiclient.DefinitionReasonBody{Reason: frame.Given(s.Session, "reason", reason)}))
				}
			},
		}),
		a.verb(verb{
			use: "retire TYPE@VERSION", short: "Take a version out of use for good",
			args: frame.Exactly("TYPE@VERSION"), operations: []string{"retire-operation-definition"},
			long: "It cannot be run any more and cannot be brought back. What runs is finished.",
			flags: func(cmd *cobra.Command) action {
				reason := cmd.Flags().String("reason", "", "why")
				yes := frame.AddYesFlag(cmd)
				return func(s *session, args []string) error {
					if err := s.Confirm(*yes, "retire %s: it can never be run again", args[0]); err != nil {
						return err
					}
					return frame.Show(s.Session, a.definitionColumns())(s.API.RetireOperationDefinitionWithResponse(s.Ctx,
						args[0], &apiclient.RetireOperationDefinitionParams{},
						apiclient.DefinitionReasonBody{Reason: frame.Given(s.Session, "reason", reason)}))
				}
			},
		}),
	)
}

func (a *app) definitionListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List the operations that can be run", aliases: []string{"ls"},
		operations: []string{"list-operation-catalog", "list-operation-definitions"},
		long:       "With --all also drafts and retired versions, for those with a role on the platform.",
		flags: func(cmd *cobra.Command) action {
			kind := cmd.Flags().String("type", "", "only versions of this type")
			all := cmd.Flags().Bool("all", false, "drafts and retired versions, too")
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				if *all {
					return listing.Print(s.Session, f, listing.Listing[apiclient.DefinitionAdminView]{
						Columns: a.definitionColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListOperationDefinitionsWithResponse(s.Ctx, &apiclient.ListOperationDefinitionsParams{
								Cursor: p.Cursor, PageSize: p.Size, Type: frame.Given(s.Session, "type", kind),
							})
						},
					})
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.DefinitionCatalogView]{
					Columns: a.catalogColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListOperationCatalogWithResponse(s.Ctx, &apiclient.ListOperationCatalogParams{
							Cursor: p.Cursor, PageSize: p.Size, Type: frame.Given(s.Session, "type", kind),
						})
					},
				})
			}
		},
	})
}

// sourceFlag adds --file and reads what it names.
func sourceFlag(cmd *cobra.Command) func(s *session) (string, error) {
	file := cmd.Flags().StringP("file", "f", "", "the definition, as YAML or JSON; - reads standard input")
	return func(s *session) (string, error) {
		if err := s.Require("file"); err != nil {
			return "", err
		}
		var b []byte
		var err error
		if *file == "-" {
			b, err = io.ReadAll(s.Cmd.InOrStdin())
		} else {
			b, err = os.ReadFile(*file)
		}
		if err != nil {
			return "", failure.New(failure.Usage, "definition_unreadable", "name a file that you can read",
				"read the definition: %v", err)
		}
		return string(b), nil
	}
}

// report asks what a document is worth and fails if it cannot be accepted.
func (s *session) report(source string) (apiclient.DefinitionReport, error) {
	r, err := frame.Fetch[apiclient.DefinitionReport](s.API.ValidateOperationDefinitionWithResponse(s.Ctx,
		&apiclient.ValidateOperationDefinitionParams{}, apiclient.DefinitionSourceBody{Source: source}))
	if err != nil || r.Valid {
		return r, err
	}
	lines := make([]string, len(r.Problems))
	for i, p := range r.Problems {
		lines[i] = p.Message
		if path := text(p.Path); path != "" {
			lines[i] = path + ": " + p.Message
		}
	}
	return r, failure.New(failure.Usage, "operation_definition_invalid", "fix what is named and try again",
		"the definition cannot be accepted: %s", strings.Join(lines, "; "))
}

func (a *app) definitionValidateCommand() *cobra.Command {
	return a.verb(verb{
		use: "validate -f FILE", short: "Check a definition without keeping it",
		operations: []string{"validate-operation-definition"},
		long:       "It names the path of everything that is wrong, and ends with exit code 2 then.",
		flags: func(cmd *cobra.Command) action {
			read := sourceFlag(cmd)
			return func(s *session, _ []string) error {
				source, err := read(s)
				if err != nil {
					return err
				}
				r, err := s.report(source)
				if err != nil {
					return err
				}
				return output.Write(a.Program.Out, fmt.Sprintf("%s can be accepted (%s)\n", text(r.DefinitionId), text(r.Digest)))
			}
		},
	})
}

func (a *app) definitionApplyCommand() *cobra.Command {
	return a.verb(verb{
		use: "apply -f FILE", short: "Register a version, or replace its draft",
		operations: []string{
			"validate-operation-definition", "create-operation-definition", "update-operation-definition",
			"activate-operation-definition",
		},
		long: "What is kept already is left as it is, so a file can be applied again. A version that is active never\n" +
			"changes: give the document the next version.",
		example: "  gpuaas operation definition apply -f web.prepare.yaml --activate",
		flags: func(cmd *cobra.Command) action {
			read := sourceFlag(cmd)
			activate := cmd.Flags().Bool("activate", false, "activate it at once")
			return func(s *session, _ []string) error {
				source, err := read(s)
				if err != nil {
					return err
				}
				r, err := s.report(source)
				if err != nil {
					return err
				}
				return a.applyDefinition(s, r, source, *activate)
			}
		},
	})
}

func (a *app) applyDefinition(s *session, r apiclient.DefinitionReport, source string, activate bool) error {
	show := frame.Show(s.Session, a.definitionColumns())
	name := text(r.DefinitionId)
	changed := r.Changes != nil && len(*r.Changes) > 0
	switch {
	case r.Kept == nil:
		return show(s.API.CreateOperationDefinitionWithResponse(s.Ctx, &apiclient.CreateOperationDefinitionParams{},
			apiclient.DefinitionNewBody{Source: source, Activate: &activate}))
	case string(*r.Kept) != "draft" && changed:
		return failure.New(failure.Conflict, "operation_definition_frozen",
			"give the document the next version; see what differs: gpuaas operation definition diff "+name+" -f FILE",
			"%s is %s, so its document never changes, and the file has another", name, *r.Kept)
	case changed:
		var revision int64
		if r.Revision != nil {
			revision = *r.Revision
		}
		answer, err := s.API.UpdateOperationDefinitionWithResponse(s.Ctx, name,
			&apiclient.UpdateOperationDefinitionParams{IfMatch: frame.ETag(revision)},
			apiclient.DefinitionSourceBody{Source: source})
		if !activate {
			return show(answer, err)
		}
		if _, err := frame.Fetch[apiclient.DefinitionAdminView](answer, err); err != nil {
			return err
		}
	}
	if activate && string(*r.Kept) == "draft" {
		return show(s.API.ActivateOperationDefinitionWithResponse(s.Ctx, name,
			&apiclient.ActivateOperationDefinitionParams{}, apiclient.DefinitionReasonBody{}))
	}
	return output.Write(a.Program.Out, name+" is kept like this already\n")
}

func (a *app) changeColumns() []table.Column[apiclient.DefinitionChangeView] {
	type change = apiclient.DefinitionChangeView
	value := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil || string(raw) == "null" {
			return "-"
		}
		return string(raw)
	}
	return []table.Column[change]{
		{Title: "PATH", Long: true, Text: func(v change) string { return v.Path }},
		{Title: "FROM", Long: true, Text: func(v change) string { return value(v.From) }},
		{Title: "TO", Long: true, Text: func(v change) string { return value(v.To) }},
	}
}

func (a *app) definitionDiffCommand() *cobra.Command {
	return a.verb(verb{
		use: "diff TYPE@VERSION [TYPE@VERSION]", short: "Show what differs between two versions, or a version and a file",
		args:       cobra.RangeArgs(1, 2),
		operations: []string{"diff-operation-definition", "validate-operation-definition"},
		example: "  gpuaas operation definition diff web.prepare@v1 web.prepare@v2\n" +
			"  gpuaas operation definition diff web.prepare@v1 -f web.prepare.yaml",
		flags: func(cmd *cobra.Command) action {
			read := sourceFlag(cmd)
			return func(s *session, args []string) error {
				if len(args) == 2 {
					d, err := frame.Fetch[apiclient.DefinitionDiffView](s.API.DiffOperationDefinitionWithResponse(s.Ctx, args[0],
						&apiclient.DiffOperationDefinitionParams{To: args[1]}))
					if err != nil {
						return err
					}
					return a.showChanges(d.Changes)
				}
				source, err := read(s)
				if err != nil {
					return err
				}
				r, err := s.report(source)
				if err != nil {
					return err
				}
				if text(r.DefinitionId) != args[0] {
					return failure.Misuse(s.Cmd, "the file is about %s, not about %s", text(r.DefinitionId), args[0])
				}
				if r.Changes == nil {
					return a.showChanges(nil)
				}
				return a.showChanges(*r.Changes)
			}
		},
	})
}

func (a *app) showChanges(changes []apiclient.DefinitionChangeView) error {
	raws := make([]json.RawMessage, len(changes))
	for i, c := range changes {
		raw, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode a difference: %w", err)
		}
		raws[i] = raw
	}
	if format, err := a.Format(); err == nil && format == output.Table && len(changes) == 0 {
		return output.Write(a.Program.Out, "nothing differs\n")
	}
	return frame.PrintList(a.App, a.changeColumns(), raws)
}
