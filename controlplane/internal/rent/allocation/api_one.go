package allocation

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
	"gpuaas/controlplane/internal/engine/postgres"
	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/fleet/terminal"
)

// of reads an allocation that the caller may see; the permission is held on its
// project, which a flat path does not name. A zero project is any.
func (s *Service) of(ctx context.Context, which id.Allocation, project id.Project, want auth.Permission) (Allocation,
	error,
) {
	a, err := Get(ctx, s.db, which)
	if err != nil {
		return a, err
	}
	if !project.IsZero() && a.Project != project {
		return Allocation{}, notFound()
	}
	switch auth.From(ctx).Decide(want, auth.Target{Org: a.Org, Project: a.Project}) {
	case auth.Allowed:
		return a, nil
	case auth.Denied:
		return Allocation{}, fault.New(fault.Forbidden, "insufficient_permissions",
			"this needs the permission %s in the project",
			want).WithRemedy("ask an administrator of the project")
	case auth.Hidden:
	}
	return Allocation{}, notFound()
}

// mine reads an allocation that the caller may change: one that the caller asked
// for, or any with the permission for those of others.
func (s *Service) mine(ctx context.Context, which id.Allocation, project id.Project) (Allocation, error) {
	a, err := s.of(ctx, which, project, auth.AllocationUse)
	if err != nil {
		return a, err
	}
	if !a.usableBy(auth.From(ctx)) {
		return Allocation{}, fault.New(fault.Forbidden, "ownership_required",
			"allocation %s belongs to somebody else of the project",
			a.called()).WithRemedy("ask whoever made it, or an administrator of the project")
	}
	return a, nil
}

// usableBy says whether somebody may use and change an allocation: one of their own, or
// any with the permission for those of others.
func (a Allocation) usableBy(who *auth.Principal) bool {
	on := auth.Target{Org: a.Org, Project: a.Project}
	return who.Decide(auth.AllocationUse, on) == auth.Allowed &&
		(a.AskedBy == who.ID || who.Decide(auth.AllocationManage, on) == auth.Allowed)
}

// Visits says whether terminals on rented nodes may go on.
type Visits struct{ DB *postgres.DB }

// MayStay implements terminal.Visits: while the allocation is active, and whoever asked
// for the terminal may use it.
func (v Visits) MayStay(ctx context.Context, of id.Allocation, who *auth.Principal) error {
	a, err := Get(ctx, v.DB, of)
	switch {
	case err != nil:
		return err
	case a.Status != Active:
		return fault.New(fault.Forbidden, "allocation_ended", "allocation %s has ended, and the terminal with it", a.called())
	case !a.usableBy(who):
		return notYours(a)
	}
	return nil
}

// notYours refuses somebody who has lost the right to an allocation.
func notYours(a Allocation) error {
	return fault.New(fault.Forbidden, "insufficient_permissions", "you may not use allocation %s any more", a.called()).
		WithRemedy("ask an administrator of the project")
}

// detail shows an allocation with how to reach its node.
func (s *Service) detail(ctx context.Context, a Allocation, err error) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	v, err := s.conditioned(ctx, show(ctx, a))
	if err != nil {
		return nil, err
	}
	if a.Status == Active {
		n, err := node.Get(ctx, s.db, a.Node)
		if err != nil {
			return nil, err
		}
		v.Host, v.Port = n.Host, n.Port
		known, err := node.HostKeysOf(ctx, s.db, a.Node)
		if err != nil {
			return nil, err
		}
		keys := known[a.Node]
		v.HostKeys, v.HostKeysChangedAt = showHostKeys(keys.Keys), keys.ChangedAt
		if keys.ChangedAt != nil {
			v.HostKeysShown = showHostKeys(keys.Reported)
		}
	}
	return &httpapi.Plain[View]{Body: v}, nil
}

// conditioned shows an allocation with what holds of it besides its state.
func (s *Service) conditioned(ctx context.Context, v View) (View, error) {
	with, err := s.allConditioned(ctx, []View{v})
	if err != nil {
		return v, err
	}
	return with[0], nil
}

// ChangeBody is what the tenant of an allocation may change.
type ChangeBody struct {
	Name      *string           `json:"name,omitempty" maxLength:"100"`
	Labels    map[string]string `json:"labels,omitempty"`
	Protected *bool             `json:"protected,omitempty"`
	ExpiresIn *int64            `json:"expires_in_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"From now on; 0: never."`
	ExpiresAt *time.Time        `json:"expires_at,omitempty" doc:"Only with no expires_in_seconds: when it ends."`
}

func (b ChangeBody) terms() Terms {
	t := Terms{Name: b.Name, Labels: b.Labels, Protected: b.Protected, ExpiresAt: b.ExpiresAt}
	if b.ExpiresIn != nil {
		end := time.Now().Add(time.Duration(*b.ExpiresIn) * time.Second)
		t.ExpiresAt, t.Never = &end, *b.ExpiresIn == 0
	}
	return t
}

// KeysBody is how the keys of an allocation change.
type KeysBody struct {
	Add    []id.SSHKey `json:"add,omitempty" maxItems:"100" nullable:"false" doc:"Keys of your own or of the project that shall open it, too."`
	Remove []id.SSHKey `json:"remove,omitempty" maxItems:"100" nullable:"false" doc:"Keys that shall not open it any more."`
}

// WindowBody is the size of a terminal.
type WindowBody struct {
	Columns int `json:"columns,omitempty" minimum:"1" maximum:"1000" default:"80"`
	Rows    int `json:"rows,omitempty" minimum:"1" maximum:"1000" default:"24"`
}

