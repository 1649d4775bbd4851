package site

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tagProfiles = "MAAS site profiles"

// Schema implements huma.SchemaProvider.
func (Erase) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Erases()) }

// Schema implements huma.SchemaProvider.
func (Status) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(statuses) }

// Schema implements huma.SchemaProvider.
func (Scrub) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Scrubs()) }

// Schema implements huma.SchemaProvider.
func (Capability) Schema(huma.Registry) *huma.Schema { return httpapi.EnumOf(Capabilities()) }

// ProfileView is a profile as the API shows it.
type ProfileView struct {
	ProfileID   id.Profile `json:"profile_id" doc:"Id of the profile."`
	SiteID      id.Site    `json:"site_id" doc:"Id of its site."`
	Name        string     `json:"name" doc:"Its name, once in the site." example:"default"`
	Description string     `json:"description"`
	Status      Status     `json:"status" doc:"A disabled profile is not used for new work."`
	Policy
	BundleSHA256      string    `json:"site_bootstrap_bundle_sha256" doc:"What the bundle must have; the profile was pinned to it when the bundle was chosen."`
	PreviousBundleRef string    `json:"previous_bundle_ref" doc:"The bundle that was used before, to roll back to; empty: there is none."`
	Version           int64     `json:"version" doc:"Grows with every change."`
	CreatedAt         time.Time `json:"created_at"`
	UpdatedAt         time.Time `json:"updated_at"`
}

func showProfile(p Profile) ProfileView {
	return ProfileView{
		ProfileID: p.ID, SiteID: p.Site, Name: p.Name, Description: p.Description, Status: p.Status, Policy: p.Policy,
		BundleSHA256: p.BundleDigest, PreviousBundleRef: p.PreviousBundleRef,
		Version: p.Version, CreatedAt: p.CreatedAt.UTC(), UpdatedAt: p.UpdatedAt.UTC(),
	}
}

// NewProfileBody is what a profile is made of; what is left out has its default.
type NewProfileBody struct {
	Name        string  `json:"name" minLength:"1" maxLength:"63" doc:"Its name, once in the site." example:"strict"`
	Description *string `json:"description,omitempty" maxLength:"500"`
	PolicyChange
}

// ProfileChangeBody is the change of a profile; what is left out stays.
type ProfileChangeBody struct {
	Name        *string `json:"name,omitempty" maxLength:"63" doc:"Its new name."`
	Description *string `json:"description,omitempty" maxLength:"500"`
	Status      *Status `json:"status,omitempty" doc:"A disabled profile is not used for new work."`
	PolicyChange
}

// ProfilePath names a profile in the path. It is exported because the framework
// reads embedded parameters only then.
type ProfilePath struct {
	Path
	ProfileID id.Profile `path:"profile_id" doc:"Id of the profile."`
}

func (s *Service) registerProfiles(api *httpapi.API) {
	const all, one = pathSite + "/profiles", pathSite + "/profiles/{profile_id}"
	httpapi.Register(api, httpapi.Operation{
		ID: "create-site-profile", Method: http.MethodPost, Path: all, Tag: tagProfiles,
		Summary: "Add a profile to a MAAS site", Access: httpapi.Platform(auth.SiteProfileManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct {
		Path
		Body NewProfileBody
	},
	) (*httpapi.Versioned[ProfileView], error) {
		made, err := s.CreateProfile(ctx, in.SiteID,
			ProfileChange{Name: &in.Body.Name, Description: in.Body.Description, Policy: in.Body.PolicyChange})
		return httpapi.AtVersion(made.Version, showProfile(made)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-site-profiles", Method: http.MethodGet, Path: all, Tag: tagProfiles,
		Summary: "List the profiles of a MAAS site", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
	},
	) (*httpapi.Listed[ProfileView], error) {
		page, err := httpapi.SliceOf[id.Profile](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Profiles(ctx, in.SiteID, page)
		return httpapi.ListOf(in.Page, rows, err, showProfile, func(v ProfileView) any { return v.ProfileID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-site-profile", Method: http.MethodGet, Path: one, Tag: tagProfiles,
		Summary: "Read a profile of a MAAS site", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *ProfilePath) (*httpapi.Versioned[ProfileView], error) {
		found, err := s.Profile(ctx, in.SiteID, in.ProfileID)
		return httpapi.AtVersion(found.Version, showProfile(found)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-site-profile", Method: http.MethodPatch, Path: one, Tag: tagProfiles,
		Summary: "Change a profile of a MAAS site", Access: httpapi.Platform(auth.SiteProfileManage),
	}, func(ctx context.Context, in *struct {
		ProfilePath
		httpapi.IfMatch
		Body ProfileChangeBody
	},
	) (*httpapi.Versioned[ProfileView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		b := in.Body
		after, err := s.UpdateProfile(ctx, in.SiteID, in.ProfileID, version,
			ProfileChange{Name: b.Name, Description: b.Description, Status: b.Status, Policy: b.PolicyChange})
		return httpapi.AtVersion(after.Version, showProfile(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-site-profile", Method: http.MethodDelete, Path: one, Tag: tagProfiles,
		Summary:     "Delete a profile that nobody uses",
		Description: "Refused while nodes or unfinished jobs use it; the answer names them. The profile `default` cannot be deleted.", Access: httpapi.Platform(auth.SiteProfileManage),
	}, func(ctx context.Context, in *ProfilePath) (*httpapi.Nothing, error) {
		return nil, s.DeleteProfile(ctx, in.SiteID, in.ProfileID)
	})
}
