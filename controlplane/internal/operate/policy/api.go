package policy

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag         = "Operation policies"
	pathGlobal  = "/api/v1/admin/operation-policies"
	pathTenant  = "/api/v1/tenants/{org_id}/operation-policies"
	pathProject = "/api/v1/projects/{project_id}/operation-policies"
	ofType      = "/{operation_type}"
)

// ValuesView is what a level settles; what is absent is left to others.
type ValuesView struct {
	Enabled          *bool     `json:"enabled,omitempty" doc:"Whether it can be run. The most specific level decides, unless the platform denies it for good."`
	MaxConcurrency   *int64    `json:"max_concurrency,omitempty" doc:"How many targets of a run are worked on at a time. The smallest of all levels counts."`
	TimeoutSeconds   *int64    `json:"timeout_seconds,omitempty" doc:"How long it may take on one target. The smallest of all levels counts."`
	ArtifactSources  *[]string `json:"allowed_artifact_sources,omitempty" nullable:"false" doc:"Prefixes that artifacts may come from; an empty list allows none. Only what every level allows is allowed."`
	TargetKinds      *[]string `json:"allowed_target_kinds,omitempty" nullable:"false" doc:"Of node, allocation, group. Only what every level allows is allowed."`
	RequireSignature *bool     `json:"require_signature_verification,omitempty" doc:"Whether signatures of artifacts must be verified. What one level demands is demanded."`
	MaxArtifactSize  *int64    `json:"max_artifact_size_bytes,omitempty" doc:"How large an artifact may be. The smallest of all levels counts."`
}

// Body replaces what a level has settled.
type Body struct {
	ValuesView
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for whoever is refused or reads the history."`
}

// GlobalBody replaces what the platform has settled.
type GlobalBody struct {
	Body
	HardDeny bool `json:"hard_deny,omitempty" doc:"Deny it for good: no tenant and no project can enable it."`
}

// View is what a level has settled about a type, and what counts there.
type View struct {
	OperationType string `json:"operation_type" doc:"A type of operation, or * for all of them." example:"node.health.check"`
	Scope         Scope  `json:"scope" enum:"global,tenant,project"`
	ValuesView
	HardDeny  bool          `json:"hard_deny,omitempty" doc:"Of the platform only."`
	Reason    string        `json:"reason,omitempty"`
	Version   int64         `json:"version" doc:"Grows with every change; 0: nothing is settled here."`
	UpdatedAt *time.Time    `json:"updated_at,omitempty"`
	UpdatedBy string        `json:"updated_by,omitempty" doc:"Id of who set it last."`
	Effective EffectiveView `json:"effective" doc:"What counts here, with what the other levels have settled."`
}

