package node

import (
	"context"
	"net/http"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

// HardwareView says which machine a node is.
type HardwareView struct {
	Known           HardwareFacts  `json:"known" doc:"What is known of the machine that the node is. Whoever enrols as the node must say all of it, and of the MAC addresses one."`
	Origin          Origin         `json:"origin,omitempty" enum:"maas,enrolment,report,accepted" doc:"Who said so: MAAS, the machine itself when it first enrolled or first reported, or an operator who accepted it; absent: nobody did yet."`
	LearnedAt       *time.Time     `json:"learned_at,omitempty"`
	Said            bool           `json:"said" doc:"The agent says which machine it runs on. One of an earlier release does not."`
	Addresses       []string       `json:"addresses" nullable:"false" doc:"Addresses that MAAS gave the machine."`
	AddressRequired bool           `json:"address_required" doc:"Whoever enrols from another address is refused; otherwise that is only noted."`
	EnrolledFrom    string         `json:"enrolled_from,omitempty" doc:"Address from which the node last enrolled."`
	Refused         *HardwareFacts `json:"refused,omitempty" doc:"What the machine said that was refused last. accept-node-hardware makes it the one that the node is."`
	RefusedClaim    string         `json:"refused_claim,omitempty" doc:"Digest of what that machine said. accept-node-hardware asks for it, so that nobody accepts another claim than they have read."`
	RefusedWhy      string         `json:"refused_why,omitempty" doc:"In what it differs, or differed."`
	RefusedAt       *time.Time     `json:"refused_at,omitempty"`
	IdentityVoid    string         `json:"identity_void,omitempty" doc:"Why nobody is the node any more: somebody else came with its token while it was being enrolled. A new token ends it."`
}

// HardwareFacts is what firmware and interfaces say of a machine. Unknown facts
// are left out.
type HardwareFacts struct {
	UUID          string   `json:"uuid,omitempty" doc:"Of the system, by SMBIOS."`
	SystemSerial  string   `json:"system_serial,omitempty"`
	BoardSerial   string   `json:"board_serial,omitempty"`
	ChassisSerial string   `json:"chassis_serial,omitempty"`
	MACs          []string `json:"macs" nullable:"false"`
}

// AcceptHardwareBody says which machine is the node from now on, and why.
type AcceptHardwareBody struct {
	Claim  string `json:"claim,omitempty" maxLength:"100" doc:"The refused_claim that you have read with get-node-hardware. Without it nothing is accepted." example:"sha256:5d41…"`
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why; it is part of the history." example:"mainboard replaced, ticket 4711"`
}

func showHardware(h agentwire.Hardware) HardwareFacts {
	return HardwareFacts{
		UUID: h.UUID, SystemSerial: h.SystemSerial, BoardSerial: h.BoardSerial, ChassisSerial: h.ChassisSerial,
		MACs: append([]string{}, h.MACs...),
	}
}

func showMachine(n Node, m Machine) (HardwareView, error) {
	v := HardwareView{
		Known: showHardware(m.Known), Origin: m.Origin, Said: n.HardwareSaid, Addresses: append([]string{}, m.Addresses...),
		AddressRequired: m.AddressRequired, EnrolledFrom: m.EnrolledFrom, RefusedWhy: m.RefusedWhy, RefusedAt: m.RefusedAt,
		IdentityVoid: n.IdentityVoid,
	}
	if m.Origin != "" {
		v.LearnedAt = &m.LearnedAt
	}
	if m.Refused != nil {
		refused := showHardware(*m.Refused)
		v.Refused = &refused
		var err error
		if v.RefusedClaim, err = claimOf(*m.Refused); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (s *Service) registerHardware(api *httpapi.API) {
	httpapi.Register(api, httpapi.Operation{
		ID: "get-node-hardware", Method: http.MethodGet, Path: pathNode + "/hardware", Tag: tag,
		Summary:     "Read which machine a node is",
		Description: "What is known of its hardware and by whom, and who was refused last because it differs.",
		Access:      httpapi.Platform(auth.NodeRead),
	}, func(ctx context.Context, in *Path) (*httpapi.Plain[HardwareView], error) {
		n, err := s.Node(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		m, err := s.MachineOf(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		view, err := showMachine(n, m)
		return &httpapi.Plain[HardwareView]{Body: view}, err
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "accept-node-hardware", Method: http.MethodPost, Path: pathNode + "/accept-hardware", Tag: tag,
		Summary: "Accept the machine that was refused last as the one that the node is",
		Description: "For a part that was replaced, such as the mainboard. It names the claim that you have read: " +
			"409 when another machine was refused since, with what that one says; 422 when it names none. " +
			"It gives nobody an identity: " +
			"the machine enrols with a new bootstrap, of purpose recovery where the node had enrolled before.",
		Access: httpapi.Platform(auth.NodeManage),
	}, func(ctx context.Context, in *struct {
		Path
		Body AcceptHardwareBody
	},
	) (*httpapi.Plain[HardwareView], error) {
		m, err := s.AcceptHardware(ctx, in.NodeID, in.Body.Claim, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		n, err := s.Node(ctx, in.NodeID)
		if err != nil {
			return nil, err
		}
		view, err := showMachine(n, m)
		return &httpapi.Plain[HardwareView]{Body: view}, err
	})
}
