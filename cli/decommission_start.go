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

// cleaning is how disks are treated, and what is accepted where that proves
// nothing.
type cleaning struct {
	erase, storage, risk, profile string
	keepOut, match, withoutAgent  bool
	endAllocation                 bool
	underMaintenance              bool
}

func (c *cleaning) addProfileFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.profile, "profile", "",
		"with reimage: install by this profile, as SITE/PROFILE; the node belongs to it once that is done")
}

// profileOf finds a profile by SITE/PROFILE; nil when none was named.
func (s *session) profileOf(c *cleaning) (*types.UUID, error) {
	if c.profile == "" {
		return nil, nil //nolint:nilnil // none was named
	}
	site, name, ok := strings.Cut(c.profile, "/")
	if !ok {
		return nil, failure.Misuse(s.Cmd, "--profile must be SITE/PROFILE, such as dc1/default")
	}
	_, found, err := s.profile(site, name)
	return &found.ProfileId, err
}

// addAcceptFlags adds what a reimage asks of the machine that it installs.
func (c *cleaning) addAcceptFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.keepOut, "keep-out-of-service", false,
		"with reimage: keep the node out of service; it is quarantined when it is ready")
	cmd.Flags().BoolVar(&c.match, "require-hardware-match", false,
		"with reimage: accept the machine only if its hardware is that of the SKU")
}

func (c *cleaning) addRiskFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.risk, "residual-risk", "",
		"the risk you accept: with soft_reset, for a node on which somebody had root and that MAAS cannot reinstall; with "+
			"--without-agent, of what the agent could not clean; the receipt or certificate states it")
}

func (c *cleaning) addWithoutAgentFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.withoutAgent, "without-agent", false,
		"with reimage and full_decommission, for a node whose agent is known to be gone: skip what only the agent "+
			"could do; needs --residual-risk")
}

func (c *cleaning) addEndFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.endAllocation, endAllocation, false,
		"end what a tenant has on the node, which DESTROYS the tenant's work; otherwise a rented node is left alone")
	cmd.Flags().BoolVar(&c.underMaintenance, underMaintenance, false,
		"end what a tenant has on the node only as maintenance permits that was announced (gpuaas maintenance announce)")
}

// endAllocation is the flag that ends what a tenant has on a node.
const endAllocation = "end-allocation"

// underMaintenance is the flag that does so only as announced maintenance permits.
const underMaintenance = "under-maintenance"

func addCleaningFlags(cmd *cobra.Command) *cleaning {
	c := &cleaning{}
	cmd.Flags().StringVar(&c.erase, "erase", "",
		"what the release in MAAS does to disks: none, quick or secure; only where a machine is released (default quick)")
	cmd.Flags().StringVar(&c.storage, "storage-cleanup", "",
		"what the agent cleans: none, local, weka or all; local DESTROYS what is on the data disks (default local)")
	frame.Complete(cmd, "erase", apiclient.Words("DecommissionNewBody.erase")...)
	frame.Complete(cmd, "storage-cleanup", apiclient.Words("DecommissionNewBody.storage_cleanup")...)
	return c
}

// warnings say what cannot be undone about a mode.
var warnings = map[string]string{
	"reimage": "This DESTROYS the installation of %s and what is on its disks: the machine is released and " +
		"reinstalled.",
	"full_decommission": "This DESTROYS the installation of %s and what is on its disks, and removes the node for good.",
	"remove":            "This removes node %s from the inventory for good.",
	"soft_reset":        "This DESTROYS what the last tenant left on %s: accounts, files, and with them the data disks.",
	"retire":            "This DESTROYS what tenants left on %s, and takes the node out of service.",
	"reactivate":        "Unless %s is proven clean, this DESTROYS what tenants left on it.",
	"storage_cleanup":   "This DESTROYS what is in the storage of %s that is to be cleaned.",
}

// warning is what cannot be undone about a mode, with the name of the node to fill in; empty: nothing.
func (c *cleaning) warning(mode string) string {
	if !c.endAllocation && !c.underMaintenance {
		return warnings[mode]
	}
	return strings.TrimSpace(warnings[mode] + " It ends what a tenant has on %[1]s, which DESTROYS the tenant's work.")
}

// begin carries out what begins a decommission, after asking where there is a warning.
func (s *session) begin(warning, name string, yes bool, w *watching,
	call func(node types.UUID) (apiclient.Answer, error),
) error {
	node, err := s.nodeID(name)
	if err != nil {
		return err
	}
	if warning != "" {
		if err := s.Confirm(yes, warning, name); err != nil {
			return err
		}
	}
	raw, err := apiclient.Read(call(node))
	if err != nil {
		return err
	}
	made, err := output.Decode[apiclient.DecommissionNewView](raw)
	if err != nil {
		return err
	}
	if !made.Value.Created {
		s.Note("it was already in progress")
	}
	if w.any() {
		return s.watchJobs(decommissions(), w, watchScope{job: &made.Value.DecommissionId})
	}
	if err := frame.PrintOne(s.App, s.app.decommissionColumns(), raw); err != nil {
		return err
	}
	s.Note("follow it with: gpuaas decommission watch %s", made.Value.DecommissionId)
	return nil
}

