package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
)

// runFlags say what is run, and where.
type runFlags struct {
	scope
	targets, inputs          []string
	region, rack, pool, sku  string
	labels                   map[string]string
	concurrency, failures    int32
	atOnce, dryRun, onlyPlan bool
	planHash, reason         string
}

func (a *app) operationRunCommand() *cobra.Command {
	return a.verb(verb{
		use: "run TYPE[@VERSION]", short: "Run an operation on nodes", args: frame.Exactly("TYPE[@VERSION]"),
		operations: []string{
			"submit-operation", "plan-operation", "submit-fleet-operation", "plan-fleet-operation", "get-operation",
			"get-fleet-operation", "list-nodes", "list-allocations", "list-operation-catalog", "get-operation-catalog-entry",
		},
		long: "Targets are nodes by hostname or id; with --project, allocations by name or id. allocation:NAME, node:NAME and\n" +
			"group:ID name the kind; --rack, --region, --pool, --sku and --label choose all nodes that match.\n" +
			"--dry-run says what would be done and does nothing; --only-plan has the nodes look and say what each step\n" +
			"would change. With --watch it follows the run to its end.",
		example: "  gpuaas operation run node.health.check --target c07u31 --watch\n" +
			"  gpuaas operation run web.prepare@v2 --project acme/training --target trainer --input port=8080 --dry-run",
		flags: func(cmd *cobra.Command) action {
			f := &runFlags{}
			f.addProject(cmd)
			flags := cmd.Flags()
			flags.StringSliceVar(&f.targets, "target", nil, "where; may be repeated")
			flags.StringArrayVar(&f.inputs, "input", nil, "an input as `NAME=VALUE`; JSON is taken as such where no text is wanted")
			flags.StringVar(&f.region, "region", "", "nodes of this region")
			flags.StringVar(&f.rack, "rack", "", "nodes of this rack")
			flags.StringVar(&f.pool, "pool", "", "nodes of this pool")
			flags.StringVar(&f.sku, "sku", "", "nodes of this SKU")
			flags.StringToStringVar(&f.labels, "label", nil, "nodes (with --project: allocations) with this label, as `KEY=VALUE`")
			flags.Int32Var(&f.concurrency, "max-concurrency", 0, "nodes at a time (default 10)")
			flags.Int32Var(&f.failures, "max-failures", 0, "pause when more than this many have failed")
			flags.BoolVar(&f.atOnce, "no-ramp", false, "do not begin with 1, 2, 4 … nodes")
			flags.BoolVar(&f.dryRun, "dry-run", false, "say what would be done, and do nothing")
			flags.BoolVar(&f.onlyPlan, "only-plan", false, "nodes only look and say what each step would change")
			flags.StringVar(&f.planHash, "plan-hash", "", "refuse if the plan has changed")
			flags.StringVar(&f.reason, "reason", "", "the reason, kept in the audit log")
			w := watch.AddWaitFlags(cmd)
			return func(s *session, args []string) error { return a.runOperation(s, f, *w, args[0]) }
		},
	})
}

func (a *app) runOperation(s *session, f *runFlags, w watch.Waiting, name string) error {
	project, err := s.side(f.scope)
	if err != nil {
		return err
	}
	body, err := f.body(s, project, name)
	if err != nil {
		return err
	}
	if f.dryRun {
		return s.printPlan(project, body)
	}
	raw, err := s.submit(project, body)
	if err != nil {
		return err
	}
	made, err := output.Decode[apiclient.OperationView](raw)
	if err != nil {
		return err
	}
	if !w.Watch && !w.Wait {
		return frame.PrintOne(s.App, a.operationColumns(), raw)
	}
	return a.followRun(s, f.scope, project, made.Value.OperationId, w)
}

func (s *session) submit(project *types.UUID, body apiclient.OperationSubmitBody) (json.RawMessage, error) {
	if project != nil {
		return apiclient.Read(s.API.SubmitOperationWithResponse(s.Ctx, *project, &apiclient.SubmitOperationParams{}, body))
	}
	return apiclient.Read(s.API.SubmitFleetOperationWithResponse(s.Ctx, &apiclient.SubmitFleetOperationParams{}, body))
}

