package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/contract/eventwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node/internal/nodedb"
	"gpuaas/controlplane/internal/fleet/sku"
)

// NewNode describes a node to add.
type NewNode struct {
	ID          id.Node // if zero, a new id
	Hostname    string  // if empty, taken from Host if that is a name
	Host        string  // where it is reached; if empty, the hostname
	Port        int32   // 0: 22
	SSHUsername string
	SKU         string
	GPUsTotal   *int32 // if nil, as many as the SKU says
	RegionCode  string
	Mode        Mode   // if empty, manual
	AwaitedBy   string // workflow to signal at the first poll, or empty
	Grouping
}

var (
	hostnameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	regionForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	hostForm     = regexp.MustCompile(`^[A-Za-z0-9.:-]{1,253}$`)
	userForm     = regexp.MustCompile(`^([a-z_][a-z0-9_-]{0,31})?$`)
	versionForm  = regexp.MustCompile(`^[A-Za-z0-9._+-]{0,64}$`)
)

// checked fills in defaults and refuses what can never be right.
func (n NewNode) checked() (NewNode, error) {
	if n.Hostname == "" {
		if _, err := netip.ParseAddr(n.Host); err != nil {
			n.Hostname = strings.ToLower(n.Host)
		}
	}
	if n.Host == "" {
		n.Host = n.Hostname
	}
	if n.Port == 0 {
		n.Port = 22
	}
	if n.Mode == "" {
		n.Mode = Manual
	}
	var fields []fault.Field
	reject := func(ok bool, path, message string) {
		if !ok {
			fields = append(fields, fault.Field{Path: "body." + path, Message: message})
		}
	}
	reject(hostnameForm.MatchString(n.Hostname), "hostname",
		"must be a host name in lower case; it can be left out when host is one")
	reject(hostForm.MatchString(n.Host), "host", "must be a host name or an address")
	reject(n.Port >= 1 && n.Port <= 65535, "port", "must be 1 to 65535")
	reject(userForm.MatchString(n.SSHUsername), "ssh_username", "must be the name of a Linux account")
	reject(regionForm.MatchString(n.RegionCode), "region_code",
		"must be 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends")
	reject(n.GPUsTotal == nil || *n.GPUsTotal >= 0 && *n.GPUsTotal <= 64, "gpus_total", "must be 0 to 64")
	reject(n.Mode == Manual || n.Mode == MAAS, "onboarding_mode", "must be manual or maas")
	return n, rejected(append(fields, n.Rejected("body.")...))
}

// Create adds a node that is onboarded by hand, and returns the token for its
// bootstrap.
func (s *Service) Create(ctx context.Context, n NewNode) (Node, Token, error) {
	n.Mode = Manual
	token := s.newToken(Bootstrap, s.settings.BootstrapTTL)
	made, err := s.create(ctx, n, token)
	return made, token, err
}

func (s *Service) create(ctx context.Context, n NewNode, token Token) (Node, error) {
	var made Node
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		var err error
		if made, err = CreateInTx(ctx, c.tx, n); err != nil {
			return err
		}
		made, err = c.issue(ctx, made, token)
		return err
	})
	return made, err
}

// CreateInTx adds a node within the caller's transaction. A node that is
// onboarded by hand waits for its bootstrap; a node that a workflow onboards is
// enrolling from the start.
func CreateInTx(ctx context.Context, tx pgx.Tx, n NewNode) (Node, error) {
	n, err := n.checked()
	if err != nil {
		return Node{}, err
	}
	kind, err := sku.ForUse(ctx, tx, n.SKU)
	if fault.KindOf(err) == fault.NotFound {
		return Node{}, rejected([]fault.Field{{Path: "body.sku", Message: "is not in the catalog"}})
	}
	if err != nil {
		return Node{}, err
	}
	gpus := kind.GPUsTotal
	if n.GPUsTotal != nil {
		gpus = *n.GPUsTotal
	}
	status := BootstrapIssued
	if n.Mode == MAAS {
		status = Enrolling
	}
	if n.ID.IsZero() {
		n.ID = id.New[id.Node]()
	}
	labels, err := labelsOf(n.Labels)
	if err != nil {
		return Node{}, err
	}
	c := changeIn(tx)
	row, err := c.InsertNode(ctx, nodedb.InsertNodeParams{
		ID: n.ID, Status: string(status), Hostname: n.Hostname, Host: n.Host, Port: n.Port, SkuID: n.SKU, GpusTotal: gpus,
		RegionCode: n.RegionCode, OnboardingMode: string(n.Mode), SshUsername: n.SSHUsername, AwaitedBy: n.AwaitedBy,
		Rack: n.Rack, Pool: n.Pool, Labels: labels,
	})
	if postgres.Violates(err, "nodes_hostname") {
		return Node{}, fault.New(fault.Conflict, "node_hostname_taken", "there is already a node %s in region %s", n.Hostname,
			n.RegionCode).
			WithRemedy("look at it: gpuaas node list --hostname %s; or choose another name", n.Hostname)
	}
	if postgres.Violates(err, "nodes_pkey") {
		return Node{}, fault.New(fault.Conflict, "node_exists", "node %s is in the inventory already, or was", n.ID)
	}
	if err != nil {
		return Node{}, fmt.Errorf("insert node: %w", err)
	}
	return c.born(ctx, nodeFrom(row), entry{
		kind: KindCreated, cause: "added to the inventory", action: "node.create", tell: eventwire.NodeCreated,
		metadata: map[string]any{"sku": n.SKU, "region_code": n.RegionCode, "onboarding_mode": n.Mode},
	})
}

