package artifact

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	tag           = "Artifacts"
	pathGlobal    = "/api/v1/admin/artifacts"
	pathTenant    = "/api/v1/tenants/{org_id}/artifacts"
	pathProject   = "/api/v1/projects/{project_id}/artifacts"
	one           = "/{artifact_id}"
	keysGlobal    = "/api/v1/admin/artifact-keys"
	keysTenant    = "/api/v1/tenants/{org_id}/artifact-keys"
	aboutRegister = "Of one in a registry, the manifest is read by its digest, and a signature is looked for: a Sigstore " +
		"bundle among its referrers, or a signature under the tag sha256-….sig. A tenant can register what a policy for all " +
		"operations lets it fetch (allowed_artifact_sources). Bytes go to the registry, never through this API."
	aboutList   = "What can be fetched from here: also the artifacts of the levels above. Those of others are not shown."
	aboutVerify = "Reads the registry again: signatures, and the keys that are trusted, may have changed."
	aboutMove   = "deprecate: another should be used. revoke: no run fetches its digest any more, for ever. retire: it is kept " +
		"for the record only."
	aboutTrust = "A public key in PEM: ECDSA on P-256, Ed25519 or RSA. It may sign for the repositories that are named, within " +
		"its time. Verify artifacts again to have it looked for."
	aboutWithdraw = "For ever. What was verified by it does not count as signed any more, at once."
)

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.StatesOf(Lifecycle.Describe()) }

// Schema implements huma.SchemaProvider.
func (Event) Schema(huma.Registry) *huma.Schema {
	return httpapi.EnumOf([]Event{Deprecate, Revoke, Retire})
}

// Schema implements huma.SchemaProvider.
func (Kind) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(kinds) }

// View is an artifact as the API shows it.
type View struct {
	ArtifactID   id.Artifact       `json:"artifact_id" doc:"Id of the artifact."`
	Scope        string            `json:"scope" enum:"global,tenant,project" doc:"Whose it is: only that level changes it."`
	OrgID        *id.Org           `json:"org_id,omitempty"`
	ProjectID    *id.Project       `json:"project_id,omitempty"`
	Name         string            `json:"name"`
	Kind         Kind              `json:"kind"`
	Source       string            `json:"source" doc:"Where it is: repository@digest, or the address of a file."`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size" doc:"Bytes that a node fetches at most: all layers of a manifest, or of the largest that an index names."`
	MediaType    string            `json:"media_type"`
	ArtifactType string            `json:"artifact_type,omitempty" doc:"What the manifest says that it is."`
	Layers       int32             `json:"layers"`
	Platforms    []PlatformView    `json:"platforms" nullable:"false" doc:"The manifests that an index names. The digest of the index pins them."`
	Labels       map[string]string `json:"labels" nullable:"false"`
	Signature    SignatureView     `json:"signature"`
	Status       Status            `json:"status"`
	StatusReason string            `json:"status_reason,omitempty"`
	Version      int64             `json:"version" doc:"Grows with every change."`
	CreatedAt    time.Time         `json:"created_at"`
	CreatedBy    string            `json:"created_by"`
	UpdatedAt    time.Time         `json:"updated_at"`
	UpdatedBy    string            `json:"updated_by"`
}

// PlatformView is a manifest that an index names.
type PlatformView struct {
	Platform string `json:"platform" example:"linux/amd64"`
	Digest   string `json:"digest"`
	Size     int64  `json:"size" doc:"Bytes of its layers."`
	Layers   int32  `json:"layers"`
}

// SignatureView is what was found out about signatures.
type SignatureView struct {
	State     Signature       `json:"state" enum:"verified,unsigned,refused" doc:"refused: there are some, and none counts."`
	Format    Format          `json:"format,omitempty" enum:"sigstore_bundle,simple_signing" doc:"That of the signature that was accepted."`
	KeyID     *id.ArtifactKey `json:"key_id,omitempty" doc:"The key that was accepted. Once it ends or is withdrawn, the artifact does not count as signed."`
	Reason    string          `json:"reason,omitempty" doc:"Why none was accepted."`
	CheckedAt time.Time       `json:"checked_at"`
}

func given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

func show(a Artifact) View {
	v := View{
		ArtifactID: a.ID, Scope: a.Owner.Scope(), OrgID: given(a.Owner.Org), ProjectID: given(a.Owner.Project), Name: a.Name,
		Kind: a.Kind, Source: a.Source, Digest: a.Digest, Size: a.Size, MediaType: a.MediaType, ArtifactType: a.ArtifactType,
		Layers: a.Layers, Platforms: make([]PlatformView, len(a.Platforms)), Labels: a.Labels,
		Signature: SignatureView{
			State: a.Verdict.Signature, Format: a.Verdict.Format, KeyID: given(a.Verdict.Key), Reason: a.Verdict.Reason,
			CheckedAt: a.CheckedAt.UTC(),
		},
		Status: a.Status, StatusReason: a.StatusReason, Version: a.Version, CreatedAt: a.CreatedAt.UTC(),
		CreatedBy: a.CreatedBy, UpdatedAt: a.UpdatedAt.UTC(), UpdatedBy: a.UpdatedBy,
	}
	for i, p := range a.Platforms {
		v.Platforms[i] = PlatformView(p)
	}
	return v
}

func answer(a Artifact, err error) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	return &httpapi.Plain[View]{Body: show(a)}, nil
}

// NewBody is an artifact to register.
type NewBody struct {
	Name   string            `json:"name" minLength:"1" maxLength:"100" example:"llm"`
	Kind   Kind              `json:"kind" doc:"oci: in a registry. https_signed: a file, of which digest and size are given."`
	Source string            `json:"source" minLength:"1" maxLength:"2000" doc:"repository@digest, or the address of a file." example:"registry.example/team/llm@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
	Digest string            `json:"digest,omitempty" maxLength:"71" doc:"Of a file: sha256 and 64 hexadecimal digits." example:"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
	Size   int64             `json:"size,omitempty" minimum:"0" doc:"Of a file: its bytes."`
	Labels map[string]string `json:"labels,omitempty"`
}

// MoveBody moves an artifact to another state.
type MoveBody struct {
	Event  Event  `json:"event"`
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; whoever may not fetch it any more reads it."`
}

// Filters narrow a list. It is exported because the framework reads embedded parameters
// only from exported types.
type Filters struct {
	httpapi.Page
	Name   string `query:"name" maxLength:"100" doc:"Only those of this name."`
	Status Status `query:"status" doc:"Only those of this state."`
}

// Path names an artifact in the path.
type Path struct {
	ArtifactID id.Artifact `path:"artifact_id" doc:"Id of the artifact."`
}

// TenantPath names a tenant in the path.
type TenantPath struct {
	OrgID id.Org `path:"org_id" doc:"Id of the tenant."`
}

// ProjectPath names a project in the path.
type ProjectPath struct {
	ProjectID id.Project `path:"project_id" doc:"Id of the project."`
}

// RegisterAPI adds the operations of the package to an API.
func (s *Service) RegisterAPI(api *httpapi.API) {
	s.registerGlobal(api)
	s.registerTenant(api)
	s.registerProject(api)
	s.registerKeys(api)
	s.registerGlobalSources(api)
	s.registerTenantSources(api)
}

func (s *Service) list(ctx context.Context, by Owner, in Filters) (*httpapi.Listed[View], error) {
	page, err := httpapi.SliceOf[id.Artifact](in.Page)
	if err != nil {
		return nil, err
	}
	rows, err := s.List(ctx, by, Filter{in.Name, in.Status}, page)
	return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.ArtifactID })
}
