package policy

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const pathDocuments = "/api/v1/admin/operation-policy-documents"

// ArtifactBody is what a request of an example would fetch.
type ArtifactBody struct {
	Source string `json:"source" maxLength:"400"`
	Bytes  int64  `json:"bytes,omitempty" minimum:"0"`
	Signed bool   `json:"signed,omitempty"`
}

// RequestBody is the request of an example, as the policy sees it in input.request.
type RequestBody struct {
	Type        string         `json:"type" minLength:"1" maxLength:"200" example:"node.package.install"`
	Operation   string         `json:"operation,omitempty" maxLength:"200" doc:"Absent: version v1 of the type."`
	Risk        string         `json:"risk,omitempty" enum:"low,medium,high" doc:"Absent: low."`
	Impact      string         `json:"impact,omitempty" enum:"none,read,mutate,disrupt" doc:"Absent: read."`
	OrgID       string         `json:"org_id,omitempty" maxLength:"100" doc:"Absent: a run of the platform."`
	ProjectID   string         `json:"project_id,omitempty" maxLength:"100"`
	Caller      string         `json:"caller,omitempty" maxLength:"200" doc:"Absent: somebody."`
	TargetKind  string         `json:"target_kind,omitempty" enum:"node,allocation,group" doc:"Absent: node."`
	Targets     int            `json:"targets,omitempty" minimum:"0" maximum:"10000" doc:"Absent: 1."`
	Concurrency int            `json:"concurrency,omitempty" minimum:"0" maximum:"10000" doc:"Absent: 1."`
	OnlyPlan    bool           `json:"only_plan,omitempty" doc:"Nodes only look."`
	At          *time.Time     `json:"at,omitempty" doc:"Absent: noon of a Monday."`
	Artifacts   []ArtifactBody `json:"artifacts,omitempty" maxItems:"100" nullable:"false"`
}

// ExampleBody is a request with what the document must say of it.
type ExampleBody struct {
	Name    string      `json:"name" minLength:"1" maxLength:"200"`
	Request RequestBody `json:"request"`
	Chain   *ValuesView `json:"chain,omitempty" doc:"What the levels have settled, as the policy sees it in input.policy; absent: nothing."`
	Denied  bool        `json:"denied" doc:"Whether it must be denied."`
	Because string      `json:"because,omitempty" maxLength:"200" doc:"Must be part of one of the reasons."`
}

// DocumentBody is a policy document.
type DocumentBody struct {
	Title    string        `json:"title" minLength:"1" maxLength:"200" doc:"What it is for; whoever asks what counts reads it."`
	Rego     string        `json:"rego" minLength:"1" maxLength:"65536" doc:"The policy, in the language of Open Policy Agent: package gpuaas.operations, and a rule deny that holds why a request is denied."`
	Examples []ExampleBody `json:"examples" minItems:"2" maxItems:"100" nullable:"false" doc:"At least one that is denied and one that is not. It cannot be activated unless all of them pass."`
}

// DocumentView is a version of the policy document.
type DocumentView struct {
	Document    string        `json:"document" doc:"Its version, which never changes." example:"v3"`
	Title       string        `json:"title"`
	Digest      string        `json:"digest"`
	Active      bool          `json:"active" doc:"Whether it decides about runs."`
	ActivatedAt *time.Time    `json:"activated_at,omitempty" doc:"Since when it decides."`
	ActivatedBy string        `json:"activated_by,omitempty"`
	Reason      string        `json:"reason,omitempty" doc:"What was said when it was activated."`
	CreatedAt   time.Time     `json:"created_at"`
	CreatedBy   string        `json:"created_by"`
	Rego        string        `json:"rego,omitempty" doc:"Not in lists."`
	Examples    []ExampleBody `json:"examples,omitempty" nullable:"false" doc:"Not in lists."`
}

// TrialView is what a document says of an example.
type TrialView struct {
	Name    string   `json:"name"`
	Passed  bool     `json:"passed"`
	Denied  bool     `json:"denied"`
	Reasons []string `json:"reasons" nullable:"false"`
	Message string   `json:"message,omitempty" doc:"Why it did not pass."`
}

// TrialsView is what a document says of its examples.
type TrialsView struct {
	Passed bool        `json:"passed" doc:"Whether all passed: only then it can be activated."`
	Trials []TrialView `json:"trials" nullable:"false"`
}

func (b DocumentBody) document() Document {
	d := Document{Title: b.Title, Rego: b.Rego, Examples: make([]Example, len(b.Examples))}
	for i, e := range b.Examples {
		r := e.Request
		one := Example{Name: e.Name, Denied: e.Denied, Because: e.Because, Request: Request{
			Type: r.Type, Operation: r.Operation, Risk: r.Risk, Impact: r.Impact, OrgID: r.OrgID, ProjectID: r.ProjectID,
			Caller: r.Caller, TargetKind: r.TargetKind, Targets: r.Targets, Concurrency: r.Concurrency, OnlyPlan: r.OnlyPlan,
		}}
		if r.At != nil {
			one.Request.At = r.At.UTC()
		}
		if e.Chain != nil {
			one.Chain = e.Chain.values()
		}
		for _, a := range r.Artifacts {
			one.Request.Artifacts = append(one.Request.Artifacts, Artifact{Source: a.Source, Bytes: a.Bytes, Signed: a.Signed})
		}
		d.Examples[i] = one
	}
	return d
}

