package node

import (
	"context"
	"net/http"

	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// ActionBody says why an operator does something to a node.
type ActionBody struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it is part of the history." example:"flaky NVLink, vendor is asked"`
}

// TaintBody says how somebody came to have root on a node.
type TaintBody struct {
	Cause  RootCause `json:"cause" enum:"sudo,root_shell,privileged_container,physical_console" doc:"How they had it."`
	Reason string    `json:"reason" minLength:"1" maxLength:"500" doc:"What is known about it; it is part of the history." example:"a technician was at the console, ticket 4711"`
}

// registerActions adds the actions that are done at once, without an operation.
func (s *Service) registerActions(api *httpapi.API) {
	for _, a := range []struct {
		id, path, summary, note string
		do                      func(ctx context.Context, node id.Node, reason string) (Node, error)
	}{
		{
			"quarantine-node", "quarantine", "Block a node from scheduling",
			"Nothing on it is changed. A node that is quarantined already stays so.", s.Quarantine,
		},
		{
			"return-node-to-service", "return-to-service", "End the quarantine of a node",
			"A node that a tenant had access to must be proven clean first. One that is active already stays so.",
			s.ReturnToService,
		},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: a.id, Method: http.MethodPost, Path: pathNode + "/" + a.path, Tag: tag, Summary: a.summary,
			Description: a.note +
				" Refused while an operation owns the node, and where its state does not allow it: the answer says what it allows.",
			Access: httpapi.Platform(auth.NodeManage),
		}, func(ctx context.Context, in *struct {
			Path
			Body ActionBody
		},
		) (*httpapi.Versioned[View], error) {
			after, err := a.do(ctx, in.NodeID, in.Body.Reason)
			return httpapi.AtVersion(after.Version, s.show(after)), err
		})
	}
	httpapi.Register(api, httpapi.Operation{
		ID: "taint-node", Method: http.MethodPost, Path: pathNode + "/taint", Tag: tag,
		Summary: "Record that somebody had root on a node",
		Description: "For ways in that the control plane did not open, such as the physical console. It only ever adds: " +
			"the node counts as unclean from now on, and nothing less than " +
			"an installation made after this clears it. A node that is in service stays there until it is reset or reimaged.",
		Access: httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body TaintBody
	},
	) (*httpapi.Versioned[View], error) {
		after, err := s.RecordRoot(ctx, in.NodeID, in.Body.Cause, in.Body.Reason)
		return httpapi.AtVersion(after.Version, s.show(after)), err
	})
}
