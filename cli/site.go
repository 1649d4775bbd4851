package cli

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

func (a *app) siteColumns() []table.Column[apiclient.SiteView] {
	type site = apiclient.SiteView
	return []table.Column[site]{
		{Title: "NAME", Text: func(v site) string { return v.Name }},
		{Title: "STATUS", Text: func(v site) string { return string(v.Status) }},
		{Title: "REGION", Text: func(v site) string { return v.RegionCode }},
		{Title: "URL", Long: true, Text: func(v site) string { return v.ApiBaseUrl }},
		{Title: "TOKEN", Long: true, Text: func(v site) string { return a.credential(v.ApiToken) }},
		{Title: "ID", Wide: true, Text: func(v site) string { return v.SiteId.String() }},
		{Title: "BMC CREDENTIALS", Text: func(v site) string { return a.credential(v.Power) }, Detail: true},
		{Title: "DEPLOY PASSWORD", Text: func(v site) string { return a.credential(v.DeployPassword) }, Detail: true},
		{Title: "CA", Text: func(v site) string { return yes(v.CaCertificate != "") }, Detail: true},
		{
			Title: "ALLOWED NETWORKS", Text: func(v site) string { return cmp.Or(strings.Join(v.AllowedNetworks, " "), "any") },
			Detail: true,
		},
		{
			Title: "BMC NETWORKS", Text: func(v site) string { return cmp.Or(strings.Join(v.BmcNetworks, " "), "any") },
			Detail: true,
		},
		{Title: "PXE INTERFACE", Text: func(v site) string { return v.PxeIface }, Detail: true},
		{Title: "PXE VLAN", Text: func(v site) string { return strconv.Itoa(int(v.PxeVlanVid)) }, Detail: true},
		{Title: "NODE PXE INTERFACE", Text: func(v site) string { return v.NodePxeIface }, Detail: true},
		{Title: "DEPLOY USER", Text: func(v site) string { return v.DeployUser }, Detail: true},
		{Title: "DEPLOY SSH INTERFACE", Text: func(v site) string { return v.DeploySshIface }, Detail: true},
		{Title: "DNS", Text: func(v site) string { return strings.Join(v.UpstreamDnsServers, " ") }, Detail: true},
		{Title: "MAX PARALLEL", Text: func(v site) string { return strconv.Itoa(int(v.MaxParallel)) }, Detail: true},
		{Title: "HW SYNC OVER HTTP", Text: func(v site) string { return string(v.HwSyncHttp) }, Detail: true},
		{
			Title: "REQUIRED SCRIPTS", Text: func(v site) string { return strings.Join(v.RequiredScripts, " ") },
			Detail: true,
		},
		{
			Title: "REQUIRED CAPABILITIES", Detail: true,
			Text: func(v site) string { return strings.Join(words(v.RequiredCapabilities), " ") },
		},
		{Title: "CREATED", Text: func(v site) string { return a.When(v.CreatedAt) }, Detail: true},
		{Title: "UPDATED", Text: func(v site) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(v site) string { return strconv.FormatInt(v.Version, 10) }, Detail: true},
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
	return text(c.Fingerprint) + ", " + a.When(at)
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
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SiteView]{Columns: a.siteColumns(), Fetch: s.sites})
				}
			},
		}),
		a.verb(verb{
			use: "get SITE", short: "Show a site", args: frame.Exactly("SITE"), operations: []string{"get-maas-site"},
			run: siteVerb(func(s *session, id types.UUID) error {
				return frame.Show(s.Session, a.siteColumns())(s.API.GetMaasSiteWithResponse(s.Ctx, id))
			}),
		}),
		a.siteUpdateCommand(),
		a.siteStatusCommand("enable", "Enable a site: it accepts new machines again", apiclient.SiteChangeBodyStatusActive),
		a.siteStatusCommand("disable", "Disable a site: it accepts no new machines; its nodes stay in operation",
			apiclient.SiteChangeBodyStatusDisabled),
		a.verb(verb{
			use: "delete SITE", short: "Take a site out of use", aliases: []string{"rm"}, args: frame.Exactly("SITE"),
			long: "While nodes or unfinished jobs belong to the site, it is disabled: it refuses new machines, while running\n" +
				"work, the operations of its nodes and their reconciliation go on. It is deleted with its secrets once they have left.",
			operations: []string{"delete-maas-site", "get-maas-site"},
			run:        siteVerb(deleteSite),
		}),
		a.siteDoctorCommand(),
		a.siteCredentialsCommand(), a.siteProfileCommand(), a.siteBundleCommand(), a.siteOverrideCommand(),
		a.siteRoCECommand(),
	)
}

