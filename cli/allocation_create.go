package cli

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/moment"
	"gpuaas/cli/internal/output"
	"gpuaas/cli/internal/table"
	"gpuaas/cli/internal/watch"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

// askFlags are the flags that say what is asked for.
type askFlags struct {
	scope
	sku, region, arrangement, name, access, expires, patience, hourMost string
	count                                                               int32
	keys                                                                []string
	labels, nodeLabels, capabilities                                    map[string]string
	protected                                                           bool
}

func addAskFlags(cmd *cobra.Command) *askFlags {
	f := &askFlags{}
	f.addProject(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.sku, "sku", "", "what to rent: gpuaas sku list")
	flags.Int32Var(&f.count, "count", 1, "how many nodes; you get all or none")
	flags.StringVar(&f.region, "region", "", "where (default anywhere)")
	flags.StringVar(&f.arrangement, "arrangement", "", "placement of the nodes: spread, pack or same_rack")
	frame.Complete(cmd, "arrangement", apiclient.Words("AllocationAskBody.arrangement")...)
	flags.StringToStringVar(&f.nodeLabels, "node-label", nil, "a label that nodes must have, as `KEY=VALUE`")
	flags.StringVar(&f.hourMost, "hour-most", "", "what one node may cost for an hour, after discounts, such as \"28.00 USD\"")
	flags.StringToStringVar(&f.capabilities, "capability", nil, "a capability that nodes must have, as `KEY=VALUE`")
	return f
}

func (f *askFlags) body(s *session) (apiclient.AllocationAskBody, error) {
	b := apiclient.AllocationAskBody{
		Sku: f.sku, Count: frame.Given(s.Session, "count", &f.count), Region: frame.Given(s.Session, "region", &f.region),
		Arrangement:  frame.GivenAs[apiclient.AllocationAskBodyArrangement](s.Session, "arrangement", &f.arrangement),
		NodeLabels:   frame.Given(s.Session, "node-label", &f.nodeLabels),
		Capabilities: frame.Given(s.Session, "capability", &f.capabilities),
	}
	if err := s.Require("sku", "project"); err != nil || f.hourMost == "" {
		return b, err
	}
	number := strings.TrimRightFunc(f.hourMost, unicode.IsLetter)
	code := strings.TrimPrefix(f.hourMost, number)
	minor, err := currency.Parse(strings.TrimSpace(number), code)
	if err != nil {
		return b, failure.Misuse(s.Cmd, "--hour-most: %s; give an amount and a currency, such as \"28.00 USD\"", err)
	}
	b.HourMost = &apiclient.AllocationMostBody{AmountMinor: minor, Currency: code}
	return b, nil
}

// wanted adds what only a request has that is meant.
func (f *askFlags) wanted(s *session) (apiclient.AllocationAskBody, error) {
	b, err := f.body(s)
	if err != nil {
		return b, err
	}
	b.Name, b.Labels = frame.Given(s.Session, "name", &f.name), frame.Given(s.Session, "label", &f.labels)
	b.Access = frame.GivenAs[apiclient.AllocationAskBodyAccess](s.Session, "access", &f.access)
	b.Protected = frame.Given(s.Session, "protect", &f.protected)
	if f.expires != "" {
		life, err := expirySeconds(f.expires)
		if err != nil {
			return b, s.ofFlag("expires-in", err)
		}
		b.ExpiresInSeconds = &life
	}
	if f.patience != "" {
		patience, err := moment.ParseLife(f.patience)
		if err != nil {
			return b, s.ofFlag("wait-up-to", err)
		}
		b.WaitUpToSeconds = frame.Ptr(int64(patience.Seconds()))
	}
	b.SshKeyIds, err = s.chosenKeys(f)
	return b, err
}