func (a *app) decommissionStartCommand() *cobra.Command {
	return a.verb(verb{
		use: "start NODE", short: "Clean a node, reinstall it, or remove it for good; DESTROYS data",
		args:       frame.Exactly("NODE"),
		operations: watchingDecommissions("decommission-node"),
		long: "soft_reset cleans the node for the next tenant, reimage reinstalls it and keeps its id, full_decommission\n" +
			"releases its machine and takes it out of the inventory for good. What would be destroyed:\n" +
			"gpuaas decommission plan NODE. With --plan-hash nothing is begun if anything has changed since the plan.",
		example: "  gpuaas decommission start c07u31 --mode full_decommission --erase secure --reason 'returned to the " +
			"vendor' --watch",
		flags: func(cmd *cobra.Command) action {
			mode := cmd.Flags().String("mode", "", "soft_reset, reimage or full_decommission; the other modes are verbs of gpuaas node")
			frame.Complete(cmd, "mode", apiclient.Words("DecommissionNewBody.mode")...)
			c := addCleaningFlags(cmd)
			c.addRiskFlag(cmd)
			c.addProfileFlag(cmd)
			c.addAcceptFlags(cmd)
			c.addWithoutAgentFlag(cmd)
			c.addEndFlag(cmd)
			reason := cmd.Flags().String("reason", "",
				"the reason, kept in the audit log, the history of the node and the certificate")
			hash := cmd.Flags().String("plan-hash", "", "carry out this plan and no other")
			yes := frame.AddYesFlag(cmd)
			w := addWatchingFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("mode", "reason"); err != nil {
					return err
				}
				if c.withoutAgent {
					if err := s.Require("residual-risk"); err != nil {
						return err
					}
				}
				return s.begin(c.warning(*mode), args[0], *yes, w, func(node types.UUID) (apiclient.Answer, error) {
					return s.decommission(node, *mode, c, *reason, frame.Given(s.Session, "plan-hash", hash))
				})
			}
		},
	})
}

func (s *session) decommission(node types.UUID, mode string, c *cleaning, reason string, hash *string) (
	apiclient.Answer, error,
) {
	profile, err := s.profileOf(c)
	if err != nil {
		return nil, err
	}
	return s.API.DecommissionNodeWithResponse(s.Ctx, node, &apiclient.DecommissionNodeParams{},
		apiclient.DecommissionNewBody{
			Mode: apiclient.DecommissionNewBodyMode(mode), Reason: reason, PlanHash: hash,
			Erase:          frame.GivenAs[apiclient.DecommissionNewBodyErase](s.Session, "erase", &c.erase),
			StorageCleanup: frame.GivenAs[apiclient.DecommissionNewBodyStorageCleanup](s.Session, "storage-cleanup", &c.storage),
			ResidualRisk:   frame.Given(s.Session, "residual-risk", &c.risk),
			ProfileId:      profile,

			KeepOutOfService:     frame.Given(s.Session, "keep-out-of-service", &c.keepOut),
			RequireHardwareMatch: frame.Given(s.Session, "require-hardware-match", &c.match),
			WithoutAgent:         frame.Given(s.Session, "without-agent", &c.withoutAgent),
			EndAllocation:        frame.Given(s.Session, endAllocation, &c.endAllocation),
			UnderMaintenance:     frame.Given(s.Session, underMaintenance, &c.underMaintenance),
		})
}

func (a *app) decommissionPlanCommand() *cobra.Command {
	return a.verb(verb{
		use: "plan NODE", short: "Show what would be done to a node, and change nothing", args: frame.Exactly("NODE"),
		operations: []string{"plan-node-decommission"},
		long:       "Exit code 8 when something is in the way.",
		flags: func(cmd *cobra.Command) action {
			mode := cmd.Flags().String("mode", "", "what it would do: "+strings.Join(modes(), ", "))
			frame.Complete(cmd, "mode", modes()...)
			c := addCleaningFlags(cmd)
			c.addRiskFlag(cmd)
			c.addProfileFlag(cmd)
			c.addAcceptFlags(cmd)
			c.addWithoutAgentFlag(cmd)
			c.addEndFlag(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("mode"); err != nil {
					return err
				}
				profile, err := s.profileOf(c)
				if err != nil {
					return err
				}
				node, err := s.nodeID(args[0])
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.PlanNodeDecommissionWithResponse(s.Ctx, node,
					&apiclient.PlanNodeDecommissionParams{}, apiclient.DecommissionPlanBody{
						Mode:  apiclient.DecommissionPlanBodyMode(*mode),
						Erase: frame.GivenAs[apiclient.DecommissionPlanBodyErase](s.Session, "erase", &c.erase),
						StorageCleanup: frame.GivenAs[apiclient.DecommissionPlanBodyStorageCleanup](s.Session, "storage-cleanup",
							&c.storage),
						ResidualRisk: frame.Given(s.Session, "residual-risk", &c.risk), ProfileId: profile,
						KeepOutOfService:     frame.Given(s.Session, "keep-out-of-service", &c.keepOut),
						RequireHardwareMatch: frame.Given(s.Session, "require-hardware-match", &c.match),
						WithoutAgent:         frame.Given(s.Session, "without-agent", &c.withoutAgent),
						EndAllocation:        frame.Given(s.Session, endAllocation, &c.endAllocation),
						UnderMaintenance:     frame.Given(s.Session, underMaintenance, &c.underMaintenance),
					}))
				if err != nil {
					return err
				}
				return s.showPlan(args[0], c, raw)
			}
		},
	})
}

