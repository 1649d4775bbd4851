package site

import (
	"context"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

const tagOverrides = "Power credential overrides"

// PowerOverrideView is an override as the API shows it.
type PowerOverrideView struct {
	PowerOverrideID id.PowerOverride `json:"power_override_id" doc:"Id of the override."`
	SiteID          id.Site          `json:"site_id" doc:"Id of its site."`
	SelectorType    SelectorType     `json:"selector_type" enum:"hostname,ipmi_ip,pxe_mac" doc:"By what it finds its machine."`
	SelectorValue   string           `json:"selector_value" example:"c07u31"`
	Status          Status           `json:"status" doc:"A disabled override is passed over."`
	Credentials     CredentialView   `json:"credentials" doc:"Its BMC credentials."`
	Version         int64            `json:"version" doc:"Grows with every change."`
	CreatedAt       time.Time        `json:"created_at"`
	UpdatedAt       time.Time        `json:"updated_at"`
}

func showOverride(o PowerOverride) PowerOverrideView {
	return PowerOverrideView{
		PowerOverrideID: o.ID, SiteID: o.Site, SelectorType: o.Selector.Type, SelectorValue: o.Selector.Value,
		Status:      o.Status,
		Credentials: showCredential(o.Credential), Version: o.Version, CreatedAt: o.CreatedAt.UTC(),
		UpdatedAt: o.UpdatedAt.UTC(),
	}
}

// NewPowerOverrideBody is what an override is made of.
type NewPowerOverrideBody struct {
	SelectorType  SelectorType  `json:"selector_type" enum:"hostname,ipmi_ip,pxe_mac" doc:"By what it finds its machine."`
	SelectorValue string        `json:"selector_value" minLength:"1" maxLength:"253" doc:"The host name, BMC address or PXE MAC address of the machine." example:"c07u31"`
	User          string        `json:"user" minLength:"1" maxLength:"64" doc:"Account of the BMC." example:"root"`
	Pass          redact.Secret `json:"pass" writeOnly:"true" format:"password" minLength:"1" maxLength:"256" doc:"Its password."`
	PowerParameters
}

// PowerOverrideChangeBody is the change of an override; what is left out stays.
type PowerOverrideChangeBody struct {
	Status      *Status    `json:"status,omitempty" doc:"A disabled override is passed over."`
	Credentials *PowerBody `json:"credentials,omitempty" doc:"Its new BMC credentials; the next use takes them."`
}

// PowerChoiceView is whose BMC credentials a machine gets, and why.
type PowerChoiceView struct {
	Source          string            `json:"source" enum:"override,site_default" doc:"Whose they are."`
	PowerOverrideID *id.PowerOverride `json:"power_override_id,omitempty" doc:"The override, when it is one."`
	Fingerprint     string            `json:"fingerprint" doc:"Tells secrets of this site apart."`
	Reason          string            `json:"reason" doc:"Why these." example:"active override by ipmi_ip 10.0.0.7"`
}

func showChoice(c Choice) PowerChoiceView {
	v := PowerChoiceView{Source: "site_default", Fingerprint: c.Fingerprint, Reason: c.Reason}
	if !c.Override.IsZero() {
		v.Source, v.PowerOverrideID = "override", &c.Override
	}
	return v
}

// PowerOverridePath names an override in the path. It is exported because the
// framework reads embedded parameters only then.
type PowerOverridePath struct {
	Path
	PowerOverrideID id.PowerOverride `path:"power_override_id" doc:"Id of the override."`
}

func (s *Service) registerOverrides(api *httpapi.API) {
	const all, one = pathSite + "/power-overrides", pathSite + "/power-overrides/{power_override_id}"
	httpapi.Register(api, httpapi.Operation{
		ID: "create-power-override", Method: http.MethodPost, Path: all, Tag: tagOverrides,
		Summary: "Give one machine BMC credentials of its own", Access: httpapi.Platform(auth.SiteManage),
		Status: http.StatusCreated, SecretRequest: true,
	}, func(ctx context.Context, in *struct {
		Path
		Body NewPowerOverrideBody
	},
	) (*httpapi.Versioned[PowerOverrideView], error) {
		b := in.Body
		made, err := s.CreatePowerOverride(ctx, in.SiteID, NewPowerOverride{
			Selector:    Selector{Type: b.SelectorType, Value: b.SelectorValue},
			Credentials: PowerCredentials{User: b.User, Pass: b.Pass, PowerParameters: b.PowerParameters},
		})
		return httpapi.AtVersion(made.Version, showOverride(made)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-power-overrides", Method: http.MethodGet, Path: all, Tag: tagOverrides,
		Summary: "List the power credential overrides of a MAAS site", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		Path
		httpapi.Page
	},
	) (*httpapi.Listed[PowerOverrideView], error) {
		page, err := httpapi.SliceOf[id.PowerOverride](in.Page)
		if err != nil {
			return nil, err
		}
		rows, err := s.PowerOverrides(ctx, in.SiteID, page)
		return httpapi.ListOf(in.Page, rows, err, showOverride, func(v PowerOverrideView) any { return v.PowerOverrideID })
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-power-override", Method: http.MethodGet, Path: one, Tag: tagOverrides,
		Summary: "Read a power credential override", Access: httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *PowerOverridePath) (*httpapi.Versioned[PowerOverrideView], error) {
		found, err := s.PowerOverride(ctx, in.SiteID, in.PowerOverrideID)
		return httpapi.AtVersion(found.Version, showOverride(found)), err
	})
	s.registerOverrideChanges(api, one)
}

func (s *Service) registerOverrideChanges(api *httpapi.API, one string) {
	httpapi.Register(api, httpapi.Operation{
		ID: "update-power-override", Method: http.MethodPatch, Path: one, Tag: tagOverrides,
		Summary: "Rotate, disable or enable a power credential override", Access: httpapi.Platform(auth.SiteManage),
		SecretRequest: true,
	}, func(ctx context.Context, in *struct {
		PowerOverridePath
		httpapi.IfMatch
		Body PowerOverrideChangeBody
	},
	) (*httpapi.Versioned[PowerOverrideView], error) {
		version, err := in.Version()
		if err != nil {
			return nil, err
		}
		ch := PowerOverrideChange{Status: in.Body.Status}
		if c := in.Body.Credentials; c != nil {
			ch.Credentials = &PowerCredentials{User: c.User, Pass: c.Pass, PowerParameters: c.PowerParameters}
		}
		after, err := s.UpdatePowerOverride(ctx, in.SiteID, in.PowerOverrideID, version, ch)
		return httpapi.AtVersion(after.Version, showOverride(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "delete-power-override", Method: http.MethodDelete, Path: one, Tag: tagOverrides,
		Summary: "Remove a power credential override and its credentials", Access: httpapi.Platform(auth.SiteManage),
	}, func(ctx context.Context, in *PowerOverridePath) (*httpapi.Nothing, error) {
		return nil, s.DeletePowerOverride(ctx, in.SiteID, in.PowerOverrideID)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-power-choice", Method: http.MethodGet, Path: pathSite + "/power-credentials/resolve", Tag: tagOverrides,
		Summary:     "Tell whose BMC credentials a machine gets, and why",
		Description: "The order is: active override by PXE MAC, by IPMI address, by host name, then the default of the site.",
		Access:      httpapi.Platform(auth.SiteRead),
	}, func(ctx context.Context, in *struct {
		Path
		Hostname string `query:"hostname" maxLength:"253" doc:"Host name of the machine."`
		IPMIIP   string `query:"ipmi_ip" maxLength:"45" doc:"Address of its BMC."`
		PXEMAC   string `query:"pxe_mac" maxLength:"17" doc:"MAC address of its PXE interface."`
	},
	) (*httpapi.Plain[PowerChoiceView], error) {
		choice, err := s.ChoicePower(ctx, in.SiteID, Machine{Hostname: in.Hostname, IPMIIP: in.IPMIIP, PXEMAC: in.PXEMAC})
		return &httpapi.Plain[PowerChoiceView]{Body: showChoice(choice)}, err
	})
}