// LineView is a policy in a list.
type LineView struct {
	OperationType string `json:"operation_type"`
	Scope         Scope  `json:"scope" enum:"global,tenant,project"`
	ValuesView
	HardDeny  bool      `json:"hard_deny,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

// EffectiveView is what counts, and why.
type EffectiveView struct {
	Enabled          bool           `json:"enabled"`
	HardDenied       bool           `json:"hard_denied" doc:"Whether the platform denies it for good."`
	MaxConcurrency   int64          `json:"max_concurrency,omitempty" doc:"Absent: no limit."`
	TimeoutSeconds   int64          `json:"timeout_seconds,omitempty" doc:"Absent: that of the definition."`
	ArtifactSources  *[]string      `json:"allowed_artifact_sources,omitempty" nullable:"false" doc:"Absent: those of the definition."`
	TargetKinds      *[]string      `json:"allowed_target_kinds,omitempty" nullable:"false" doc:"Absent: those of the definition."`
	RequireSignature bool           `json:"require_signature_verification"`
	MaxArtifactSize  int64          `json:"max_artifact_size_bytes,omitempty" doc:"Absent: no limit."`
	Why              []DecisionView `json:"why" nullable:"false" doc:"Of each key: its value, and which level decided it."`
	Document         *FurtherView   `json:"document,omitempty" doc:"The policy document that decides besides, about each request: a plan says what it decides. Absent: none does."`
}

// FurtherView is the policy document that decides after the levels.
type FurtherView struct {
	Document string    `json:"document" example:"v3"`
	Title    string    `json:"title"`
	Digest   string    `json:"digest"`
	Since    time.Time `json:"since"`
}

// DecisionView says how a key came about.
type DecisionView struct {
	Key    Key        `json:"key" enum:"enabled,max_concurrency,timeout_seconds,allowed_artifact_sources,allowed_target_kinds,require_signature_verification,max_artifact_size_bytes"`
	Value  string     `json:"value" doc:"For people."`
	Scope  Scope      `json:"scope" enum:"built_in,global,tenant,project" doc:"The level that decided; built_in: nobody has settled it."`
	Type   string     `json:"operation_type,omitempty" doc:"What the deciding level was set for: the type, or * for all."`
	Rule   string     `json:"rule" doc:"By which rule, for people."`
	Reason string     `json:"reason,omitempty" doc:"Why, in the words of who set the deciding level."`
	Said   []SaidView `json:"said" nullable:"false" doc:"What every level has set, from the widest to the most specific."`
}

// SaidView is what a level has set for a key.
type SaidView struct {
	Scope Scope  `json:"scope" enum:"global,tenant,project"`
	Type  string `json:"operation_type"`
	Value string `json:"value"`
}

func showValues(v Values) ValuesView {
	return ValuesView{
		Enabled: v.Enabled, MaxConcurrency: v.MaxConcurrency, TimeoutSeconds: v.TimeoutSeconds,
		ArtifactSources: v.ArtifactSources, TargetKinds: v.TargetKinds, RequireSignature: v.RequireSignature,
		MaxArtifactSize: v.MaxArtifactSize,
	}
}

func (v ValuesView) values() Values {
	return Values{
		Enabled: v.Enabled, MaxConcurrency: v.MaxConcurrency, TimeoutSeconds: v.TimeoutSeconds,
		ArtifactSources: v.ArtifactSources, TargetKinds: v.TargetKinds, RequireSignature: v.RequireSignature,
		MaxArtifactSize: v.MaxArtifactSize,
	}
}

func show(o Override, e Effective, err error) (*httpapi.Versioned[View], error) {
	if err != nil {
		return nil, err
	}
	v := View{
		OperationType: o.Type, Scope: o.Scope(), ValuesView: showValues(o.Values), HardDeny: o.HardDeny, Reason: o.Reason,
		Version: o.Version, UpdatedBy: o.UpdatedBy, Effective: showEffective(e),
	}
	if o.Version > 0 {
		v.UpdatedAt = new(o.UpdatedAt.UTC())
	}
	return httpapi.AtVersion(o.Version, v), nil
}

func showEffective(e Effective) EffectiveView {
	v := EffectiveView{
		Enabled: e.Enabled, HardDenied: e.HardDenied, MaxConcurrency: e.MaxConcurrency, TimeoutSeconds: e.TimeoutSeconds,
		ArtifactSources: list(e.ArtifactSources), TargetKinds: list(e.TargetKinds), RequireSignature: e.RequireSignature,
		MaxArtifactSize: e.MaxArtifactSize, Why: make([]DecisionView, len(e.Why)),
	}
	if d := e.Document; d != nil {
		v.Document = &FurtherView{Document: documentName(d.Version), Title: d.Title, Digest: d.Digest, Since: d.At.UTC()}
	}
	for i, d := range e.Why {
		said := make([]SaidView, len(d.Said))
		for j, s := range d.Said {
			said[j] = SaidView(s)
		}
		v.Why[i] = DecisionView{
			Key: d.Key, Value: d.Value, Scope: d.Scope, Type: d.Type, Rule: d.Rule, Reason: d.Reason, Said: said,
		}
	}
	return v
}

func showLine(o Override) LineView {
	return LineView{
		OperationType: o.Type, Scope: o.Scope(), ValuesView: showValues(o.Values), HardDeny: o.HardDeny, Reason: o.Reason,
		Version: o.Version, UpdatedAt: o.UpdatedAt.UTC(), UpdatedBy: o.UpdatedBy,
	}
}

// TypePath names a type of operation in the path. It is exported because the
// framework reads embedded parameters only from exported types.
type TypePath struct {
	Type string `path:"operation_type" maxLength:"200" doc:"A type of operation, or * for all of them." example:"node.health.check"`
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerGlobal(api)
	s.registerTenant(api)
	s.registerProject(api)
	s.registerDocuments(api)
}

// list answers what a level has settled.
func (s *Service) list(ctx context.Context, of Owner, p httpapi.Page) (*httpapi.Listed[LineView], error) {
	page, err := httpapi.SliceOf[position](p)
	if err != nil {
		return nil, err
	}
	if err := s.known(ctx, of); err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, of, page)
	return httpapi.ListOf(p, rows, err, showLine, func(v LineView) any { return position{v.OperationType} })
}

func (s *Service) registerGlobal(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-global-operation-policies", Method: http.MethodGet, Path: pathGlobal, Tag: tag,
		Summary: "List what the platform has settled about operations",
		Access:  httpapi.Platform(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[LineView], error) {
		return s.list(ctx, Owner{}, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-global-operation-policy", Method: http.MethodGet, Path: pathGlobal + ofType, Tag: tag,
		Summary: "Read what the platform allows of an operation", Access: httpapi.Platform(auth.OperationPolicyRead),
	}, func(ctx context.Context, in *TypePath) (*httpapi.Versioned[View], error) {
		return show(s.Of(ctx, Owner{}, in.Type))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "put-global-operation-policy", Method: http.MethodPut, Path: pathGlobal + ofType, Tag: tag,
		Summary:     "Set what the platform allows of an operation",
		Description: "Replaces all of it. Tenants and projects can narrow it, never widen it.",
		Access:      httpapi.Platform(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *struct {
		TypePath
		httpapi.IfMatch
		Body GlobalBody
	},
	) (*httpapi.Versioned[View], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		v := in.Body.values()
		v.HardDeny = in.Body.HardDeny
		return show(s.Set(ctx, Owner{}, in.Type, version, v, in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-global-operation-policy", Method: http.MethodDelete, Path: pathGlobal + ofType, Tag: tag,
		Summary: "Take back what the platform has settled", Access: httpapi.Platform(auth.OperationPolicyManage),
	}, func(ctx context.Context, in *TypePath) (*httpapi.Nothing, error) {
		return nil, s.Remove(ctx, Owner{}, in.Type)
	})
}