// followRun says how a run goes on until it has ended, is paused or waits for an approval.
func (a *app) followRun(s *session, of scope, project *types.UUID, id types.UUID, w watch.Waiting) error {
	said := ""
	w.Watch = true
	here := id.String() + of.words()
	last, err := watch.Await(s.Session, w, watch.Awaited[apiclient.OperationView]{
		What: "the run", SeeIt: "gpuaas operation show " + here,
		Read: func() (json.RawMessage, error) { return apiclient.Read(s.readOperation(project, id)) },
		Ended: func(now apiclient.OperationView) bool {
			line := fmt.Sprintf("%s: %d of %d done, %d failed", now.Status, now.Targets.Succeeded, now.Targets.Total,
				now.Targets.Failed)
			if waits := text(now.WaitingFor); waits != "" {
				line += "; waits for " + waits
			}
			if line != said {
				said = line
				s.Note("%s", line)
			}
			return operationEnded(now) || now.Paused || now.Approval != nil && now.Approval.Awaited
		},
		Report: func(output.Object[apiclient.OperationView]) error { return nil },
	})
	if err != nil {
		return err
	}
	if err := frame.PrintOne(s.App, a.operationColumns(), last.Raw); err != nil {
		return err
	}
	switch v := last.Value; {
	case v.Status == apiclient.OperationViewStatusSucceeded && v.OnlyPlan:
		s.Note("see what each step would change: gpuaas operation steps %s", here)
		return nil
	case v.Status == apiclient.OperationViewStatusSucceeded:
		return nil
	case v.Approval != nil && v.Approval.Awaited:
		return failure.New(failure.Unsuccessful, "operation_awaits_approval",
			"have it approved: gpuaas operation approve "+here, "the run waits for %s", text(v.WaitingFor))
	case !operationEnded(v):
		return failure.New(failure.Unsuccessful, "operation_paused", "see why: gpuaas operation targets "+here+
			"; go on with the rest: gpuaas operation unpause "+here+"; or also with what failed: gpuaas operation retry "+here,
			"the run is paused: %s", text(v.PauseReason))
	default:
		return failure.New(failure.Unsuccessful, "operation_"+string(v.Status), "see why: gpuaas operation targets "+here+
			"; go on where it stopped: gpuaas operation retry "+here, "the run did not succeed: %s", text(v.ErrorMessage))
	}
}

func operationEnded(o apiclient.OperationView) bool {
	return o.Status != apiclient.OperationViewStatusQueued && o.Status != apiclient.OperationViewStatusRunning
}

func (s *session) printPlan(project *types.UUID, body apiclient.OperationSubmitBody) error {
	var raw json.RawMessage
	var err error
	if project != nil {
		raw, err = apiclient.Read(s.API.PlanOperationWithResponse(s.Ctx, *project, &apiclient.PlanOperationParams{}, body))
	} else {
		raw, err = apiclient.Read(s.API.PlanFleetOperationWithResponse(s.Ctx, &apiclient.PlanFleetOperationParams{}, body))
	}
	if err != nil {
		return err
	}
	format, err := s.Format()
	if err != nil {
		return err
	}
	plan, err := output.Decode[apiclient.OperationPlanView](raw)
	if err != nil {
		return err
	}
	if format != output.Table {
		err = output.Print(s.Program.Out, format, raw)
	} else {
		err = output.Write(s.Program.Out, runPlanText(plan.Value))
	}
	if err == nil && plan.Value.Fitting == 0 {
		err = failure.New(failure.Unsuccessful, "operation_no_fitting_target", "see above why, and name other nodes",
			"nothing would be done on any of these nodes")
	}
	return err
}

