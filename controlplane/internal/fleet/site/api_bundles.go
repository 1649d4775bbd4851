package site

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/blob"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tagBundles = "MAAS site bundles"

// BundleView is a version of a bundle as the API shows it.
type BundleView struct {
	BundleID  id.SiteBundle `json:"bundle_id" doc:"Id of this version."`
	SiteID    id.Site       `json:"site_id" doc:"Id of its site."`
	Name      string        `json:"name" example:"base"`
	Version   string        `json:"version" doc:"Given once; its content never changes." example:"2026.11"`
	Ref       string        `json:"ref" doc:"What profiles name it by." example:"base@2026.11"`
	SHA256    string        `json:"sha256" doc:"Digest of the program."`
	Size      int64         `json:"size" doc:"Bytes of the program."`
	AddedBy   string        `json:"added_by" doc:"Who uploaded it; bundle-import: it was a file in the folder of workers."`
	UsedBy    []string      `json:"used_by" nullable:"false" doc:"Names of the profiles that use it."`
	CreatedAt time.Time     `json:"created_at"`
}

func showBundle(b Bundle) BundleView {
	return BundleView{
		BundleID: b.ID, SiteID: b.Site, Name: b.Name, Version: b.Version, Ref: b.Ref(), SHA256: b.Digest, Size: b.Size,
		AddedBy: b.AddedBy, UsedBy: append([]string{}, b.UsedBy...), CreatedAt: b.CreatedAt.UTC(),
	}
}

// BundleUploadView is how far an upload has come.
type BundleUploadView struct {
	UploadID id.BlobUpload `json:"upload_id" doc:"Id of the upload."`
	Size     int64         `json:"size" doc:"Bytes that were announced."`
	Received int64         `json:"received" doc:"Bytes that are there: the next part begins here."`
	MaxPart  int64         `json:"max_part" doc:"The most bytes of one part."`
}

func showUpload(u blob.Upload) *uploadOutput {
	return &uploadOutput{Body: BundleUploadView{
		UploadID: u.ID, Size: u.Size, Received: u.Received, MaxPart: blob.MaxPart,
	}}
}

type uploadOutput struct{ Body BundleUploadView }

type bundleOutput struct{ Body BundleView }

// NewBundleBody announces a bundle.
type NewBundleBody struct {
	Ref    string `json:"ref" maxLength:"128" doc:"NAME@VERSION; a version is given once." example:"base@2026.11"`
	SHA256 string `json:"sha256" minLength:"64" maxLength:"64" doc:"Digest of the program, in lower-case hexadecimal digits."`
	Size   int64  `json:"size" minimum:"0" doc:"Bytes of the program; 1 MiB at most."`
}

// BundlePartBody is a part of a bundle.
type BundlePartBody struct {
	Ref    string `json:"ref" maxLength:"128" doc:"The bundle that was announced." example:"base@2026.11"`
	Offset int64  `json:"offset" minimum:"0" doc:"Where the part begins: what was received so far."`
	Data   []byte `json:"data" doc:"The bytes, in base64." example:"IyEvYmluL3NoCg=="`
}

// BundleCompleteBody ends an upload.
type BundleCompleteBody struct {
	Ref string `json:"ref" maxLength:"128" doc:"The bundle that was announced." example:"base@2026.11"`
}

// UseBundleBody says which bundle a profile shall use.
type UseBundleBody struct {
	Ref    string  `json:"ref" maxLength:"128" doc:"NAME@VERSION of a bundle of the site." example:"base@2026.11"`
	SHA256 *string `json:"sha256,omitempty" maxLength:"64" doc:"The digest that it must have; absent: the one it has."`
}

// UploadPath names an upload in the path. It is exported because the framework reads
// embedded parameters only then.
type UploadPath struct {
	Path
	UploadID id.BlobUpload `path:"upload_id" doc:"Id of the upload."`
}

