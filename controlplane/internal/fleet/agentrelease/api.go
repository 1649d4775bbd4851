package agentrelease

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/contract/agentpackage"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathReleases = "/api/v1/admin/agent-releases"
	pathUploads  = "/api/v1/admin/agent-release-uploads"
	pathChannels = "/api/v1/admin/agent-channels"
	pathRefused  = "/api/v1/admin/agent-versions"
	tag          = "Agent releases"
)

// Schema implements huma.SchemaProvider.
func (Channel) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(channels) }

// StatementBody is what the holder of a release key says about an archive.
type StatementBody struct {
	Version             string `json:"version" maxLength:"64" doc:"A semantic version; it is given once." example:"1.4.0"`
	Commit              string `json:"commit" maxLength:"40" doc:"The commit that it was built from." example:"0123456789ab"`
	Architecture        string `json:"architecture" enum:"amd64,arm64" doc:"What its programs are built for."`
	Digest              string `json:"digest" maxLength:"64" doc:"SHA-256 of the archive, in lower-case hexadecimal digits."`
	Size                int64  `json:"size" minimum:"1" doc:"Bytes of the archive; 256 MiB at most."`
	Notes               string `json:"notes" maxLength:"4000" doc:"What is new."`
	MinimumControlPlane string `json:"minimum_control_plane" maxLength:"64" doc:"The oldest control plane that it works with; empty: any."`
	ProtocolMin         int32  `json:"protocol_min" minimum:"1" doc:"The oldest protocol of agents that it speaks."`
	ProtocolMax         int32  `json:"protocol_max" minimum:"1" doc:"The newest one."`
}

// SignedBody is a statement with its signature: the file beside an archive.
type SignedBody struct {
	Statement StatementBody `json:"statement"`
	KeyID     string        `json:"key_id" maxLength:"64" doc:"Which release key signed it." example:"5f2c9a0d1e3b4a67"`
	Signature []byte        `json:"signature" maxLength:"200" doc:"Its Ed25519 signature, in base64." example:"AA=="`
}

func (b SignedBody) signed() agentpackage.Signed {
	s := b.Statement
	return agentpackage.Signed{
		Statement: agentpackage.Statement{
			Version: s.Version, Commit: s.Commit, Architecture: s.Architecture, Digest: s.Digest, Size: s.Size, Notes: s.Notes,
			MinimumControlPlane: s.MinimumControlPlane, ProtocolMin: s.ProtocolMin, ProtocolMax: s.ProtocolMax,
		},
		KeyID: b.KeyID, Signature: b.Signature,
	}
}

// View is a release as the API shows it.
type View struct {
	StatementBody
	KeyID       string     `json:"key_id" doc:"Which release key signed it."`
	AddedBy     string     `json:"added_by" doc:"Who uploaded it."`
	CreatedAt   time.Time  `json:"created_at"`
	Status      string     `json:"status" enum:"available,withdrawn,blocked" doc:"Nodes are given only what is available."`
	Because     string     `json:"because" doc:"Why it is withdrawn or blocked."`
	WithdrawnAt *time.Time `json:"withdrawn_at,omitempty"`
	WithdrawnBy string     `json:"withdrawn_by"`
	Channels    []string   `json:"channels" nullable:"false" doc:"The channels that want it."`
	Nodes       int64      `json:"nodes" doc:"How many nodes say that they run this version."`
}

func show(r Release) View {
	t := r.Statement
	v := View{
		StatementBody: StatementBody{
			Version: t.Version, Commit: t.Commit, Architecture: t.Architecture, Digest: t.Digest, Size: t.Size, Notes: t.Notes,
			MinimumControlPlane: t.MinimumControlPlane, ProtocolMin: t.ProtocolMin, ProtocolMax: t.ProtocolMax,
		},
		KeyID: r.KeyID, AddedBy: r.AddedBy, CreatedAt: r.CreatedAt.UTC(), Status: "available",
		Channels: append([]string{}, r.Channels...), Nodes: r.Nodes, WithdrawnBy: r.WithdrawnBy,
	}
	switch {
	case r.WithdrawnAt != nil:
		at := r.WithdrawnAt.UTC()
		v.Status, v.Because, v.WithdrawnAt = "withdrawn", r.WithdrawnBecause, &at
	case r.BlockedBecause != "":
		v.Status, v.Because = "blocked", r.BlockedBecause
	}
	return v
}

// UploadView is how far an upload has come.
type UploadView struct {
	UploadID id.BlobUpload `json:"upload_id" doc:"Id of the upload."`
	Size     int64         `json:"size" doc:"Bytes that were announced."`
	Received int64         `json:"received" doc:"Bytes that are there: the next part begins here."`
	MaxPart  int64         `json:"max_part" doc:"The most bytes of one part."`
}

// PartBody is a part of an archive.
type PartBody struct {
	Version string `json:"version" maxLength:"64" doc:"The release that was announced." example:"1.4.0"`
	Offset  int64  `json:"offset" minimum:"0" doc:"Where the part begins: what was received so far."`
	Data    []byte `json:"data" doc:"The bytes, in base64." example:"H4sIAAAA"`
}