func (s *Service) registerOne(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-allocation", Method: http.MethodGet, Path: pathOne, Tag: tag, Summary: "Read an allocation",
		Access: httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *Both) (*httpapi.Plain[View], error) {
		a, err := s.of(ctx, in.AllocationID, in.ProjectID, auth.AllocationRead)
		return s.detail(ctx, a, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "list-allocation-events", Method: http.MethodGet, Path: pathOne + "/timeline", Tag: tag,
		Summary: "Read what happened to an allocation, in its order", Access: httpapi.Project(auth.AllocationRead),
	}, func(ctx context.Context, in *struct {
		Both
		httpapi.Page
	},
	) (*httpapi.Listed[MomentView], error) {
		if _, err := s.of(ctx, in.AllocationID, in.ProjectID, auth.AllocationRead); err != nil {
			return nil, err
		}
		return s.timeline(ctx, in.AllocationID, in.Page)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "update-allocation", Method: http.MethodPost, Path: pathOne + "/terms", Tag: tag,
		Summary: "Name, protect or extend an allocation", Access: httpapi.Project(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		Both
		Body ChangeBody
	},
	) (*httpapi.Plain[View], error) {
		if _, err := s.mine(ctx, in.AllocationID, in.ProjectID); err != nil {
			return nil, err
		}
		a, err := s.Change(ctx, in.AllocationID, in.Body.terms())
		return s.detail(ctx, a, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "change-allocation-keys", Method: http.MethodPost, Path: pathOne + "/ssh-keys", Tag: tag,
		WhileDisabled: true,
		Status:        http.StatusAccepted, Summary: "Change which SSH keys open an allocation that is active",
		Description: "Its node is told; `keys_changing_since` is there until it has answered. Connections that are open " +
			"stay: who is in can stay in until the allocation is released.",
		Access: httpapi.Project(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		Both
		Body KeysBody
	},
	) (*httpapi.Plain[View], error) {
		if _, err := s.mine(ctx, in.AllocationID, in.ProjectID); err != nil {
			return nil, err
		}
		a, err := s.ChangeKeys(ctx, in.AllocationID, in.Body.Add, in.Body.Remove)
		return s.detail(ctx, a, err)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "release-allocation", Method: http.MethodPost, Path: pathOne + "/release", Tag: tag, Status: http.StatusAccepted,
		WhileDisabled: true,
		Summary:       "Give an allocation back",
		Description: "Nothing is charged from now on. Everything of the tenant on the node is destroyed, and the node is " +
			"proven clean. One that is not active yet ends as `failed`, with the code `cancelled_by_user`. One whose cleaning " +
			"stopped is cleaned again.",
		Access: httpapi.Project(auth.AllocationUse),
	}, func(ctx context.Context, in *struct {
		Both
		Body LeaveBody
	},
	) (*httpapi.Plain[View], error) {
		return s.leave(ctx, in.AllocationID, in.ProjectID, in.Body)
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "create-allocation-terminal-token", Method: http.MethodPost, Path: pathOne + "/terminal-token", Tag: tag,
		WhileDisabled: true,
		Status:        http.StatusCreated, Summary: "Issue a token that opens one terminal on the node of an allocation",
		Description: "As create-terminal-token, for the account of the allocation.",
		Access:      httpapi.Project(auth.AllocationUse), SecretResponse: true,
	}, func(ctx context.Context, in *struct {
		Both
		Body WindowBody
	},
	) (*httpapi.Plain[terminal.Token], error) {
		return s.mint(ctx, in.AllocationID, in.ProjectID, in.Body)
	})
}

func (s *Service) leave(ctx context.Context, of id.Allocation, project id.Project, b LeaveBody) (*httpapi.Plain[View],
	error,
) {
	if _, err := s.mine(ctx, of, project); err != nil {
		return nil, err
	}
	a, err := s.Release(ctx, of, b.leaving())
	return s.detail(ctx, a, err)
}

func (s *Service) mint(ctx context.Context, of id.Allocation, project id.Project, b WindowBody) (
	*httpapi.Plain[terminal.Token], error,
) {
	a, err := s.mine(ctx, of, project)
	if err != nil {
		return nil, err
	}
	made, token, err := s.terminals.Mint(ctx, terminal.Wish{
		Node: a.Node, Username: a.Username, Columns: b.Columns, Rows: b.Rows,
		Tenant: auth.Target{Org: a.Org, Project: a.Project}, Allocation: a.ID,
	}, func(ctx context.Context, tx pgx.Tx) error { // under lock: none is issued once its end was asked for
		now, _, err := hold(ctx, tx, a.ID)
		if err != nil {
			return err
		}
		return cmp.Or(now.opens(), working(ctx, tx, now))
	})
	if err != nil {
		return nil, a.noTerminal(ctx, err)
	}
	return &httpapi.Plain[terminal.Token]{Body: terminal.Token{
		SessionID: made.ID, Token: token.Reveal(), ExpiresAt: made.TokenExpiresAt,
		WebsocketPath: strings.Replace(terminal.PathUser, "{session_id}", made.ID.String(), 1),
	}}, nil
}

// opens refuses a terminal on an allocation that is not active.
func (a Allocation) opens() error {
	if a.Status == Active {
		return nil
	}
	return fault.New(fault.Conflict, "allocation_state_conflict",
		"allocation %s is %s: a terminal needs one that is active",
		a.called(), a.Status).WithRemedy("see what it waits for: gpuaas allocation show %s", a.ID)
}