// chosenKeys finds keys that were named: among your own, then among the project's.
func (s *session) chosenKeys(f *askFlags) (*[]types.UUID, error) {
	if len(f.keys) == 0 {
		return nil, nil //nolint:nilnil // nothing is sent then
	}
	var out []types.UUID
	for _, name := range f.keys {
		id, err := s.keyOfEither(f.scope, name)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return &out, nil
}

func (s *session) keyOfEither(c scope, name string) (types.UUID, error) {
	own, err := s.sshKeys(scope{})
	if err != nil {
		return types.UUID{}, err
	}
	id, ownErr := s.keyID(own, name)
	if ownErr == nil {
		return id, nil
	}
	shared, err := s.sshKeys(c)
	if err != nil {
		return types.UUID{}, err
	}
	return s.keyID(shared, name)
}

func (a *app) allocationCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create", short: "Rent nodes",
		operations: []string{
			"create-allocation", "place-allocation", "get-allocation-flat", "list-my-ssh-keys", "list-project-ssh-keys",
			"get-allocation-request",
		},
		long: "The nodes are placed at once, all or none; where there are not enough, the refusal says why. Then\n" +
			"they are checked and your account is made: --wait returns when that is done, with exit code 8 when it\n" +
			"failed. With --wait-up-to a request for which there are not enough nodes waits for them: it is shown\n" +
			"instead (gpuaas allocation request), and --wait follows it too. Without --ssh-key your own keys and those of the project are used. --node and --pool are for\n" +
			"administrators of the platform.",
		example: "  gpuaas allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait\n" +
			"  gpuaas allocation create --project acme/training --sku h200-sxm-baremetal-8g --count 2 --expires-in 2d\n" +
			"  gpuaas allocation create --project acme/training --sku h200-sxm-baremetal-8g --wait-up-to 2h --wait",
		flags: func(cmd *cobra.Command) action {
			f := addAskFlags(cmd)
			flags := cmd.Flags()
			flags.StringVar(&f.name, "name", "", "what you call it")
			flags.StringToStringVar(&f.labels, "label", nil, "a word of your own, as `KEY=VALUE`; may be repeated")
			flags.StringVar(&f.access, "access", "", "user, or root for sudo: the node is reinstalled afterwards (default user)")
			frame.Complete(cmd, "access", apiclient.Words("AllocationAskBody.access")...)
			flags.StringSliceVar(&f.keys, "ssh-key", nil, "a key, by name, fingerprint or id; may be repeated")
			flags.StringVar(&f.expires, "expires-in", "", "when it ends by itself, such as 12h or 30d, or never (default as the project has settled it)")
			flags.StringVar(&f.patience, "wait-up-to", "", "how long to wait for nodes if there are not enough, such as 2h")
			flags.BoolVar(&f.protected, "protect", false, "protect it: refuse its release until you remove the protection")
			node := flags.String("node", "", "this node only, for administrators")
			pool := flags.String("pool", "", "a node that is kept in this pool, for administrators")
			w := watch.AddWaitFlags(cmd)
			return func(s *session, _ []string) error { return a.createAllocation(s, f, *node, *pool, *w) }
		},
	})
}

func (a *app) createAllocation(s *session, f *askFlags, node, pool string, w watch.Waiting) error {
	body, err := f.wanted(s)
	if err != nil {
		return err
	}
	project, err := s.projectID(f.scope)
	if err != nil {
		return err
	}
	var given apiclient.Answer
	if node == "" && pool == "" {
		given, err = s.API.CreateAllocationWithResponse(s.Ctx, project, &apiclient.CreateAllocationParams{}, body)
	} else {
		given, err = s.placeAllocation(project, body, node, pool)
	}
	raw, err := apiclient.Read(given, err)
	if err != nil {
		return err
	}
	if given.StatusCode() == http.StatusAccepted {
		return a.followRequest(s, raw, w)
	}
	made, err := output.Decode[apiclient.AllocationMade](raw)
	if err != nil {
		return err
	}
	if c := made.Value.Cost; c != nil {
		s.Note("%s", costText(*c))
	}
	if w.Wait || w.Watch {
		return a.awaitAllocations(s, made.Value.Allocations, w)
	}
	return a.printAllocations(s, made.Value.Allocations)
}

// costText is what a request costs.
func costText(c apiclient.AllocationCost) string {
	text := "it costs " + currency.Format(c.HourMinor, c.Currency) + " an hour"
	if c.UntilExpiryMinor != nil {
		text += ", and " + currency.Format(*c.UntilExpiryMinor, c.Currency) + " until it ends by itself"
	}
	if c.Refused != nil {
		text += ". It would be refused: " + c.Refused.Message
	}
	return text
}

func (s *session) placeAllocation(
	project types.UUID, b apiclient.AllocationAskBody, node, pool string,
) (apiclient.Answer, error) {
	place := apiclient.AllocationAdminAskBody{
		ProjectId: project, Sku: b.Sku, Count: b.Count, Region: b.Region, NodeLabels: b.NodeLabels,
		Capabilities: b.Capabilities, Name: b.Name, Labels: b.Labels, SshKeyIds: b.SshKeyIds,
		ExpiresInSeconds: b.ExpiresInSeconds, Protected: b.Protected, WaitUpToSeconds: b.WaitUpToSeconds,
		Access:      (*apiclient.AllocationAdminAskBodyAccess)(b.Access),
		Arrangement: (*apiclient.AllocationAdminAskBodyArrangement)(b.Arrangement),
		Pool:        frame.Given(s.Session, "pool", &pool),
		HourMost:    b.HourMost,
	}
	if node != "" {
		id, err := s.nodeID(node)
		if err != nil {
			return nil, err
		}
		place.NodeId = &id
	}
	return s.API.PlaceAllocationWithResponse(s.Ctx, &apiclient.PlaceAllocationParams{}, place)
}

