package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
)

// onboardFlags are those of gpuaas onboard.
type onboardFlags struct {
	ipmiIP, csv, site, sku, profile string
	disks, keepOut, match, dryRun   bool
	yes                             *bool
	failures                        int64
	group                           *groupingFlags
	watching                        *watching
}

func (a *app) onboardCommand() *cobra.Command {
	return a.verb(verb{
		use: "onboard [HOSTNAME]", short: "Turn bare servers into nodes", group: groupMachines,
		args: cobra.MaximumNArgs(1),
		operations: []string{
			"create-onboarding", "create-onboarding-batch", "preflight-onboarding", "get-onboarding", "list-onboardings",
			"stream-onboardings", "list-onboarding-stages",
		},
		long: "Onboards one server, or all of a CSV file, through the MAAS of a site: from a machine that MAAS may\n" +
			"not even know to a node that can be scheduled. The file has the columns hostname and ipmi_ip, and may\n" +
			"have rack, pool and labels (as key=value;key=value), in any order, named in its first line; lines that\n" +
			"begin with # are left out. All rows are checked before anything is sent. FILE - is standard input.\n\n" +
			"With --dry-run every prerequisite is looked at and nothing is changed; exit code 8 when something is in\n" +
			"the way. With --watch it shows how each machine is getting on and returns when all have ended or need\n" +
			"an operator: exit code 0 when all became nodes, otherwise 8; 130 when it was ended with Ctrl-C before,\n" +
			"which stops nothing but the watching. With -o json, --wait and --watch print in the end how the\n" +
			"onboardings stand, as gpuaas onboarding show (of one) or list (of a file) print it.\n\n" +
			"--initialize-disks, or a profile whose data_disks is initialize, DESTROYS ALL DATA on every disk but the root\n" +
			"disk of each machine, and asks before.",
		example: "  gpuaas onboard c07u43 --ipmi-ip 10.176.16.128 --site dc1 --sku h200-sxm-baremetal-8g --watch\n" +
			"  gpuaas onboard --csv machines.csv --site dc1 --sku h200-sxm-baremetal-8g --dry-run",
		flags: func(cmd *cobra.Command) action {
			v := &onboardFlags{}
			f := cmd.Flags()
			f.StringVar(&v.ipmiIP, "ipmi-ip", "", "address of the BMC of the server")
			f.StringVar(&v.csv, "csv", "", "onboard all servers of this CSV file, - for standard input")
			f.StringVar(&v.site, "site", "", "the site, by name or id")
			f.StringVar(&v.sku, "sku", "", "which kind of machine it is; see: gpuaas sku list")
			f.StringVar(&v.profile, "profile", "", "a profile of the site, by name or id (default \"default\")")
			f.BoolVar(&v.disks, "initialize-disks", false,
				"DESTROY ALL DATA on every disk but the root disk: format them at the first boot")
			f.BoolVar(&v.keepOut, "keep-out-of-service", false,
				"install it, but keep the node out of service: it is quarantined when it is ready")
			f.BoolVar(&v.match, "require-hardware-match", false,
				"accept it only if its GPUs, memory, disks and interfaces are those of the SKU")
			f.BoolVar(&v.dryRun, "dry-run", false, "only look whether it could be done; nothing is changed")
			f.Int64Var(&v.failures, "max-failures", 0,
				"with --csv: how many servers may fail before no further one is begun (default any number)")
			_ = cmd.MarkFlagFilename("csv") // it was defined above
			v.group = addGroupingFlags(cmd)
			v.yes = frame.AddYesFlag(cmd)
			v.watching = addWatchingFlags(cmd)
			return func(s *session, args []string) error { return s.onboard(v, args) }
		},
	})
}