// ReasonBody says why.
type ReasonBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// VersionBody names a version, and says why.
type VersionBody struct {
	Version string `json:"version" maxLength:"64" doc:"Version of the agent, released or not." example:"1.3.9"`
	Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// PromoteBody says which release a channel wants.
type PromoteBody struct {
	Version string `json:"version" maxLength:"64" doc:"The release." example:"1.4.0"`
	Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// FloorBody says which version is the oldest that nodes are given.
type FloorBody struct {
	Version string `json:"version" maxLength:"64" doc:"A semantic version; empty: any." example:"1.2.0"`
	Reason  string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; the audit log keeps it."`
}

// ChannelView is a channel as the API shows it.
type ChannelView struct {
	Channel   Channel   `json:"channel"`
	Version   string    `json:"version" doc:"The release that its nodes want; empty: none."`
	Previous  string    `json:"previous" doc:"What it wanted before; empty: none."`
	Reason    string    `json:"reason" doc:"Why it was changed."`
	ChangedBy string    `json:"changed_by"`
	ChangedAt time.Time `json:"changed_at"`
}

func showChannel(w Wanted) ChannelView {
	return ChannelView{
		Channel: w.Channel, Version: w.Version, Previous: w.Previous, Reason: w.Reason, ChangedBy: w.ChangedBy,
		ChangedAt: w.ChangedAt.UTC(),
	}
}

// ChannelsView is what all channels want.
type ChannelsView struct {
	Items []ChannelView `json:"items" nullable:"false"`
}

// BlockView is a version that no node is given.
type BlockView struct {
	Version   string    `json:"version"`
	Reason    string    `json:"reason"`
	BlockedBy string    `json:"blocked_by"`
	BlockedAt time.Time `json:"blocked_at"`
}

func showBlock(b Block) BlockView {
	return BlockView{Version: b.Version, Reason: b.Reason, BlockedBy: b.BlockedBy, BlockedAt: b.BlockedAt.UTC()}
}

// FloorView is the oldest version that nodes are given.
type FloorView struct {
	Version   string    `json:"version" doc:"Empty: any."`
	Reason    string    `json:"reason"`
	ChangedBy string    `json:"changed_by"`
	ChangedAt time.Time `json:"changed_at"`
}

func showFloor(f Floor) FloorView {
	return FloorView{Version: f.Version, Reason: f.Reason, ChangedBy: f.ChangedBy, ChangedAt: f.ChangedAt.UTC()}
}

// RefusedView is what no node is given.
type RefusedView struct {
	Floor   FloorView   `json:"floor"`
	Blocked []BlockView `json:"blocked" nullable:"false"`
}

// Path names a version in the path.
type Path struct {
	Version string `path:"version" maxLength:"64" doc:"Version of the agent." example:"1.4.0"`
}

// UploadPath names an upload in the path.
type UploadPath struct {
	UploadID id.BlobUpload `path:"upload_id" doc:"Id of the upload."`
}

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerUploads(api)
	s.registerReads(api)
	s.registerVersions(api)
	httpapi.Register(api, httpapi.Operation{
		ID: "promote-agent-release", Method: http.MethodPut, Path: pathChannels + "/{channel}", Tag: tag,
		Summary: "Let a channel want a release",
		Description: "Nodes of the channel that run another version are shown as outdated from now on; nothing is installed on " +
			"them by this.",
		Access: httpapi.Platform(auth.AgentReleaseManage),
	}, func(ctx context.Context, in *struct {
		Channel Channel `path:"channel" doc:"The channel."`
		Body    PromoteBody
	},
	) (*httpapi.Plain[ChannelView], error) {
		after, err := s.Promote(ctx, in.Channel, in.Body.Version, in.Body.Reason)
		return &httpapi.Plain[ChannelView]{Body: showChannel(after)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "withdraw-agent-release", Method: http.MethodPost, Path: pathReleases + "/{version}/withdraw", Tag: tag,
		Summary: "Give a release to no node any more",
		Description: "For ever. A channel that wants it goes back to what it wanted before. Nodes that run it are left as they " +
			"are.",
		Access: httpapi.Platform(auth.AgentReleaseManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body ReasonBody
	},
	) (*httpapi.Plain[View], error) {
		after, err := s.Withdraw(ctx, in.Version, in.Body.Reason)
		return &httpapi.Plain[View]{Body: show(after)}, err
	})
}

type uploadOutput struct{ Body UploadView }

func showUpload(u blob.Upload) *uploadOutput {
	return &uploadOutput{Body: UploadView{UploadID: u.ID, Size: u.Size, Received: u.Received, MaxPart: blob.MaxPart}}
}

func (s *Service) registerUploads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "begin-agent-release-upload", Method: http.MethodPost, Path: pathUploads, Tag: tag,
		Summary: "Announce a release of the agent",
		Description: "The body is the signed statement that was made with the archive. Send the archive in parts, then complete " +
			"the upload. An upload of the same archive that was interrupted is found again: go on at `received`.",
		Access: httpapi.Platform(auth.AgentReleaseManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body SignedBody }) (*uploadOutput, error) {
		upload, err := s.Begin(ctx, in.Body.signed())
		return showUpload(upload), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "send-agent-release-part", Method: http.MethodPost, Path: pathUploads + "/{upload_id}/parts", Tag: tag,
		Summary: "Send a part of a release", Access: httpapi.Platform(auth.AgentReleaseManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		UploadPath
		Body PartBody
	},
	) (*uploadOutput, error) {
		upload, err := s.Add(ctx, in.Body.Version, in.UploadID, in.Body.Offset, in.Body.Data)
		return showUpload(upload), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "complete-agent-release-upload", Method: http.MethodPost, Path: pathUploads + "/{upload_id}/complete", Tag: tag,
		Summary: "Make an upload a release",
		Description: "Refused when the archive is not what its statement says, is cut short, or is built for another " +
			"architecture. No node is given the release by this.",
		Access: httpapi.Platform(auth.AgentReleaseManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		UploadPath
		Body SignedBody
	},
	) (*httpapi.Plain[View], error) {
		made, err := s.Complete(ctx, in.UploadID, in.Body.signed())
		return &httpapi.Plain[View]{Body: show(made)}, err
	})
}