func showExample(e Example) ExampleBody {
	r := e.Request
	out := ExampleBody{Name: e.Name, Denied: e.Denied, Because: e.Because, Request: RequestBody{
		Type: r.Type, Operation: r.Operation, Risk: r.Risk, Impact: r.Impact, OrgID: r.OrgID, ProjectID: r.ProjectID,
		Caller: r.Caller, TargetKind: r.TargetKind, Targets: r.Targets, Concurrency: r.Concurrency, OnlyPlan: r.OnlyPlan,
		At: new(r.At.UTC()),
	}}
	chain := showValues(e.Chain)
	if chain != (ValuesView{}) {
		out.Chain = &chain
	}
	for _, a := range r.Artifacts {
		out.Request.Artifacts = append(out.Request.Artifacts, ArtifactBody{a.Source, a.Bytes, a.Signed})
	}
	return out
}

func showDocumentLine(v DocumentVersion) DocumentView {
	out := DocumentView{
		Document: v.Name(), Title: v.Title, Digest: v.Digest, CreatedAt: v.CreatedAt.UTC(), CreatedBy: v.CreatedBy,
	}
	if a := v.Active; a != nil {
		out.Active, out.ActivatedAt, out.ActivatedBy, out.Reason = true, new(a.At.UTC()), a.By, a.Reason
	}
	return out
}

func showDocument(v DocumentVersion, err error) (*httpapi.Plain[DocumentView], error) {
	if err != nil {
		return nil, err
	}
	out := showDocumentLine(v)
	out.Rego = v.Rego
	for _, e := range v.Examples {
		out.Examples = append(out.Examples, showExample(e))
	}
	return &httpapi.Plain[DocumentView]{Body: out}, nil
}

func showTrials(trials []Trial, err error) (*httpapi.Plain[TrialsView], error) {
	if err != nil {
		return nil, err
	}
	out := TrialsView{Passed: true, Trials: make([]TrialView, len(trials))}
	for i, t := range trials {
		out.Passed = out.Passed && t.Passed
		out.Trials[i] = TrialView(t)
		if t.Reasons == nil {
			out.Trials[i].Reasons = []string{}
		}
	}
	return &httpapi.Plain[TrialsView]{Body: out}, nil
}

// DocumentPath names a version of the policy document in the path.
type DocumentPath struct {
	Document string `path:"document" maxLength:"64" doc:"Version of the document." example:"v3"`
}

// DocumentReasonBody says why which document decides.
type DocumentReasonBody struct {
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why; it goes into the audit log."`
}

func (s *Service) registerDocuments(api *httpapi.API) {
	access := httpapi.Platform(auth.OperationPolicyManage)
	httpapi.Register(api, httpapi.Operation{
		ID: "add-operation-policy-document", Method: http.MethodPost, Path: pathDocuments, Tag: tag,
		Summary: "Keep a policy document as the next version",
		Description: "It decides about nothing until it is activated, and never changes. A refusal names the line of every " +
			"problem. The same document as the newest is not kept again.",
		Access: access, Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body DocumentBody }) (*httpapi.Plain[DocumentView], error) {
		return showDocument(s.AddDocument(ctx, in.Body.document()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "try-operation-policy-document", Method: http.MethodPost, Path: pathDocuments + "/try", Tag: tag,
		Summary: "Ask a policy document about its examples, and keep nothing", Access: access, Status: http.StatusOK,
	}, func(ctx context.Context, in *struct{ Body DocumentBody }) (*httpapi.Plain[TrialsView], error) {
		return showTrials(s.Try(ctx, in.Body.document()))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-operation-policy-documents", Method: http.MethodGet, Path: pathDocuments, Tag: tag,
		Summary: "List the versions of the policy document, newest first", Access: access,
	}, func(ctx context.Context, in *struct{ httpapi.Page }) (*httpapi.Listed[DocumentView], error) {
		page, err := httpapi.SliceOf[documentPosition](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Documents(ctx, page)
		return httpapi.ListOf(in.Page, rows, err, showDocumentLine, func(v DocumentView) any {
			return documentPosition{documentNumber(v.Document)}
		})
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-operation-policy-document", Method: http.MethodGet, Path: pathDocuments + "/{document}", Tag: tag,
		Summary: "Read a version of the policy document, with its examples", Access: access,
	}, func(ctx context.Context, in *DocumentPath) (*httpapi.Plain[DocumentView], error) {
		return showDocument(s.Document(ctx, in.Document))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "try-kept-operation-policy-document", Method: http.MethodPost, Path: pathDocuments + "/{document}/try", Tag: tag,
		Summary: "Ask a version of the policy document about its examples", Access: access, Status: http.StatusOK,
	}, func(ctx context.Context, in *DocumentPath) (*httpapi.Plain[TrialsView], error) {
		v, err := s.Document(ctx, in.Document)
		if err != nil {
			return nil, err
		}
		return showTrials(s.Try(ctx, v.Document))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "activate-operation-policy-document", Method: http.MethodPost, Path: pathDocuments + "/{document}/activate",
		Tag: tag, Summary: "Have a version of the policy document decide about runs",
		Description: "Refused unless all of its examples pass. It takes the place of the one that decided until now, for " +
			"requests and for every node that is given work from then on.",
		Access: access, Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		DocumentPath
		Body DocumentReasonBody
	},
	) (*httpapi.Plain[DocumentView], error) {
		return showDocument(s.ActivateDocument(ctx, in.Document, in.Body.Reason))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "deactivate-operation-policy-document", Method: http.MethodPost, Path: pathDocuments + "/deactivate", Tag: tag,
		Summary: "Have no policy document decide any more", Description: "The levels alone decide then.",
		Access: access, Status: http.StatusNoContent,
	}, func(ctx context.Context, in *struct{ Body DocumentReasonBody }) (*httpapi.Nothing, error) {
		return nil, s.DeactivateDocument(ctx, in.Body.Reason)
	})
}