func (s *session) onboard(v *onboardFlags, args []string) error {
	if err := s.checkOnboard(v, args); err != nil {
		return err
	}
	var machines []apiclient.OnboardingBatchMachineBody
	if v.csv != "" {
		var err error
		if machines, err = s.machinesOf(v.csv); err != nil {
			return err
		}
	}
	site, profile, formats, err := s.siteAndProfile(v.site, v.profile)
	if err != nil {
		return err
	}
	disks := frame.Given(s.Session, "initialize-disks", &v.disks)
	keepOut := frame.Given(s.Session, "keep-out-of-service", &v.keepOut)
	match := frame.Given(s.Session, "require-hardware-match", &v.match)
	if v.dryRun {
		body := apiclient.OnboardingPreflightBody{SiteId: site, ProfileId: profile, SkuId: v.sku, InitializeDisks: disks}
		if v.csv != "" {
			body.Nodes = &machines
		} else {
			body.Hostname, body.IpmiIp = &args[0], &v.ipmiIP
			body.Rack, body.Pool, body.Labels = s.grouping(v.group)
		}
		return s.preflight(body)
	}
	if v.disks || formats {
		if err := s.confirmDisks(v, args, machines); err != nil {
			return err
		}
	}
	if v.csv != "" {
		return s.onboardAll(v, apiclient.OnboardingNewBatchBody{
			SiteId: site, ProfileId: profile, SkuId: v.sku,
			InitializeDisks: disks, Nodes: machines, MaxFailures: frame.Given(s.Session, "max-failures", &v.failures),
			KeepOutOfService: keepOut, RequireHardwareMatch: match,
		})
	}
	one := apiclient.OnboardingNewBody{
		SiteId: site, ProfileId: profile, SkuId: v.sku, InitializeDisks: disks, Hostname: args[0], IpmiIp: v.ipmiIP,
		KeepOutOfService: keepOut, RequireHardwareMatch: match,
	}
	one.Rack, one.Pool, one.Labels = s.grouping(v.group)
	return s.onboardOne(v, one)
}

// confirmDisks asks whether the data of all disks but the root disk is meant to go.
func (s *session) confirmDisks(v *onboardFlags, args []string, machines []apiclient.OnboardingBatchMachineBody) error {
	names := args
	for _, m := range machines {
		names = append(names, m.Hostname)
	}
	return s.Confirm(*v.yes, "ALL DATA on every disk but the root disk of %s will be DESTROYED: %s.",
		plural(len(names), "machine"), frame.SomeOf(names))
}

func (s *session) checkOnboard(v *onboardFlags, args []string) error {
	switch {
	case v.csv == "" && (len(args) == 0 || args[0] == ""):
		return failure.Misuse(s.Cmd, "name the server, or a file with --csv")
	case v.csv != "" && (len(args) > 0 || v.ipmiIP != ""):
		return failure.Misuse(s.Cmd, "with --csv the servers are in the file: give neither HOSTNAME nor --ipmi-ip")
	case v.csv == "" && v.ipmiIP == "":
		return failure.Misuse(s.Cmd, "--ipmi-ip is required")
	case v.csv != "" && (v.group.rack != "" || v.group.pool != "" || v.group.labels != nil):
		return failure.Misuse(s.Cmd, "with --csv, rack, pool and labels are columns of the file")
	case v.csv == "" && s.Cmd.Flags().Changed("max-failures"):
		return failure.Misuse(s.Cmd, "--max-failures is of the servers of a file: use it with --csv")
	case v.dryRun && v.watching.any():
		return failure.Misuse(s.Cmd, "--dry-run starts nothing that could be waited for")
	}
	return s.Require("site", "sku")
}

// siteAndProfile resolves a site and, when one is named, its profile. formats says that
// machines by this profile, or by the one that is meant without a name, have their data
// disks formatted at their first boot.
func (s *session) siteAndProfile(siteName, profileName string) (site types.UUID, profile *types.UUID, formats bool,
	err error,
) {
	var found apiclient.SiteProfileView
	if profileName != "" {
		site, found, err = s.profile(siteName, profileName)
		profile = &found.ProfileId
	} else if site, err = s.siteID(siteName); err == nil {
		found, _, err = s.findProfile(site, "default")
	}
	return site, profile, found.DataDisks == apiclient.SiteProfileViewDataDisksInitialize, err
}

// preflight looks at everything, part by part: the control plane asks MAAS about
// some of the machines at a time.
func (s *session) preflight(body apiclient.OnboardingPreflightBody) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	all := apiclient.OnboardingPreflightView{Ok: true, Checks: []apiclient.OnboardingCheck{}}
	for {
		raw, err := apiclient.Read(s.API.PreflightOnboardingWithResponse(s.Ctx, &apiclient.PreflightOnboardingParams{}, body))
		if err != nil {
			return err
		}
		part, err := output.Decode[apiclient.OnboardingPreflightView](raw)
		if err != nil {
			return err
		}
		found := part.Value
		checks := found.Checks
		if body.FromMachine != nil { // that the machines are well-formed was said before
			checks = slices.DeleteFunc(checks, func(c apiclient.OnboardingCheck) bool { return c.Ok && c.Name == "machines" })
		}
		if err := s.showChecks(format, checks); err != nil {
			return err
		}
		all.Checks, all.Machines, all.LookedAt = append(all.Checks, checks...), found.Machines, found.LookedAt
		all.Ok = all.Ok && !slices.ContainsFunc(found.Checks, func(c apiclient.OnboardingCheck) bool { return !c.Ok })
		if found.NextMachine == nil {
			break
		}
		s.Note("MAAS was asked about %d of %d machines …", found.LookedAt, found.Machines)
		body.FromMachine = found.NextMachine
	}
	if format != output.Table {
		raw, err := json.Marshal(all)
		if err != nil {
			return fmt.Errorf("encode what was found: %w", err)
		}
		if err := output.Print(s.Program.Out, format, raw); err != nil {
			return err
		}
	}
	if !all.Ok {
		return failure.New(failure.Unsuccessful, "preflight_failed", "follow the remedies above, then look again",
			"something is in the way; nothing was started")
	}
	return nil
}

