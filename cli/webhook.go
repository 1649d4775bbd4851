package cli

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) webhookColumns() []table.Column[apiclient.WebhookView] {
	type hook = apiclient.WebhookView
	return []table.Column[hook]{
		{Title: "NAME", Text: func(w hook) string { return w.Name }},
		{Title: "STATUS", Text: func(w hook) string { return string(w.Status) }},
		{Title: "URL", Long: true, Text: func(w hook) string { return w.Url }},
		{Title: "EVENTS", Long: true, Text: func(w hook) string { return cmp.Or(strings.Join(w.Kinds, " "), "all") }},
		ago(a, "LAST DELIVERED", func(w hook) *time.Time { return w.LastDeliveredAt }),
		ago(a, "FAILING SINCE", func(w hook) *time.Time { return w.FailingSince }),
		{Title: "ID", Wide: true, Text: func(w hook) string { return w.WebhookId.String() }},
		{Title: "DISABLED BECAUSE", Text: func(w hook) string { return text(w.DisabledReason) }, Detail: true},
		{Title: "SECRET SINCE", Text: func(w hook) string { return a.When(w.SecretRotatedAt) }, Detail: true},
	}
}

func (a *app) deliveryColumns() []table.Column[apiclient.WebhookDeliveryView] {
	type delivery = apiclient.WebhookDeliveryView
	return []table.Column[delivery]{
		at(a, "TIME", func(d delivery) time.Time { return d.CreatedAt }),
		{Title: "EVENT", Text: func(d delivery) string { return d.EventType }},
		{Title: "STATUS", Text: func(d delivery) string { return string(d.Status) }},
		{Title: "ATTEMPTS", Wide: true, Text: func(d delivery) string { return strconv.Itoa(int(d.Attempts)) }},
		{Title: "ANSWER", Text: func(d delivery) string {
			if d.AnswerCode == nil {
				return ""
			}
			return strconv.Itoa(int(*d.AnswerCode))
		}},
		ago(a, "NEXT", func(d delivery) *time.Time { return d.NextAttemptAt }),
		{Title: "FAILURE", Long: true, Text: func(d delivery) string { return text(d.Failure) }},
		{Title: "ID", Text: func(d delivery) string { return d.DeliveryId.String() }},
		{Title: "EVENT ID", Text: func(d delivery) string { return d.EventId.String() }, Detail: true},
		{Title: "ANSWER BEGINS", Text: func(d delivery) string { return text(d.AnswerText) }, Detail: true},
	}
}

func (a *app) webhookCommand() *cobra.Command {
	return a.noun(noun{
		use: "webhook", short: "Addresses to which a project's events are sent", group: groupRent,
		long: "A webhook is named by its name or id. Events are posted as JSON and signed as Standard Webhooks\n" +
			"describes; what is not answered with 2xx is tried again for about a day.",
	}, a.webhookCreateCommand(), a.webhookListCommand(), a.webhookShowCommand(), a.webhookUpdateCommand(),
		a.webhookDeleteCommand(), a.webhookRotateCommand(), a.webhookTestCommand(), a.webhookDeliveriesCommand(),
		a.webhookRedeliverCommand())
}

// hookOf finds a webhook of a project by its name or id.
func (s *session) hookOf(c scope, name string) (project, id types.UUID, err error) {
	if project, err = s.projectID(c); err != nil {
		return project, id, err
	}
	if id, ok := frame.ParseID(name); ok {
		return project, id, nil
	}
	w, ok, err := listing.Find(s.webhooksOf(project), func(w apiclient.WebhookView) bool { return w.Name == name })
	if err == nil && !ok {
		err = failure.Missing("list them: gpuaas webhook list --project "+project.String(),
			"the project has no webhook %q", name)
	}
	return project, w.WebhookId, err
}

func (s *session) webhooksOf(project types.UUID) func(listing.Page) (apiclient.Answer, error) {
	return func(p listing.Page) (apiclient.Answer, error) {
		return s.API.ListWebhooksWithResponse(s.Ctx, project,
			&apiclient.ListWebhooksParams{Cursor: p.Cursor, PageSize: p.Size})
	}
}

