package webhook

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Webhooks"
	pathProject = "/api/v1/projects/{project_id}/webhooks"
	pathOne     = pathProject + "/{webhook_id}"
	pathLog     = pathOne + "/deliveries"
)

// View is a webhook as the API shows it.
type View struct {
	WebhookID       id.Webhook `json:"webhook_id" doc:"Id of the webhook."`
	ProjectID       id.Project `json:"project_id"`
	Name            string     `json:"name"`
	URL             string     `json:"url" doc:"Where events are posted to."`
	Kinds           []string   `json:"kinds" nullable:"false" doc:"Types of events that it is told, or their beginnings with a star at the end; none: all."`
	Status          Status     `json:"status" enum:"enabled,disabled"`
	DisabledReason  string     `json:"disabled_reason,omitempty" doc:"Why it is disabled; absent: it is not."`
	DisabledAt      *time.Time `json:"disabled_at,omitempty"`
	FailingSince    *time.Time `json:"failing_since,omitempty" doc:"Since when every attempt has failed; absent: the last one succeeded, or there was none."`
	LastDeliveredAt *time.Time `json:"last_delivered_at,omitempty"`
	SecretRotatedAt time.Time  `json:"secret_rotated_at"`
	Version         int64      `json:"version" doc:"Grows with every change."`
	CreatedAt       time.Time  `json:"created_at"`
	CreatedBy       string     `json:"created_by" doc:"Id of who made it."`
}

func show(w Webhook) View {
	return View{
		WebhookID: w.ID, ProjectID: w.Project, Name: w.Name, URL: w.URL, Kinds: w.Kinds, Status: w.status(),
		DisabledReason: w.DisabledReason, DisabledAt: w.DisabledAt, FailingSince: w.FailingSince,
		LastDeliveredAt: w.LastDeliveredAt, SecretRotatedAt: w.SecretRotatedAt.UTC(), Version: w.Version,
		CreatedAt: w.CreatedAt.UTC(), CreatedBy: w.CreatedBy,
	}
}

// SecretView is a webhook with its secret, which is shown once.
type SecretView struct {
	Webhook View   `json:"webhook"`
	Secret  string `json:"secret" doc:"Signs what is posted, as Standard Webhooks describes. It is not shown again."`
}

func reveal(w Webhook, secret redact.Secret, err error) (*httpapi.Plain[SecretView], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[SecretView]{Body: SecretView{Webhook: show(w), Secret: secret.Reveal()}}, nil
}

// NewBody is a webhook to make.
type NewBody struct {
	Name  string   `json:"name" minLength:"1" maxLength:"100" example:"pager"`
	URL   string   `json:"url" minLength:"1" maxLength:"2000" doc:"https, to the public internet unless the platform allows more." example:"https://hooks.example.com/gpuaas"`
	Kinds []string `json:"kinds,omitempty" maxItems:"50" nullable:"false" doc:"Types of events, or their beginnings with a star at the end. Left out: all of the project." example:"[\"provisioning.*\"]"`
}

// ChangeBody is what is to be different; what is left out stays.
type ChangeBody struct {
	Name    *string   `json:"name,omitempty" minLength:"1" maxLength:"100"`
	URL     *string   `json:"url,omitempty" minLength:"1" maxLength:"2000" example:"https://hooks.example.com/gpuaas"`
	Kinds   *[]string `json:"kinds,omitempty" maxItems:"50" nullable:"false" example:"[\"provisioning.*\"]"`
	Enabled *bool     `json:"enabled,omitempty" doc:"false: it is told nothing, and what waits is given up."`
}

// ProjectPath names a project in the path. It is exported because the framework
// reads embedded parameters only from exported types.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Path names a webhook of a project in the path.
type Path struct {
	ProjectPath
	WebhookID id.Webhook `path:"webhook_id" doc:"Id of the webhook."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerProject(api)
	s.registerOne(api)
	s.registerLog(api)
}

func (s *Service) registerProject(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-webhook", Method: http.MethodPost, Path: pathProject, Tag: tag, Status: http.StatusCreated,
		Summary: "Have a project told its events at an address",
		Description: "Events of the project are posted as JSON, at least once, signed as Standard Webhooks describes: " +
			"`webhook-id` is the id of the event, `webhook-signature` an HMAC-SHA256 by the secret, which this answer " +
			"shows once. What is not answered with 2xx is tried again for about a day.",
		Access: httpapi.Project(auth.WebhookManage), SecretResponse: true,
	}, func(ctx context.Context, in *struct {
		ProjectPath
		Body NewBody
	},
	) (*httpapi.Plain[SecretView], error) {
		return reveal(s.Create(ctx, in.ProjectID, Wish{Name: in.Body.Name, URL: in.Body.URL, Kinds: in.Body.Kinds}))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-webhooks", Method: http.MethodGet, Path: pathProject, Tag: tag,
		Summary: "List the webhooks of a project", Access: httpapi.Project(auth.WebhookRead),
	}, func(ctx context.Context, in *struct {
		ProjectPath
		httpapi.Page
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Webhook](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, in.ProjectID, page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.WebhookID })
	})
}

func (s *Service) registerOne(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook", Method: http.MethodGet, Path: pathOne, Tag: tag,
		Summary: "Read a webhook", Access: httpapi.Project(auth.WebhookRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Versioned[View], error) {
		w, err := s.Get(ctx, in.ProjectID, in.WebhookID)
		return httpapi.AtVersion(w.Version, show(w)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-webhook", Method: http.MethodPatch, Path: pathOne, Tag: tag,
		Summary: "Change, disable or enable a webhook", Access: httpapi.Project(auth.WebhookManage),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.IfMatch
		Body ChangeBody
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		w, err := s.Update(ctx, in.ProjectID, in.WebhookID, version, Change(in.Body))
		return httpapi.AtVersion(w.Version, show(w)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-webhook", Method: http.MethodDelete, Path: pathOne, Tag: tag,
		Summary: "Delete a webhook with its log", Access: httpapi.Project(auth.WebhookManage),
	}, func(ctx context.Context, in *Path) (*httpapi.Nothing, error) {
		return nil, s.Delete(ctx, in.ProjectID, in.WebhookID)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "rotate-webhook-secret", Method: http.MethodPost, Path: pathOne + "/rotate-secret", Tag: tag,
		Summary:     "Give a webhook another secret",
		Description: "For a day both secrets sign, so that the receiver can change over.",
		Access:      httpapi.Project(auth.WebhookManage), SecretResponse: true,
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[SecretView], error) {
		return reveal(s.Rotate(ctx, in.ProjectID, in.WebhookID))
	})
}