// born records a new node. If its machine left the inventory earlier without
// being proven clean, the new node is tainted too: a new id makes nothing
// clean. born looks for the machine after the node was added, because from then
// on nobody else can give up its name.
func (c change) born(ctx context.Context, made Node, e entry) (Node, error) {
	former, err := c.Former(ctx, made.ID)
	if err != nil {
		return Node{}, fmt.Errorf("look what the machine of node was: %w", err)
	}
	for _, f := range former {
		root := Root{At: f.RootAt, EndedAt: f.RootEndedAt, Risk: f.RootRisk}
		stands := root.Stands() || root.Accepted() // that risk was accepted for the former node only
		if was := (Node{TaintedAt: f.TaintedAt, CleanAt: f.CleanAt}); !was.Tainted() && !stands {
			continue
		}
		row, err := c.SetTainted(ctx, made.ID)
		if err == nil && stands {
			row, err = c.SetRoot(ctx, nodedb.SetRootParams{ID: made.ID, At: root.At, Cause: f.RootCause})
		}
		if err != nil {
			return Node{}, fmt.Errorf("taint node: %w", err)
		}
		made = nodeFrom(row)
		e.cause += fmt.Sprintf("; its machine was node %s, which left without being proven clean", f.ID)
		e.metadata["former_node"] = f.ID
	}
	return made, c.record(ctx, made, e)
}

// Change describes the change of a node. Nil fields stay as they are.
type Change struct {
	Host                *string
	Port                *int32
	SSHUsername         *string
	GPUsTotal           *int32
	Rack                *string
	Pool                *string
	Labels              *map[string]string // the complete set: other labels are removed
	Schedulable         *bool
	HoldReason          *string
	AgentChannel        *Channel
	DesiredAgentVersion *string
	DesiredDeliveryMode *Delivery
}