// runPlanText tells a plan to people.
func runPlanText(p apiclient.OperationPlanView) string {
	var b strings.Builder
	for _, line := range p.Says {
		fmt.Fprintf(&b, "%s\n", output.Harmless(line))
	}
	fmt.Fprintf(&b, "\nrisk %s: %s\n\nsteps:\n", output.Harmless(p.Risk), output.Harmless(text(p.RiskText)))
	for i, one := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s (%s, %s)\n", i+1, output.Harmless(one.StepId), output.Harmless(one.StepKind), one.Impact)
	}
	b.WriteString("\nnodes:\n")
	for _, t := range p.Targets {
		if t.Fits {
			fmt.Fprintf(&b, "  %s\n", output.Harmless(t.Hostname))
			continue
		}
		why := make([]string, len(t.Troubles))
		for i, trouble := range t.Troubles {
			why[i] = output.Harmless(trouble.Message)
		}
		fmt.Fprintf(&b, "  %s: nothing, because %s\n", output.Harmless(t.Hostname), strings.Join(why, "; "))
	}
	if p.Fitting > 0 {
		fmt.Fprintf(&b, "\nrun exactly this with --plan-hash %s\n", output.Harmless(p.PlanHash))
	}
	return b.String()
}

func (f *runFlags) body(s *session, project *types.UUID, name string) (apiclient.OperationSubmitBody, error) {
	b := apiclient.OperationSubmitBody{
		Operation: name, MaxConcurrency: frame.Given(s.Session, "max-concurrency", &f.concurrency),
		MaxFailures: frame.Given(s.Session, "max-failures", &f.failures), NoRamp: frame.Given(s.Session, "no-ramp",
			&f.atOnce),
		OnlyPlan: frame.Given(s.Session, "only-plan", &f.onlyPlan), PlanHash: frame.Given(s.Session, "plan-hash",
			&f.planHash),
		Reason: frame.Given(s.Session, "reason", &f.reason),
	}
	var err error
	if b.Inputs, err = f.inputValues(s, name); err != nil {
		return b, err
	}
	for _, t := range f.targets {
		if err := f.add(s, project, &b.Targets, t); err != nil {
			return b, err
		}
	}
	where := apiclient.OperationWhereBody{
		Region: frame.Given(s.Session, "region", &f.region), Rack: frame.Given(s.Session, "rack", &f.rack),
		Pool: frame.Given(s.Session, "pool", &f.pool), Sku: frame.Given(s.Session, "sku", &f.sku),
		Labels: frame.Given(s.Session, "label", &f.labels),
	}
	if where != (apiclient.OperationWhereBody{}) {
		b.Targets.Where = &where
	}
	if len(f.targets) == 0 && b.Targets.Where == nil {
		return b, failure.Misuse(s.Cmd, "choose targets with --target, or --rack, --region, --pool, --sku or --label")
	}
	return b, nil
}

// add adds a target that was named.
func (f *runFlags) add(s *session, project *types.UUID, to *apiclient.OperationTargetsBody, named string) error {
	kind, name, found := strings.Cut(named, ":")
	if !found {
		kind, name = "node", named
		if project != nil {
			kind = "allocation"
		}
	}
	switch kind {
	case "node":
		id, err := s.nodeID(name)
		if err != nil {
			return err
		}
		to.Nodes = appended(to.Nodes, id)
	case "allocation":
		id, ok := frame.ParseID(name)
		if !ok {
			if project == nil {
				return failure.Misuse(s.Cmd, "%q is the allocation of which project? Use its id, or --project", name)
			}
			var err error
			if id, err = s.allocationNamed(scope{project: project.String()}, *project, name); err != nil {
				return err
			}
		}
		to.Allocations = appended(to.Allocations, id)
	case "group":
		id, err := s.IDOf("a group", name)
		if err != nil {
			return err
		}
		to.Groups = appended(to.Groups, id)
	default:
		return failure.Misuse(s.Cmd, "%q is no kind of target: node, allocation and group are", kind)
	}
	return nil
}

func appended(list *[]types.UUID, one types.UUID) *[]types.UUID {
	if list == nil {
		return &[]types.UUID{one}
	}
	all := append(*list, one)
	return &all
}