// showChecks prints the checks of one part, where people read them.
func (s *session) showChecks(format string, checks []apiclient.OnboardingCheck) error {
	if format != output.Table {
		return nil
	}
	var b strings.Builder
	for _, c := range checks {
		b.WriteString(checkText(c.Ok, c.Name, c.Detail, text(c.Remedy), text(c.Code)))
	}
	return output.Write(s.Program.Out, b.String())
}

// checkText is one check for people, with what to do when it is not well.
func checkText(ok bool, name, detail, remedy, code string) string {
	sign := "✓"
	if !ok {
		sign = "✗"
	}
	line := sign + " " + output.Harmless(name+": "+detail) + "\n"
	if remedy != "" {
		line += "    " + output.Harmless(remedy+" ("+code+")") + "\n"
	}
	return line
}

func (s *session) onboardOne(v *onboardFlags, body apiclient.OnboardingNewBody) error {
	s.warnOfDisks(v, 1)
	raw, err := apiclient.Read(s.API.CreateOnboardingWithResponse(s.Ctx, &apiclient.CreateOnboardingParams{}, body))
	if err != nil {
		return err
	}
	made, err := output.Decode[apiclient.OnboardingNewView](raw)
	if err != nil {
		return err
	}
	if v.watching.any() {
		return s.watchJobs(onboardings(), v.watching, watchScope{job: &made.Value.OnboardingId})
	}
	if err := frame.PrintOne(s.App, newOnboardingColumns(), raw); err != nil {
		return err
	}
	s.Note("follow it with: gpuaas onboarding watch %s", made.Value.OnboardingId)
	return nil
}

func (s *session) onboardAll(v *onboardFlags, body apiclient.OnboardingNewBatchBody) error {
	s.warnOfDisks(v, len(body.Nodes))
	raw, err := apiclient.Read(s.API.CreateOnboardingBatchWithResponse(s.Ctx, &apiclient.CreateOnboardingBatchParams{},
		body))
	if err != nil {
		return err
	}
	made, err := output.Decode[apiclient.OnboardingNewBatchView](raw)
	if err != nil {
		return err
	}
	if v.watching.any() {
		s.Note("batch %s: %s", made.Value.BatchId, plural(len(made.Value.Onboardings), "machine"))
		return s.watchJobs(onboardings(), v.watching, watchScope{batch: &made.Value.BatchId})
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.Print(s.Program.Out, format, raw)
	}
	objects := make([]output.Object[apiclient.OnboardingNewBatchItem], len(made.Value.Onboardings))
	for i, o := range made.Value.Onboardings {
		objects[i].Value = o
	}
	if err := table.Print(s.Program.Out, newBatchColumns(), objects, !s.Flags.NoHeaders, s.Wide()); err != nil {
		return err
	}
	s.Note("batch %s: %s; follow with: gpuaas onboarding watch --batch %[1]s", made.Value.BatchId,
		plural(len(objects), "machine"))
	return nil
}

func (s *session) warnOfDisks(v *onboardFlags, machines int) {
	if v.disks {
		s.Note("warning: ALL DATA on every disk but the root disk of %s will be DESTROYED at the first boot",
			plural(machines, "machine"))
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func newOnboardingColumns() []table.Column[apiclient.OnboardingNewView] {
	type made = apiclient.OnboardingNewView
	return []table.Column[made]{
		{Title: "ID", Text: func(v made) string { return v.OnboardingId.String() }},
		{Title: "STATUS", Text: func(v made) string { return string(v.Status) }},
		{Title: "NODE", Text: func(v made) string { return v.NodeId.String() }},
		{Title: "WORKFLOW", Text: func(v made) string { return v.WorkflowId }},
	}
}

func newBatchColumns() []table.Column[apiclient.OnboardingNewBatchItem] {
	type made = apiclient.OnboardingNewBatchItem
	return []table.Column[made]{
		{Title: "HOSTNAME", Text: func(v made) string { return v.Hostname }},
		{Title: "ID", Text: func(v made) string { return v.OnboardingId.String() }},
		{Title: "NODE", Wide: true, Text: func(v made) string { return v.NodeId.String() }},
	}
}
