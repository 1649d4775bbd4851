package site

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/redact"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// PowerBody is what a BMC lets in.
type PowerBody struct {
	User string        `json:"user" minLength:"1" maxLength:"64" doc:"Account of the BMC." example:"root"`
	Pass redact.Secret `json:"pass" writeOnly:"true" format:"password" minLength:"1" maxLength:"256" doc:"Its password."`
	PowerParameters
}

// CredentialsBody is secrets to be written; what is left out stays.
type CredentialsBody struct {
	APIToken       redact.Secret `json:"api_token,omitempty" required:"false" writeOnly:"true" format:"password" minLength:"1" maxLength:"256" doc:"API key of a MAAS administrator, of the form consumer:token:secret. MAAS is asked before it is kept."`
	Power          *PowerBody    `json:"power,omitempty" doc:"Default BMC credentials of the site."`
	DeployPassword redact.Secret `json:"deploy_password,omitempty" required:"false" writeOnly:"true" format:"password" minLength:"1" maxLength:"256" doc:"Deprecated: machines get a login of their own. It is read only for machines that were deployed before they did."`
}

// ProbeView is what a probe found.
type ProbeView struct {
	OK     bool    `json:"ok" doc:"Whether everything is well."`
	Checks []Check `json:"checks" nullable:"false" doc:"What was looked at, in order."`
}

func (s *Service) registerCredentials(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "set-maas-site-credentials", Method: http.MethodPost, Path: pathSite + "/credentials", Tag: tagSites,
		Summary: "Write credentials of a MAAS site",
		Description: "They go to the secrets engine and cannot be read back. A MAAS token is kept only when MAAS accepts it as one of an administrator: " +
			"otherwise the answer is 422 with the reason, and nothing is written. The next use takes the new credentials.",
		Access: httpapi.Platform(auth.SiteManage), Status: http.StatusOK, SecretRequest: true,
	}, func(ctx context.Context, in *struct {
		Path
		Body CredentialsBody
	},
	) (*httpapi.Versioned[View], error) {
		given := Credentials{APIToken: in.Body.APIToken, DeployPassword: in.Body.DeployPassword}
		if p := in.Body.Power; p != nil {
			given.Power = &PowerCredentials{User: p.User, Pass: p.Pass, PowerParameters: p.PowerParameters}
		}
		after, err := s.SetCredentials(ctx, in.SiteID, given)
		return httpapi.AtVersion(after.Version, show(after)), err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "probe-maas-site", Method: http.MethodPost, Path: pathSite + "/probe", Tag: tagSites,
		Summary:     "Look whether a MAAS site is ready for work",
		Description: "Whatever is wrong with MAAS is in the checks, each with a remedy.",
		Access:      httpapi.Platform(auth.SiteManage), Status: http.StatusOK,
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[ProbeView], error) {
		checks, err := s.Probe(ctx, in.SiteID)
		out := ProbeView{OK: true, Checks: checks}
		for _, c := range checks {
			out.OK = out.OK && c.OK
		}
		return &httpapi.Plain[ProbeView]{Body: out}, err
	})
}