// onWebhook does something with the webhook that the first argument names.
func onWebhook(do func(s *session, project, id types.UUID) error) func(*cobra.Command) action {
	return func(cmd *cobra.Command) action {
		c := &scope{}
		c.addProject(cmd)
		return func(s *session, args []string) error {
			project, id, err := s.hookOf(*c, args[0])
			if err != nil {
				return err
			}
			return do(s, project, id)
		}
	}
}

func (a *app) webhookCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Have a project told its events; the secret is shown once", args: frame.Exactly("NAME"),
		operations: []string{"create-webhook"},
		long: "Prints the secret that signs, alone, on standard output: the only time that it is shown.\n" +
			"Without --event it is told all events of the project.",
		example: "  gpuaas webhook create pager --project acme/training --url https://hooks.example.com/gpuaas \\\n" +
			"      --event 'provisioning.*' > pager.secret",
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			url := cmd.Flags().String("url", "", "where events are posted to; https")
			kinds := cmd.Flags().StringSlice("event", nil, "type of events, or its beginning and a star; may be repeated")
			return func(s *session, args []string) error {
				if err := s.Require("url"); err != nil {
					return err
				}
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return s.showSecret(s.API.CreateWebhookWithResponse(s.Ctx, project, &apiclient.CreateWebhookParams{},
					apiclient.WebhookNewBody{Name: args[0], Url: *url, Kinds: frame.Given(s.Session, "event", kinds)}))
			}
		},
	})
}

// showSecret prints a secret that is shown once.
func (s *session) showSecret(resp apiclient.Answer, err error) error {
	raw, err := apiclient.Read(resp, err)
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
	o, err := output.Decode[apiclient.WebhookSecretView](raw)
	if err != nil {
		return err
	}
	s.Note("the secret of webhook %s (%s) is shown this once:", o.Value.Webhook.Name, o.Value.Webhook.WebhookId)
	return output.Write(s.Program.Out, output.Harmless(o.Value.Secret)+"\n")
}

func (a *app) webhookListCommand() *cobra.Command {
	return a.verb(verb{
		use: "list", short: "List the webhooks of a project", aliases: []string{"ls"}, operations: []string{"list-webhooks"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			f := listing.AddFlags(cmd, 0)
			return func(s *session, _ []string) error {
				project, err := s.projectID(*c)
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.WebhookView]{
					Columns: a.webhookColumns(), Fetch: s.webhooksOf(project),
				})
			}
		},
	})
}

func (a *app) webhookShowCommand() *cobra.Command {
	return a.verb(verb{
		use: "show WEBHOOK", short: "Show a webhook", aliases: []string{"get"}, args: frame.Exactly("WEBHOOK"),
		operations: []string{"list-webhooks", "get-webhook"},
		flags: onWebhook(func(s *session, project, id types.UUID) error {
			return frame.Show(s.Session, a.webhookColumns())(s.API.GetWebhookWithResponse(s.Ctx, project, id))
		}),
	})
}

func (a *app) webhookUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update WEBHOOK", short: "Change, disable or enable a webhook", args: frame.Exactly("WEBHOOK"),
		operations: []string{"list-webhooks", "get-webhook", "update-webhook"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			name := cmd.Flags().String("name", "", "another name")
			url := cmd.Flags().String("url", "", "another address")
			kinds := cmd.Flags().StringSlice("event", nil, "what it is told instead; '*' for all")
			cmd.Flags().Bool("disable", false, "stop deliveries, and discard waiting events")
			cmd.Flags().Bool("enable", false, "tell it events again")
			return func(s *session, args []string) error {
				body := apiclient.WebhookChangeBody{
					Name: frame.Given(s.Session, "name", name), Url: frame.Given(s.Session, "url", url),
					Kinds: frame.Given(s.Session, "event", kinds),
				}
				return a.updateWebhook(s, *c, args[0], body)
			}
		},
	})
}