// deleteSite says whether the site is gone, or only disabled because it is still
// needed.
func deleteSite(s *session, site types.UUID) error {
	deleted, err := s.API.DeleteMaasSiteWithResponse(s.Ctx, site, &apiclient.DeleteMaasSiteParams{})
	if _, err := apiclient.Read(deleted, err); err != nil {
		return err
	}
	left, err := frame.Fetch[apiclient.SiteView](s.API.GetMaasSiteWithResponse(s.Ctx, site))
	var p *apiclient.Problem
	switch {
	case errors.As(err, &p) && failure.ExitOf(p.Status) == failure.NotFound:
		s.Note("site %s is deleted", site)
		return nil
	case err != nil:
		return err
	}
	s.Note("site %s is disabled, not deleted: nodes or unfinished jobs still belong to it; they go on, and it takes no new "+
		"machines. It is deleted once they have left", left.Name)
	return nil
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

func (s *session) sites(p listing.Page) (apiclient.Answer, error) {
	return s.API.ListMaasSitesWithResponse(s.Ctx, &apiclient.ListMaasSitesParams{Cursor: p.Cursor, PageSize: p.Size})
}

// siteID resolves a site named by id or name.
func (s *session) siteID(name string) (types.UUID, error) {
	if id, ok := frame.ParseID(name); ok {
		return id, nil
	}
	v, ok, err := listing.Find(s.sites, func(v apiclient.SiteView) bool { return v.Name == name })
	if err != nil {
		return types.UUID{}, err
	}
	if !ok {
		return types.UUID{}, failure.Missing("list them: gpuaas site list", "there is no site %q", name)
	}
	return v.SiteId, nil
}

// siteFlags are the settings of a site.
type siteFlags struct {
	name, region, url, caFile, pxeIface, nodePXEIface, deployUser, deployIface, syncHTTP string
	vlan, parallel                                                                       int32
	networks, bmcNetworks, dns, scripts, capabilities                                    []string
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
	f.StringVar(&v.deployIface, "deploy-ssh-iface", "",
		"interface that deployed machines are reached over (default eno8303)")
	f.StringSliceVar(&v.dns, "dns", nil,
		"DNS server that MAAS must forward to; may be repeated (default 1.1.1.1, 8.8.8.8)")
	f.Int32Var(&v.parallel, "max-parallel", 0, "machines in work at once, over all batches (default 20)")
	f.StringVar(&v.syncHTTP, "hw-sync-http", "",
		"what vouches for the program that machines fetch over plain HTTP and run as root: "+
			"pinned (its digest) or accepted (nothing) (default pinned)")
	f.StringSliceVar(&v.scripts, "require-script", nil,
		"commissioning or testing script that MAAS must have, as NAME or NAME@VERSION; may be repeated; empty: none")
	f.StringSliceVar(&v.bmcNetworks, "bmc-network", nil,
		"network that the BMCs of its machines live in; may be repeated; empty: any")
	f.StringSliceVar(&v.capabilities, "require-capability", nil,
		"what MAAS must be able to do: https, redundant_racks, redundant_dhcp; may be repeated; empty: nothing")
	_ = cmd.MarkFlagFilename("ca-file") // it was defined above
	return v
}

// named are words as the API names their kind; never nil.
func named[T ~string](words []string) []T {
	out := make([]T, 0, len(words))
	for _, w := range words {
		out = append(out, T(w))
	}
	return out
}

func words[T ~string](named []T) []string {
	out := make([]string, len(named))
	for i, n := range named {
		out[i] = string(n)
	}
	return out
}

// ca reads the file of the CA; nil when none was given.
func (v *siteFlags) ca(s *session) (*string, error) {
	if !s.Cmd.Flags().Changed("ca-file") || v.caFile == "" {
		return frame.Given(s.Session, "ca-file", frame.Ptr("")), nil
	}
	b, err := os.ReadFile(v.caFile)
	if err != nil {
		return nil, failure.New(failure.Usage, "ca_unreadable", "name a file that you can read", "read CA: %v", err)
	}
	return frame.Ptr(string(b)), nil
}

func (a *app) siteCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create NAME", short: "Create a site and its profile \"default\"", args: frame.Exactly("NAME"),
		operations: []string{"create-maas-site"},
		example: "  gpuaas site create dc1 --region eu-1 --url http://maas.example:5240/MAAS --pxe-iface ens19 " +
			"--node-pxe-iface eno8303 --pxe-vlan 46",
		flags: func(cmd *cobra.Command) action {
			v := addSiteFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("region", "url", "pxe-iface", "node-pxe-iface"); err != nil {
					return err
				}
				ca, err := v.ca(s)
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.siteColumns())(
					s.API.CreateMaasSiteWithResponse(s.Ctx, &apiclient.CreateMaasSiteParams{}, apiclient.SiteNewBody{
						Name: args[0], RegionCode: v.region, ApiBaseUrl: v.url, CaCertificate: ca,
						AllowedNetworks: frame.Given(s.Session, "allow-network", &v.networks),
						BmcNetworks:     frame.Given(s.Session, "bmc-network", &v.bmcNetworks),
						PxeIface:        v.pxeIface, PxeVlanVid: v.vlan, NodePxeIface: v.nodePXEIface,
						DeployUser:         frame.Given(s.Session, "deploy-user", &v.deployUser),
						DeploySshIface:     frame.Given(s.Session, "deploy-ssh-iface", &v.deployIface),
						UpstreamDnsServers: frame.Given(s.Session, "dns", &v.dns),
						MaxParallel:        frame.Given(s.Session, "max-parallel", &v.parallel),
						HwSyncHttp: frame.Given(s.Session, "hw-sync-http",
							frame.Ptr(apiclient.SiteNewBodyHwSyncHttp(v.syncHTTP))),
						RequiredScripts: frame.Given(s.Session, "require-script", &v.scripts),
						RequiredCapabilities: frame.Given(s.Session, "require-capability",
							frame.Ptr(named[apiclient.SiteNewBodyRequiredCapabilities](v.capabilities))),
					}))
			}
		},
	})
}