func (s *session) showPlan(name string, c *cleaning, raw json.RawMessage) error {
	plan, err := output.Decode[apiclient.DecommissionPlan](raw)
	if err != nil {
		return err
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		err = output.Print(s.Program.Out, format, raw)
	} else {
		err = output.Write(s.Program.Out, planText(name, c, plan.Value))
	}
	if err == nil && len(plan.Value.Blocks) > 0 {
		return failure.New(failure.Unsuccessful, "plan_blocked", "follow the remedies above, then plan again",
			"the plan is blocked; nothing was changed")
	}
	return err
}

// planText is a plan for people: what cannot be undone comes first.
func planText(name string, c *cleaning, p apiclient.DecommissionPlan) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(output.Harmless(fmt.Sprintf(format, args...)) + "\n") }
	effects := slices.Clone(p.Effects)
	slices.SortStableFunc(effects, func(x, y string) int { return destroys(y) - destroys(x) })
	say("%s of %s, which is %s%s", p.Mode, p.Hostname, p.NodeStatus, prefixed(", in MAAS ", text(p.MaasStatus)))
	b.WriteString("\nwhat it does:\n")
	for _, e := range effects {
		say("  - %s", e)
	}
	b.WriteString("\n")
	say("%-14s %s", "erase", p.Erase)
	if p.Profile != nil {
		say("%-14s %s", "profile", *p.Profile)
	}
	say("%-14s %s", "cleanup", p.StorageCleanup)
	say("%-14s %s", "ends", p.Ends)
	say("%-14s %s", "takes", p.Usually)
	b.WriteString("\nstages:\n")
	rows := make([][]string, len(p.Stages))
	for i, stage := range p.Stages {
		rows[i] = []string{fmt.Sprintf("  %2d", i+1), output.Harmless(stage.Title), output.Harmless(stage.Usually)}
	}
	b.WriteString(table.Align(rows))
	if len(p.Blocks) > 0 {
		b.WriteString("\nin the way:\n")
		for _, block := range p.Blocks {
			b.WriteString(checkText(false, block.Code, block.Message, text(block.Remedy), block.Code))
		}
		return b.String()
	}
	b.WriteString("\ncarry out this plan, and no other, with:\n")
	say("  %s", applied(name, c, p))
	if short := p.ShortWay; short != nil {
		b.WriteString("\n")
		say("%s; the short way %s:", short.Why, short.Does)
		say("  %s", short.Command)
	}
	return b.String()
}

func destroys(effect string) int {
	if strings.HasPrefix(effect, "DESTROYS") {
		return 1
	}
	return 0
}

// applied is the command that carries out a plan.
func applied(name string, c *cleaning, p apiclient.DecommissionPlan) string {
	ends := ""
	if c.endAllocation {
		ends = " --" + endAllocation
	}
	if c.underMaintenance {
		ends += " --" + underMaintenance
	}
	switch mode := string(p.Mode); mode {
	case "storage_cleanup":
		return fmt.Sprintf("gpuaas node storage-cleanup %s --scope %s%s --plan-hash %s", name, p.StorageCleanup,
			ends, p.PlanHash)
	case "drain", "retire", "reactivate", "remove":
		return fmt.Sprintf("gpuaas node %s %s%s", mode, name, ends)
	}
	command := fmt.Sprintf("gpuaas decommission start %s --mode %s", name, p.Mode)
	if p.Mode != "soft_reset" {
		command += " --erase " + string(p.Erase)
	}
	if p.Mode != "full_decommission" {
		command += " --storage-cleanup " + string(p.StorageCleanup)
	}
	if c.profile != "" {
		command += " --profile " + c.profile
	}
	if c.keepOut {
		command += " --keep-out-of-service"
	}
	if c.match {
		command += " --require-hardware-match"
	}
	if c.withoutAgent {
		command += " --without-agent"
	}
	return command + ends + " --plan-hash " + p.PlanHash + ""
}
