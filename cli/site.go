package cli

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) siteColumns() []column[apiclient.SiteView] {
	type site = apiclient.SiteView
	return []column[site]{
		{title: "NAME", text: func(v site) string { return v.Name }},
		{title: "STATUS", text: func(v site) string { return string(v.Status) }},
		{title: "REGION", text: func(v site) string { return v.RegionCode }},
		{title: "URL", text: func(v site) string { return v.ApiBaseUrl }},
		{title: "TOKEN", text: func(v site) string { return a.credential(v.ApiToken) }},
		{title: "ID", text: func(v site) string { return v.SiteId.String() }},
		{title: "BMC CREDENTIALS", text: func(v site) string { return a.credential(v.Power) }, detail: true},
		{title: "DEPLOY PASSWORD", text: func(v site) string { return a.credential(v.DeployPassword) }, detail: true},
		{title: "CA", text: func(v site) string { return yes(v.CaCertificate != "") }, detail: true},
		{title: "ALLOWED NETWORKS", text: func(v site) string { return or(strings.Join(v.AllowedNetworks, " "), "any") }, detail: true},
		{title: "PXE INTERFACE", text: func(v site) string { return v.PxeIface }, detail: true},
		{title: "PXE VLAN", text: func(v site) string { return strconv.Itoa(int(v.PxeVlanVid)) }, detail: true},
		{title: "NODE PXE INTERFACE", text: func(v site) string { return v.NodePxeIface }, detail: true},
		{title: "DEPLOY USER", text: func(v site) string { return v.DeployUser }, detail: true},
		{title: "DEPLOY SSH INTERFACE", text: func(v site) string { return v.DeploySshIface }, detail: true},
		{title: "DNS", text: func(v site) string { return strings.Join(v.UpstreamDnsServers, " ") }, detail: true},
		{title: "MAX PARALLEL", text: func(v site) string { return strconv.Itoa(int(v.MaxParallel)) }, detail: true},
		{title: "HW SYNC OVER HTTP", text: func(v site) string { return string(v.HwSyncHttp) }, detail: true},
		{title: "CREATED", text: func(v site) string { return a.when(v.CreatedAt) }, detail: true},
		{title: "UPDATED", text: func(v site) string { return a.when(v.UpdatedAt) }, detail: true},
		{title: "VERSION", text: func(v site) string { return strconv.FormatInt(v.Version, 10) }, detail: true},
	}
}

func (a *app) credential(c apiclient.SiteCredentialView) string {
	if !c.HasCredentials {
		return "none"
	}
	var at time.Time
	if c.RotatedAt != nil {
		at = *c.RotatedAt
	}
	return text(c.Fingerprint) + ", " + a.when(at)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (a *app) siteCommand() *cobra.Command {
	return a.noun(noun{
		use: "site", short: "MAAS regions that machines come from", group: groupMachines,
		long: "Sites are named by name or id.",
	},
		a.siteCreateCommand(),
		a.verb(verb{
			use: "list", short: "List the sites", aliases: []string{"ls"}, operations: []string{"list-maas-sites"},
			flags: func(cmd *cobra.Command) action {
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.SiteView]{columns: a.siteColumns(), fetch: s.sites})
				}
			},
		}),
		a.verb(verb{
			use: "get SITE", short: "Show a site", args: exactly("SITE"), operations: []string{"get-maas-site"},
			run: siteVerb(func(s *session, id types.UUID) error {
				return show(s, a.siteColumns())(s.api.GetMaasSiteWithResponse(s.ctx, id))
			}),
		}),
		a.siteUpdateCommand(),
		a.siteStatusCommand("enable", "Let a site take new work again", apiclient.SiteChangeBodyStatusActive),
		a.siteStatusCommand("disable", "Let a site take no new work; running work finishes", apiclient.SiteChangeBodyStatusDisabled),
		a.verb(verb{
			use: "delete SITE", short: "Take a site out of use", aliases: []string{"rm"}, args: exactly("SITE"), operations: []string{"delete-maas-site"},
			run: siteVerb(func(s *session, id types.UUID) error {
				return done(s, "site %s is deleted", id)(s.api.DeleteMaasSiteWithResponse(s.ctx, id, &apiclient.DeleteMaasSiteParams{}))
			}),
		}),
		a.siteDoctorCommand(),
		a.siteCredentialsCommand(), a.siteProfileCommand(), a.siteOverrideCommand(), a.siteRoCECommand(),
	)
}