func (a *app) printAllocations(s *session, all []apiclient.AllocationView) error {
	raws := make([]json.RawMessage, len(all))
	for i, v := range all {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		raws[i] = raw
	}
	if len(raws) == 1 {
		return frame.PrintOne(s.App, a.allocationColumns(), raws[0])
	}
	return frame.PrintList(s.App, a.allocationColumns(), raws)
}

// awaitAllocations waits for all, and fails when one of them did.
func (a *app) awaitAllocations(s *session, all []apiclient.AllocationView, w watch.Waiting) error {
	var failed *apiclient.AllocationView
	for i, v := range all {
		id, said := v.AllocationId, ""
		last, err := watch.Await(s.Session, w, watch.Awaited[apiclient.AllocationView]{
			What: "the allocation", SeeIt: "gpuaas allocation show " + id.String(),
			Read: func() (json.RawMessage, error) { return apiclient.Read(s.API.GetAllocationFlatWithResponse(s.Ctx, id)) },
			Ended: func(now apiclient.AllocationView) bool {
				if line := string(now.Status) + ": " + text(now.WaitingFor); line != said && !settled(now) {
					said = line
					s.Note("%s on %s is %s", id, now.Hostname, line)
				}
				return settled(now)
			},
			Report: func(output.Object[apiclient.AllocationView]) error { return nil },
		})
		if err != nil {
			return err
		}
		if all[i] = last.Value; last.Value.Status != apiclient.AllocationViewStatusActive {
			failed = &all[i]
		}
	}
	if err := a.printAllocations(s, all); err != nil || failed == nil {
		return err
	}
	return failure.New(failure.Unsuccessful, "allocation_"+string(failed.Status), text(failed.Remedy),
		"the allocation %s is %s: %s", failed.AllocationId, failed.Status, text(failed.FailureReason))
}

// settled reports whether an allocation is no longer on its way to its tenant.
func settled(v apiclient.AllocationView) bool {
	return v.Status != apiclient.AllocationViewStatusRequested && v.Status != apiclient.AllocationViewStatusProvisioning
}

func (a *app) allocationExplainCommand() *cobra.Command {
	type filter = apiclient.AllocationFilter
	columns := []table.Column[filter]{
		{Title: "NODES", Text: func(f filter) string { return strconv.Itoa(int(f.Before - f.After)) }},
		{Title: "NOT AVAILABLE BECAUSE THEY", Text: func(f filter) string { return f.Text }},
		{Title: "LEFT", Text: func(f filter) string { return strconv.Itoa(int(f.After)) }},
	}
	return a.verb(verb{
		use: "explain", short: "See what could be had now, and why not more", operations: []string{"explain-allocation"},
		long: "Asks for nothing. The table says what takes nodes out, one reason after the other.",
		flags: func(cmd *cobra.Command) action {
			f := addAskFlags(cmd)
			return func(s *session, _ []string) error {
				body, err := f.body(s)
				if err != nil {
					return err
				}
				project, err := s.projectID(f.scope)
				if err != nil {
					return err
				}
				raw, err := apiclient.Read(s.API.ExplainAllocationWithResponse(s.Ctx, project,
					&apiclient.ExplainAllocationParams{}, body))
				if err != nil {
					return err
				}
				return s.showCapacity(columns, raw)
			}
		},
	})
}

func (s *session) showCapacity(columns []table.Column[apiclient.AllocationFilter], raw json.RawMessage) error {
	format, err := s.Format()
	if err != nil {
		return err
	}
	if format != output.Table {
		return output.PrintLine(s.Program.Out, format, raw)
	}
	o, err := output.Decode[apiclient.AllocationCapacity](raw)
	if err != nil {
		return err
	}
	var out []json.RawMessage
	for _, f := range o.Value.Filters {
		if f.Before == f.After {
			continue
		}
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		out = append(out, line)
	}
	if err := output.Write(s.Program.Out, strconv.Itoa(int(o.Value.Free))+" of "+strconv.Itoa(int(o.Value.Nodes))+
		" nodes of "+o.Value.Sku+" are free now.\n"); err != nil {
		return err
	}
	costs := "nothing is charged for it"
	if c := o.Value.Cost; c != nil {
		costs = costText(*c)
	}
	if err := output.Write(s.Program.Out, costs+".\n"); err != nil {
		return err
	}
	if len(out) == 0 {
		return nil
	}
	return frame.PrintList(s.App, columns, out)
}