// applied returns the changed node, or refuses what can never be right. A reason
// becomes the hold of whoever operates the fleet, and an empty one ends the hold that
// it can only mean. What else holds the node stays.
func (ch Change) applied(n Node) (Node, error) {
	before := n
	var fields []fault.Field
	reject := func(ok bool, path, message string) {
		if !ok {
			fields = append(fields, fault.Field{Path: "body." + path, Message: message})
		}
	}
	set(&n.Host, ch.Host)
	set(&n.Port, ch.Port)
	set(&n.SSHUsername, ch.SSHUsername)
	set(&n.GPUsTotal, ch.GPUsTotal)
	set(&n.Rack, ch.Rack)
	set(&n.Pool, ch.Pool)
	set(&n.Labels, ch.Labels)
	set(&n.AgentChannel, ch.AgentChannel)
	set(&n.DesiredAgentVersion, ch.DesiredAgentVersion)
	set(&n.DesiredDeliveryMode, ch.DesiredDeliveryMode)
	reject(hostForm.MatchString(n.Host), "host", "must be a host name or an address")
	reject(n.Port >= 1 && n.Port <= 65535, "port", "must be 1 to 65535")
	reject(userForm.MatchString(n.SSHUsername), "ssh_username", "must be the name of a Linux account")
	reject(n.GPUsTotal >= 0 && n.GPUsTotal <= 64, "gpus_total", "must be 0 to 64")
	reject(versionForm.MatchString(n.DesiredAgentVersion), "desired_agent_version",
		"must be a version of the agent, or empty")
	because := ""
	set(&because, ch.HoldReason)
	reject(len(because) <= 500, "hold_reason", "must be at most 500 bytes long")
	if ch.Schedulable != nil {
		reject(!*ch.Schedulable || because == "", "schedulable", "a node that a reason holds is not schedulable")
		reject(*ch.Schedulable || because != "" || ch.HoldReason == nil && n.HoldReason != "", "hold_reason",
			"say why the node must not be scheduled")
	}
	if err := rejected(append(fields, n.Rejected("body.")...)); err != nil {
		return n, err
	}
	if ch.Schedulable != nil && *ch.Schedulable && n.Status != Active {
		return n, fault.New(fault.Conflict, "node_not_active", "the node is %s; only an active node can be scheduled",
			n.Status).
			WithRemedy("it becomes schedulable with its state unless a hold reason keeps it")
	}
	if ch.Schedulable != nil && *ch.Schedulable && n.HeldBy != "" {
		return n, n.held()
	}
	var err error
	switch {
	case because != "":
		n = n.without(ForOperator, "").with(Holding{Kind: ForOperator, Reason: because})
	case ch.HoldReason != nil || ch.Schedulable != nil && *ch.Schedulable:
		if n, err = n.lifted(); err != nil {
			return n, err
		}
	}
	if ch.Schedulable != nil && *ch.Schedulable && n.HoldReason != "" { // all that is left is that it is not clean
		return n, n.notClean()
	}
	n.Schedulable = n.placeable()
	return n, mayServe(before, n)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// Update changes the facts of a node, but never its state. It fails if the node
// is no longer at this version. Removing the hold reason also ends a conflict
// about the node's identity.
func (s *Service) Update(ctx context.Context, node id.Node, version int64, ch Change) (Node, error) {
	var after Node
	err := s.inChange(ctx, func(ctx context.Context, c change) error {
		before, err := c.lockHolds(ctx, node)
		if err != nil {
			return err
		}
		if err := atVersion(before.Version, version); err != nil {
			return err
		}
		if err := before.gone(); err != nil {
			return err
		}
		if after, err = ch.applied(before); err != nil {
			return err
		}
		if err := c.settle(ctx, before, after); err != nil {
			return err
		}
		if !slices.Equal(before.Holds, after.Holds) {
			if after.Holds, err = c.keepHolds(ctx, after); err != nil {
				return err
			}
		}
		labels, err := labelsOf(after.Labels)
		if err != nil {
			return err
		}
		row, err := c.SetFacts(ctx, nodedb.SetFactsParams{
			ID: node, Host: after.Host, Port: after.Port, SshUsername: after.SSHUsername, GpusTotal: after.GPUsTotal,
			Schedulable: after.Schedulable, HoldReason: after.HoldReason, HeldUnclean: after.HeldUnclean,
			AgentChannel: string(after.AgentChannel), Rack: after.Rack, Pool: after.Pool, Labels: labels,
			DesiredAgentVersion: after.DesiredAgentVersion, DesiredDeliveryMode: string(after.DesiredDeliveryMode),
		})
		if err != nil {
			return fmt.Errorf("update node: %w", err)
		}
		after = nodeFrom(row)
		return c.record(ctx, after, entry{
			kind: KindUpdated, cause: "changed by an operator", action: "node.update", tell: eventwire.NodeUpdated,
			metadata: map[string]any{
				"schedulable": after.Schedulable, "hold_reason": after.HoldReason,
				"version": after.Version, "grouping": after.Grouping,
			},
		})
	})
	if err != nil {
		return Node{}, err
	}
	return s.Node(ctx, node)
}

// Node reads one node, with what holds it.
func (s *Service) Node(ctx context.Context, node id.Node) (Node, error) {
	n, err := Get(ctx, s.db, node)
	if err != nil {
		return n, err
	}
	one := []Node{n}
	err = readHolds(ctx, s.reads, one)
	return one[0], err
}

// Detail reads one node with what was found on its machine and how it was last
// seen from outside.
func (s *Service) Detail(ctx context.Context, node id.Node) (Node, error) {
	n, err := s.Node(ctx, node)
	if err != nil {
		return Node{}, err
	}
	row, err := s.reads.Inspection(ctx, node)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Node{}, fmt.Errorf("read inspection of node: %w", err)
	}
	n.Inspection = row.Found
	n.Observed, err = s.observed(ctx, node, nil)
	return n, err
}

// optional returns nil for an empty value.
func optional[T ~string](v T) *string {
	if v == "" {
		return nil
	}
	s := string(v)
	return &s
}