func (s *Service) registerReads(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "list-agent-releases", Method: http.MethodGet, Path: pathReleases, Tag: tag,
		Summary: "List the releases of the agent", Access: httpapi.Platform(auth.AgentReleaseRead),
	}, func(ctx context.Context, in *httpapi.Page) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[position](*in)
		if err != nil {
			return nil, err
		}
		rows, err := s.List(ctx, page)
		return httpapi.ListOf(*in, rows, err, show, func(v View) any { return position{v.CreatedAt, v.Version} })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-agent-release", Method: http.MethodGet, Path: pathReleases + "/{version}", Tag: tag,
		Summary: "Read a release of the agent", Access: httpapi.Platform(auth.AgentReleaseRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[View], error) {
		found, err := s.Get(ctx, in.Version)
		return &httpapi.Plain[View]{Body: show(found)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-agent-channels", Method: http.MethodGet, Path: pathChannels, Tag: tag,
		Summary: "Read which release each channel wants", Access: httpapi.Platform(auth.AgentReleaseRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[ChannelsView], error) {
		found, err := s.Channels(ctx)
		out := ChannelsView{Items: []ChannelView{}}
		for _, w := range found {
			out.Items = append(out.Items, showChannel(w))
		}
		return &httpapi.Plain[ChannelsView]{Body: out}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-refused-agent-versions", Method: http.MethodGet, Path: pathRefused, Tag: tag,
		Summary: "Read which versions no node is given", Access: httpapi.Platform(auth.AgentReleaseRead),
	}, func(ctx context.Context, _ *struct{}) (*httpapi.Plain[RefusedView], error) {
		found, floor, err := s.Refused(ctx)
		out := RefusedView{Floor: showFloor(floor), Blocked: []BlockView{}}
		for _, b := range found {
			out.Blocked = append(out.Blocked, showBlock(b))
		}
		return &httpapi.Plain[RefusedView]{Body: out}, err
	})
}

func (s *Service) registerVersions(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "block-agent-version", Method: http.MethodPost, Path: pathRefused + "/block", Tag: tag,
		Summary: "Let no node have a version",
		Description: "At once, and also a version that was not released. A channel that wants it goes back to what it wanted " +
			"before.",
		Access: httpapi.Platform(auth.AgentReleaseManage),
	}, func(ctx context.Context, in *struct{ Body VersionBody }) (*httpapi.Plain[BlockView], error) {
		after, err := s.Block(ctx, in.Body.Version, in.Body.Reason)
		return &httpapi.Plain[BlockView]{Body: showBlock(after)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "unblock-agent-version", Method: http.MethodPost, Path: pathRefused + "/unblock", Tag: tag,
		Summary: "Let nodes have a version again", Description: "It is given to none by this.",
		Access: httpapi.Platform(auth.AgentReleaseManage), Status: http.StatusNoContent,
	}, func(ctx context.Context, in *struct{ Body VersionBody }) (*httpapi.Nothing, error) {
		return nil, s.Unblock(ctx, in.Body.Version, in.Body.Reason)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "set-agent-floor", Method: http.MethodPut, Path: pathRefused + "/floor", Tag: tag,
		Summary: "Say which version is the oldest that nodes are given",
		Description: "With a floor, versions that have no order are given to no node either. A channel that wants an older one " +
			"goes back to what it wanted before.",
		Access: httpapi.Platform(auth.AgentReleaseManage),
	}, func(ctx context.Context, in *struct{ Body FloorBody }) (*httpapi.Plain[FloorView], error) {
		after, err := s.SetFloor(ctx, in.Body.Version, in.Body.Reason)
		return &httpapi.Plain[FloorView]{Body: showFloor(after)}, err
	})
}