func (a *app) updateWebhook(s *session, c scope, name string, body apiclient.WebhookChangeBody) error {
	if err := s.Anything("name", "url", "event", "disable", "enable"); err != nil {
		return err
	}
	disabled, err := s.Switched("disable", "enable")
	if err != nil {
		return err
	}
	if disabled != nil {
		body.Enabled = frame.Ptr(!*disabled)
	}
	project, id, err := s.hookOf(c, name)
	if err != nil {
		return err
	}
	now, err := frame.Fetch[apiclient.WebhookView](s.API.GetWebhookWithResponse(s.Ctx, project, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.webhookColumns())(s.API.UpdateWebhookWithResponse(s.Ctx, project, id,
		&apiclient.UpdateWebhookParams{IfMatch: frame.ETag(now.Version)}, body))
}

func (a *app) webhookDeleteCommand() *cobra.Command {
	return a.verb(verb{
		use: "delete WEBHOOK", short: "Delete a webhook with its log", aliases: []string{"rm"},
		args: frame.Exactly("WEBHOOK"), operations: []string{"list-webhooks", "delete-webhook"},
		flags: onWebhook(func(s *session, project, id types.UUID) error {
			return frame.Done(s.Session, "the webhook is deleted")(
				s.API.DeleteWebhookWithResponse(s.Ctx, project, id, &apiclient.DeleteWebhookParams{}))
		}),
	})
}

func (a *app) webhookRotateCommand() *cobra.Command {
	return a.verb(verb{
		use: "rotate-secret WEBHOOK", short: "Give a webhook another secret; it is shown once",
		args:       frame.Exactly("WEBHOOK"),
		operations: []string{"list-webhooks", "rotate-webhook-secret"},
		long:       "For a day both secrets sign, so that the receiver can change over.",
		flags: onWebhook(func(s *session, project, id types.UUID) error {
			return s.showSecret(s.API.RotateWebhookSecretWithResponse(s.Ctx, project, id,
				&apiclient.RotateWebhookSecretParams{}))
		}),
	})
}

func (a *app) webhookTestCommand() *cobra.Command {
	return a.verb(verb{
		use: "test WEBHOOK", short: "Post the event webhook.test to a webhook", args: frame.Exactly("WEBHOOK"),
		operations: []string{"list-webhooks", "test-webhook"},
		long:       "What became of it: gpuaas webhook deliveries WEBHOOK",
		flags: onWebhook(func(s *session, project, id types.UUID) error {
			return frame.Show(s.Session, a.deliveryColumns())(
				s.API.TestWebhookWithResponse(s.Ctx, project, id, &apiclient.TestWebhookParams{}))
		}),
	})
}

func (a *app) webhookDeliveriesCommand() *cobra.Command {
	return a.verb(verb{
		use: "deliveries WEBHOOK", short: "List what a webhook was told, newest first", args: frame.Exactly("WEBHOOK"),
		operations: []string{"list-webhooks", "list-webhook-deliveries"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			status := cmd.Flags().String("status", "", "only those with this status: waiting, delivered or failed")
			frame.Complete(cmd, "status", apiclient.Words("list-webhook-deliveries.status")...)
			f := listing.AddFlags(cmd, 50)
			return func(s *session, args []string) error {
				project, id, err := s.hookOf(*c, args[0])
				if err != nil {
					return err
				}
				return listing.Print(s.Session, f, listing.Listing[apiclient.WebhookDeliveryView]{
					Columns: a.deliveryColumns(),
					Fetch: func(p listing.Page) (apiclient.Answer, error) {
						return s.API.ListWebhookDeliveriesWithResponse(s.Ctx, project, id, &apiclient.ListWebhookDeliveriesParams{
							Cursor: p.Cursor, PageSize: p.Size,
							Status: frame.GivenAs[apiclient.ListWebhookDeliveriesParamsStatus](s.Session, "status", status),
						})
					},
				})
			}
		},
	})
}

func (a *app) webhookRedeliverCommand() *cobra.Command {
	return a.verb(verb{
		use: "redeliver WEBHOOK DELIVERY", short: "Post an event of the log once more",
		args: frame.Exactly("WEBHOOK", "DELIVERY"), operations: []string{"list-webhooks", "redeliver-webhook"},
		flags: func(cmd *cobra.Command) action {
			c := &scope{}
			c.addProject(cmd)
			return func(s *session, args []string) error {
				project, id, err := s.hookOf(*c, args[0])
				if err != nil {
					return err
				}
				which, err := s.IDOf("a delivery", args[1])
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.deliveryColumns())(
					s.API.RedeliverWebhookWithResponse(s.Ctx, project, id, which, &apiclient.RedeliverWebhookParams{}))
			}
		},
	})
}
