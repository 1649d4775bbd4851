package site

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const (
	pathSites = "/api/v1/admin/maas-sites"
	pathSite  = pathSites + "/{site_id}"
	tagSites  = "MAAS sites"
)

// Register adds the operations of the package to an API.
func (s *Service) Register(api *httpapi.API) {
	s.registerSites(api)
	s.registerCredentials(api)
	s.registerProfiles(api)
	s.registerOverrides(api)
	s.registerRoCE(api)
	s.registerBundles(api)
}

// CredentialView is what may be known of a secret.
type CredentialView struct {
	HasCredentials bool       `json:"has_credentials" doc:"Whether there is one."`
	RotatedAt      *time.Time `json:"rotated_at,omitempty" doc:"When it was written."`
	Fingerprint    string     `json:"fingerprint,omitempty" doc:"Tells secrets of this site apart." example:"9f86d081884c"`
}

func showCredential(c Credential) CredentialView {
	v := CredentialView{HasCredentials: c.Present(), Fingerprint: c.Fingerprint}
	if c.RotatedAt != nil {
		at := c.RotatedAt.UTC()
		v.RotatedAt = &at
	}
	return v
}

// View is a site as the API shows it.
type View struct {
	SiteID id.Site `json:"site_id" doc:"Id of the site."`
	Name   string  `json:"name" example:"dc1-maas"`
	Status Status  `json:"status" doc:"A disabled site refuses new machines; running work, the operations of its nodes and their reconciliation go on."`
	Settings
	APIToken       CredentialView `json:"api_token" doc:"The MAAS token."`
	Power          CredentialView `json:"power" doc:"The default BMC credentials."`
	DeployPassword CredentialView `json:"deploy_password" doc:"The password of the deploy user."`
	Version        int64          `json:"version" doc:"Grows with every change."`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

func show(s Site) View {
	return View{
		SiteID: s.ID, Name: s.Name, Status: s.Status, Settings: s.Settings,
		APIToken: showCredential(s.APIToken), Power: showCredential(s.Power), DeployPassword: showCredential(s.Deploy),
		Version: s.Version, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
}

// NewBody is what a site is made of.
type NewBody struct {
	Name                 string        `json:"name" minLength:"1" maxLength:"63" doc:"Its name, once on the platform." example:"dc1-maas"`
	RegionCode           string        `json:"region_code" maxLength:"63" doc:"The region of the product that its machines belong to." example:"eu-1"`
	APIBaseURL           string        `json:"api_base_url" maxLength:"500" doc:"Address of the MAAS region, without credentials." example:"http://maas.example:5240/MAAS"`
	PXEIface             string        `json:"pxe_iface" maxLength:"15" doc:"Interface of the MAAS server on the PXE network." example:"ens19"`
	PXEVLANVID           int32         `json:"pxe_vlan_vid" minimum:"0" maximum:"4094" doc:"VLAN of the PXE network; 0: untagged." example:"46"`
	NodePXEIface         string        `json:"node_pxe_iface" maxLength:"15" doc:"Interface of the nodes on the PXE network." example:"eno8303"`
	CACertificate        *string       `json:"ca_certificate,omitempty" maxLength:"65536" doc:"PEM of the CA that signed the certificate of MAAS; absent: the CAs of the control plane's machine."`
	AllowedNetworks      *[]string     `json:"allowed_networks,omitempty" nullable:"false" maxItems:"32" doc:"CIDRs that the address of MAAS must lie in; absent: any but link-local and loopback."`
	BMCNetworks          *[]string     `json:"bmc_networks,omitempty" nullable:"false" maxItems:"32" doc:"CIDRs that the BMCs of its machines live in; MAAS uses the BMC credentials of the site at no other address; absent: any but link-local and loopback."`
	DeployUser           *string       `json:"deploy_user,omitempty" doc:"Account that deployed machines are reached by; hpcadmin by default."`
	DeploySSHIface       *string       `json:"deploy_ssh_iface,omitempty" doc:"Interface of the nodes that deployed machines are reached over; eno8303 by default."`
	UpstreamDNSServers   *[]string     `json:"upstream_dns_servers,omitempty" nullable:"false" minItems:"1" maxItems:"8" doc:"DNS servers that MAAS must forward to; 1.1.1.1 and 8.8.8.8 by default."`
	MaxParallel          *int32        `json:"max_parallel,omitempty" minimum:"1" maximum:"1000" doc:"Machines of the site in work at once, over all batches; 20 by default."`
	RequiredScripts      *[]string     `json:"required_scripts,omitempty" nullable:"false" maxItems:"32" doc:"Commissioning and testing scripts that MAAS must have, as NAME or NAME@VERSION; none by default."`
	RequiredCapabilities *[]Capability `json:"required_capabilities,omitempty" nullable:"false" maxItems:"8" doc:"What MAAS must be able to do; nothing by default."`
	HWSyncHTTP           *SyncHTTP     `json:"hw_sync_http,omitempty" enum:"pinned,accepted" doc:"What vouches for the program that machines fetch from MAAS over plain HTTP and run as root to report their hardware: its digest (pinned, by default), or nothing (accepted)."`
}

func (b NewBody) settings() SettingsChange {
	return SettingsChange{
		RegionCode: &b.RegionCode, APIBaseURL: &b.APIBaseURL, CACertificate: b.CACertificate,
		AllowedNetworks: b.AllowedNetworks, BMCNetworks: b.BMCNetworks,
		PXEIface: &b.PXEIface, PXEVLANVID: &b.PXEVLANVID, NodePXEIface: &b.NodePXEIface, DeployUser: b.DeployUser,
		DeploySSHIface: b.DeploySSHIface, UpstreamDNSServers: b.UpstreamDNSServers, MaxParallel: b.MaxParallel,
		HWSyncHTTP: b.HWSyncHTTP, RequiredScripts: b.RequiredScripts, RequiredCapabilities: b.RequiredCapabilities,
	}
}

// ChangeBody is the change of a site; what is left out stays.
type ChangeBody struct {
	Name   *string `json:"name,omitempty" maxLength:"63" doc:"Its new name."`
	Status *Status `json:"status,omitempty" doc:"A disabled site refuses new machines; running work, the operations of its nodes and their reconciliation go on."`
	SettingsChange
}

// Path names a site in the path. It is exported because the framework reads
// embedded parameters only then.
type Path struct {
	SiteID id.Site `path:"site_id" doc:"Id of the site."`
}

func (s *Service) registerSites(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "create-maas-site", Method: http.MethodPost, Path: pathSites, Tag: tagSites,
		Summary: "Create a MAAS site", Description: "Also creates its profile `default`. Credentials are written afterwards.",
		Access: httpapi.Platform(auth.SiteManage), Status: http.StatusCreated,
	}, func(ctx context.Context, in *struct{ Body NewBody }) (*httpapi.Versioned[View], error) {
		made, err := s.CreateSite(ctx, in.Body.Name, in.Body.settings())
		return httpapi.AtVersion(made.Version, show(made)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-maas-sites", Method: http.MethodGet, Path: pathSites, Tag: tagSites,
		Summary: "List the MAAS sites", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		httpapi.Page
		Status Status `query:"status" doc:"Only sites of this status."`
	},
	) (*httpapi.Listed[View], error) {
		page, err := httpapi.SliceOf[id.Site](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.Sites(ctx, optional(in.Status), page)
		return httpapi.ListOf(in.Page, rows, err, show, func(v View) any { return v.SiteID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-maas-site", Method: http.MethodGet, Path: pathSite, Tag: tagSites,
		Summary: "Read a MAAS site", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Versioned[View], error) {
		found, err := s.Site(ctx, in.SiteID)
		return httpapi.AtVersion(found.Version, show(found)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-maas-site", Method: http.MethodPatch, Path: pathSite, Tag: tagSites,
		Summary: "Change, disable or enable a MAAS site", Access: httpapi.Platform(auth.SiteManage),
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
		after, err := s.UpdateSite(ctx, in.SiteID, version,
			Change{Name: in.Body.Name, Status: in.Body.Status, Settings: in.Body.SettingsChange})
		return httpapi.AtVersion(after.Version, show(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-maas-site", Method: http.MethodDelete, Path: pathSite, Tag: tagSites,
		Summary: "Take a MAAS site out of use",
		Description: "While nodes or unfinished jobs belong to the site, it is disabled: it refuses new machines, while running work, the operations of its nodes and their reconciliation go on. " +
			"As soon as nothing belongs to it any more, it is removed with its secrets, and its name can be used again; enabling it before takes that back.",
		Access: httpapi.Platform(auth.SiteManage),
	}, func(ctx context.Context, in *Path) (*httpapi.Nothing, error) {
		return nil, s.DeleteSite(ctx, in.SiteID)
	})
}

// optional is nil for a value that was not given.
func optional[T ~string](v T) *T {
	if v == "" {
		return nil
	}
	return &v
}