func (s *Service) registerBundles(api *httpapi.API) {
	const all, uploads = pathSite + "/bundles", pathSite + "/bundle-uploads"
	httpapi.Register(api, httpapi.Operation{
		ID: "begin-site-bundle-upload", Method: http.MethodPost, Path: uploads, Tag: tagBundles,
		Summary: "Announce a bundle of a MAAS site",
		Description: "A bundle is a program that machines run as root at their first boot. Send it in parts, then complete the upload. " +
			"An upload of the same version and content that was interrupted is found again: go on at `received`.",
		Access: httpapi.Platform(auth.SiteBundleManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Path
		Body NewBundleBody
	},
	) (*uploadOutput, error) {
		name, version, err := parseBundleRef(in.Body.Ref)
		if err != nil {
			return nil, err
		}
		upload, err := s.BeginBundle(ctx, in.SiteID, NewBundle{
			Name: name, Version: version, Digest: in.Body.SHA256, Size: in.Body.Size,
		})
		return showUpload(upload), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "send-site-bundle-part", Method: http.MethodPost, Path: uploads + "/{upload_id}/parts", Tag: tagBundles,
		Summary: "Send a part of a bundle", Access: httpapi.Platform(auth.SiteBundleManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		UploadPath
		Body BundlePartBody
	},
	) (*uploadOutput, error) {
		upload, err := s.AddToBundle(ctx, in.SiteID, in.Body.Ref, in.UploadID, in.Body.Offset, in.Body.Data)
		return showUpload(upload), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "complete-site-bundle-upload", Method: http.MethodPost, Path: uploads + "/{upload_id}/complete", Tag: tagBundles,
		Summary:     "Make an upload a version of a bundle",
		Description: "Refused when the content does not have the announced digest, or is no program.",
		Access:      httpapi.Platform(auth.SiteBundleManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		UploadPath
		Body BundleCompleteBody
	},
	) (*bundleOutput, error) {
		made, err := s.CompleteBundle(ctx, in.SiteID, in.Body.Ref, in.UploadID)
		return &bundleOutput{Body: showBundle(made)}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-site-bundles", Method: http.MethodGet, Path: all, Tag: tagBundles,
		Summary: "List the bundles of a MAAS site", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
	},
	) (*httpapi.Listed[BundleView], error) {
		page, err := httpapi.SliceOf[id.SiteBundle](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Bundles(ctx, in.SiteID, page)
		return httpapi.ListOf(in.Page, rows, err, showBundle, func(v BundleView) any { return v.BundleID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-site-bundle", Method: http.MethodDelete, Path: all + "/{bundle_id}", Tag: tagBundles,
		Summary:     "Delete a version of a bundle that no profile uses",
		Description: "The version is not given again. Profiles that used it before cannot be rolled back to it.",
		Access:      httpapi.Platform(auth.SiteBundleManage),
	}, func(ctx context.Context, in *struct {
		Path
		BundleID id.SiteBundle `path:"bundle_id" doc:"Id of the version."`
	},
	) (*httpapi.Nothing, error) {
		return nil, s.DeleteBundle(ctx, in.SiteID, in.BundleID)
	})
	s.registerBundleUse(api)
}

func (s *Service) registerBundleUse(api *httpapi.API) {
	const use = pathSite + "/profiles/{profile_id}/bundle"
	httpapi.Register(api, httpapi.Operation{
		ID: "use-site-bundle", Method: http.MethodPost, Path: use, Tag: tagBundles,
		Summary:     "Let a profile use a bundle",
		Description: "The profile is pinned to the digest of the bundle. It remembers which one it used before.",
		Access:      httpapi.Platform(auth.SiteProfileManage),
	}, func(ctx context.Context, in *struct {
		ProfilePath
		Body UseBundleBody
	},
	) (*httpapi.Versioned[ProfileView], error) {
		var digest string
		if in.Body.SHA256 != nil {
			digest = *in.Body.SHA256
		}
		after, err := s.UseBundle(ctx, in.SiteID, in.ProfileID, in.Body.Ref, digest)
		return httpapi.AtVersion(after.Version, showProfile(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "rollback-site-bundle", Method: http.MethodPost, Path: use + "/rollback", Tag: tagBundles,
		Summary:     "Let a profile use the bundle that it used before",
		Description: "A second rollback is refused: name the version that the profile shall use instead.",
		Access:      httpapi.Platform(auth.SiteProfileManage),
	}, func(ctx context.Context, in *ProfilePath) (*httpapi.Versioned[ProfileView], error) {
		after, err := s.RollBackBundle(ctx, in.SiteID, in.ProfileID)
		return httpapi.AtVersion(after.Version, showProfile(after)), err
	})
}