// siteVerb is a command about one site and nothing else.
func siteVerb(do func(s *session, site types.UUID) error) action {
	return func(s *session, args []string) error {
		id, err := s.siteID(args[0])
		if err != nil {
			return err
		}
		return do(s, id)
	}
}

func (s *session) sites(p page) (apiclient.Answer, error) {
	return s.api.ListMaasSitesWithResponse(s.ctx, &apiclient.ListMaasSitesParams{Cursor: p.cursor, PageSize: p.size})
}

// siteID resolves a site named by id or name.
func (s *session) siteID(name string) (types.UUID, error) {
	if id, ok := parseID(name); ok {
		return id, nil
	}
	v, ok, err := find(s.sites, func(v apiclient.SiteView) bool { return v.Name == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, notFound("see which there are: gpuaas site list", "there is no site %q", name)
	}
	return v.SiteId, nil
}

// siteFlags are the settings of a site.
type siteFlags struct {
	name, region, url, caFile, pxeIface, nodePXEIface, deployUser, deployIface, syncHTTP string
	vlan, parallel                                                                       int32
	networks, dns                                                                        []string
}

func addSiteFlags(cmd *cobra.Command) *siteFlags {
	v := &siteFlags{}
	f := cmd.Flags()
	f.StringVar(&v.region, "region", "", "the region of the product that its machines belong to")
	f.StringVar(&v.url, "url", "", "address of MAAS, such as http://maas.example:5240/MAAS")
	f.StringVar(&v.caFile, "ca-file", "", "PEM of the CA that signed the certificate of MAAS")
	f.StringSliceVar(&v.networks, "allow-network", nil, "network that the address of MAAS must lie in; may be repeated")
	f.StringVar(&v.pxeIface, "pxe-iface", "", "interface of the MAAS server on the PXE network")
	f.Int32Var(&v.vlan, "pxe-vlan", 0, "VLAN of the PXE network; 0 when untagged")
	f.StringVar(&v.nodePXEIface, "node-pxe-iface", "", "interface of the nodes on the PXE network")
	f.StringVar(&v.deployUser, "deploy-user", "", "account that deployed machines are reached by (default hpcadmin)")
	f.StringVar(&v.deployIface, "deploy-ssh-iface", "", "interface that deployed machines are reached over (default eno8303)")
	f.StringSliceVar(&v.dns, "dns", nil, "DNS server that MAAS must forward to; may be repeated (default 1.1.1.1, 8.8.8.8)")
	f.Int32Var(&v.parallel, "max-parallel", 0, "machines in work at once, over all batches (default 20)")
	f.StringVar(&v.syncHTTP, "hw-sync-http", "", "what vouches for the program that machines fetch over plain HTTP and run as root: "+
		"pinned (its digest) or accepted (nothing) (default pinned)")
	_ = cmd.MarkFlagFilename("ca-file") // it was defined above
	return v
}

// ca reads the file of the CA; nil when none was given.
func (v *siteFlags) ca(s *session) (*string, error) {
	if !s.cmd.Flags().Changed("ca-file") || v.caFile == "" {
		return given(s, "ca-file", ptr("")), nil
	}
	b, err := os.ReadFile(v.caFile)
	if err != nil {
		return nil, fail(exitUsage, "ca_unreadable", "name a file that you can read", "read CA: %v", err)
	}
	return ptr(string(b)), nil
}

func (a *app) siteCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Create a site and its profile \"default\"", args: exactly("NAME"), operations: []string{"create-maas-site"},
		example: "  gpuaas site create dc1 --region eu-1 --url http://maas.example:5240/MAAS --pxe-iface ens19 --node-pxe-iface eno8303 --pxe-vlan 46",
		flags: func(cmd *cobra.Command) action {
			v := addSiteFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.require("region", "url", "pxe-iface", "node-pxe-iface"); err != nil {
					return err
				}
				ca, err := v.ca(s)
				if err != nil {
					return err
				}
				return show(s, a.siteColumns())(s.api.CreateMaasSiteWithResponse(s.ctx, &apiclient.CreateMaasSiteParams{}, apiclient.SiteNewBody{
					Name: args[0], RegionCode: v.region, ApiBaseUrl: v.url, CaCertificate: ca, AllowedNetworks: given(s, "allow-network", &v.networks),
					PxeIface: v.pxeIface, PxeVlanVid: v.vlan, NodePxeIface: v.nodePXEIface, DeployUser: given(s, "deploy-user", &v.deployUser),
					DeploySshIface: given(s, "deploy-ssh-iface", &v.deployIface), UpstreamDnsServers: given(s, "dns", &v.dns),
					MaxParallel: given(s, "max-parallel", &v.parallel),
					HwSyncHttp:  given(s, "hw-sync-http", ptr(apiclient.SiteNewBodyHwSyncHttp(v.syncHTTP))),
				}))
			}
		},
	})
}