func (a *app) siteUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update SITE", short: "Change a site", args: frame.Exactly("SITE"),
		operations: []string{"get-maas-site", "update-maas-site"},
		long: "After a change of --url the MAAS token must be written again: it is sent nowhere but where it was " +
			"checked.",
		flags: func(cmd *cobra.Command) action {
			v := addSiteFlags(cmd)
			cmd.Flags().StringVar(&v.name, "name", "", "its new name")
			return func(s *session, args []string) error {
				if err := s.Anything("name", "region", "url", "ca-file", "allow-network", "bmc-network", "pxe-iface", "pxe-vlan",
					"node-pxe-iface", "deploy-user",
					"deploy-ssh-iface", "dns", "max-parallel", "hw-sync-http", "require-script", "require-capability"); err != nil {
					return err
				}
				ca, err := v.ca(s)
				if err != nil {
					return err
				}
				return a.updateSite(s, args[0], apiclient.SiteChangeBody{
					Name: frame.Given(s.Session, "name", &v.name), RegionCode: frame.Given(s.Session, "region", &v.region),
					ApiBaseUrl: frame.Given(s.Session, "url", &v.url), CaCertificate: ca,
					AllowedNetworks:    frame.Given(s.Session, "allow-network", &v.networks),
					BmcNetworks:        frame.Given(s.Session, "bmc-network", &v.bmcNetworks),
					PxeIface:           frame.Given(s.Session, "pxe-iface", &v.pxeIface),
					PxeVlanVid:         frame.Given(s.Session, "pxe-vlan", &v.vlan),
					NodePxeIface:       frame.Given(s.Session, "node-pxe-iface", &v.nodePXEIface),
					DeployUser:         frame.Given(s.Session, "deploy-user", &v.deployUser),
					DeploySshIface:     frame.Given(s.Session, "deploy-ssh-iface", &v.deployIface),
					UpstreamDnsServers: frame.Given(s.Session, "dns", &v.dns),
					MaxParallel:        frame.Given(s.Session, "max-parallel", &v.parallel),
					HwSyncHttp: frame.Given(s.Session, "hw-sync-http",
						frame.Ptr(apiclient.SiteChangeBodyHwSyncHttp(v.syncHTTP))),
					RequiredScripts: frame.Given(s.Session, "require-script", &v.scripts),
					RequiredCapabilities: frame.Given(s.Session, "require-capability",
						frame.Ptr(named[apiclient.SiteChangeBodyRequiredCapabilities](v.capabilities))),
				})
			}
		},
	})
}

func (a *app) siteStatusCommand(word, short string, status apiclient.SiteChangeBodyStatus) *cobra.Command {
	return a.verb(verb{
		use: word + " SITE", short: short, args: frame.Exactly("SITE"),
		operations: []string{"get-maas-site", "update-maas-site"},
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
	now, err := frame.Fetch[apiclient.SiteView](s.API.GetMaasSiteWithResponse(s.Ctx, id))
	if err != nil {
		return err
	}
	return frame.Show(s.Session, a.siteColumns())(
		s.API.UpdateMaasSiteWithResponse(s.Ctx, id, &apiclient.UpdateMaasSiteParams{IfMatch: frame.ETag(now.Version)}, body))
}

func (a *app) siteDoctorCommand() *cobra.Command {
	return a.verb(verb{
		use: "doctor SITE", short: "Check whether a site is ready for work", args: frame.Exactly("SITE"),
		operations: []string{"probe-maas-site"},
		long: "Checks everything that work on a site needs, and says how to fix what is wrong.\n" +
			"The exit code is 0 if everything is right, otherwise 8.",
		run: func(s *session, args []string) error {
			id, err := s.siteID(args[0])
			if err != nil {
				return err
			}
			raw, err := apiclient.Read(s.API.ProbeMaasSiteWithResponse(s.Ctx, id, &apiclient.ProbeMaasSiteParams{}))
			if err != nil {
				return err
			}
			probe, err := output.Decode[apiclient.SiteProbeView](raw)
			if err != nil {
				return err
			}
			if err := s.showProbe(probe); err != nil {
				return err
			}
			if !probe.Value.Ok {
				return failure.New(failure.Unsuccessful, "site_unwell", "follow the remedies above, then look again",
					"the site %s is not ready for work", args[0])
			}
			return nil
		},
	})
}

func (s *session) showProbe(probe output.Object[apiclient.SiteProbeView]) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, probe.Raw)
	}
	var b strings.Builder
	for _, c := range probe.Value.Checks {
		b.WriteString(checkText(c.Ok, string(c.Name), c.Detail, text(c.Remedy), text(c.Code)))
	}
	return output.Write(s.Program.Out, b.String())
}
