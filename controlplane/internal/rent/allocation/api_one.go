package allocation

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
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
	if err != nil || a.AskedBy == auth.From(ctx).ID {
		return a, err
	}
	if _, err := s.of(ctx, which, project, auth.AllocationManage); err != nil {
		return Allocation{}, fault.New(fault.Forbidden, "ownership_required",
			"allocation %s belongs to somebody else of the project",
			a.called()).WithRemedy("ask whoever made it, or an administrator of the project")
	}
	return a, nil
}

// detail shows an allocation with how to reach its node.
func (s *Service) detail(ctx context.Context, a Allocation, err error) (*httpapi.Plain[View], error) {
	if err != nil {
		return nil, err
	}
	v, err := s.conditioned(ctx, show(a))
	if err != nil {
		return nil, err
	}
	if a.Status == Active {
		n, err := node.Get(ctx, s.db, a.Node)
		if err != nil {
			return nil, err
		}
		v.Host, v.Port = n.Host, n.Port
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
		ID: "release-allocation", Method: http.MethodPost, Path: pathOne + "/release", Tag: tag, Status: http.StatusAccepted,
		Summary: "Give an allocation back",
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
		Status: http.StatusCreated, Summary: "Issue a token that opens one terminal on the node of an allocation",
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
	if err := cmp.Or(a.opens(), s.working(ctx, a)); err != nil {
		return nil, err
	}
	made, token, err := s.terminals.Mint(ctx, terminal.Wish{
		Node: a.Node, Username: a.Username, Columns: b.Columns, Rows: b.Rows,
		Tenant: auth.Target{Org: a.Org, Project: a.Project},
	})
	if err == nil { // its end may have been asked for while the token was made
		err = s.stillOpen(ctx, a, made)
	}
	if err != nil {
		return nil, err
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

// stillOpen closes a session of an allocation that ended meanwhile.
func (s *Service) stillOpen(ctx context.Context, a Allocation, made terminal.Session) error {
	now, err := Get(ctx, s.db, a.ID)
	if err != nil {
		return err
	}
	if err := cmp.Or(now.opens(), s.working(ctx, now)); err != nil {
		_, closed := s.terminals.Close(ctx, made.ID, "its allocation has ended, or its node is being repaired")
		return errors.Join(err, closed)
	}
	return nil
}