func (a *app) siteUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update SITE", short: "Change a site", args: exactly("SITE"), operations: []string{"get-maas-site", "update-maas-site"},
		long: "After a change of --url the MAAS token must be written again: it is sent nowhere but where it was checked.",
		flags: func(cmd *cobra.Command) action {
			v := addSiteFlags(cmd)
			cmd.Flags().StringVar(&v.name, "name", "", "its new name")
			return func(s *session, args []string) error {
				if err := s.anything("name", "region", "url", "ca-file", "allow-network", "pxe-iface", "pxe-vlan", "node-pxe-iface", "deploy-user",
					"deploy-ssh-iface", "dns", "max-parallel", "hw-sync-http"); err != nil {
					return err
				}
				ca, err := v.ca(s)
				if err != nil {
					return err
				}
				return a.updateSite(s, args[0], apiclient.SiteChangeBody{
					Name: given(s, "name", &v.name), RegionCode: given(s, "region", &v.region), ApiBaseUrl: given(s, "url", &v.url), CaCertificate: ca,
					AllowedNetworks: given(s, "allow-network", &v.networks), PxeIface: given(s, "pxe-iface", &v.pxeIface), PxeVlanVid: given(s, "pxe-vlan", &v.vlan),
					NodePxeIface: given(s, "node-pxe-iface", &v.nodePXEIface), DeployUser: given(s, "deploy-user", &v.deployUser),
					DeploySshIface: given(s, "deploy-ssh-iface", &v.deployIface), UpstreamDnsServers: given(s, "dns", &v.dns),
					MaxParallel: given(s, "max-parallel", &v.parallel),
					HwSyncHttp:  given(s, "hw-sync-http", ptr(apiclient.SiteChangeBodyHwSyncHttp(v.syncHTTP))),
				})
			}
		},
	})
}

func (a *app) siteStatusCommand(word, short string, status apiclient.SiteChangeBodyStatus) *cobra.Command {
	return a.verb(verb{
		use: word + " SITE", short: short, args: exactly("SITE"), operations: []string{"get-maas-site", "update-maas-site"},
		run: func(s *session, args []string) error {
			return a.updateSite(s, args[0], apiclient.SiteChangeBody{Status: &status})
		},
	})
}

func (a *app) updateSite(s *session, name string, body apiclient.SiteChangeBody) error {
	id, err := s.siteID(name)
	if err != nil {
		return err
	}
	now, err := fetch[apiclient.SiteView](s.api.GetMaasSiteWithResponse(s.ctx, id))
	if err != nil {
		return err
	}
	return show(s, a.siteColumns())(s.api.UpdateMaasSiteWithResponse(s.ctx, id, &apiclient.UpdateMaasSiteParams{IfMatch: etag(now.Version)}, body))
}

func (a *app) siteDoctorCommand() *cobra.Command {
	return a.verb(verb{
		use: "doctor SITE", short: "Look whether a site is ready for work", args: exactly("SITE"), operations: []string{"probe-maas-site"},
		long: "Looks at everything that work on a site needs, and says what to do about what is not well.\n" +
			"The exit code is 0 when all is well and 8 when something is not.",
		run: func(s *session, args []string) error {
			id, err := s.siteID(args[0])
			if err != nil {
				return err
			}
			raw, err := apiclient.Read(s.api.ProbeMaasSiteWithResponse(s.ctx, id, &apiclient.ProbeMaasSiteParams{}))
			if err != nil {
				return err
			}
			probe, err := decode[apiclient.SiteProbeView](raw)
			if err != nil {
				return err
			}
			if err := s.showProbe(probe); err != nil {
				return err
			}
			if !probe.value.Ok {
				return fail(exitUnsuccessful, "site_unwell", "follow the remedies above, then look again", "the site %s is not ready for work", args[0])
			}
			return nil
		},
	})
}

func (s *session) showProbe(probe object[apiclient.SiteProbeView]) error {
	format, err := s.format()
	if err != nil {
		return err
	}
	if format != formatTable {
		return printRaw(s.program.Out, format, probe.raw)
	}
	var b strings.Builder
	for _, c := range probe.value.Checks {
		b.WriteString(checkText(c.Ok, string(c.Name), c.Detail, text(c.Remedy), text(c.Code)))
	}
	return write(s.program.Out, b.String())
}
