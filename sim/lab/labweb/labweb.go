// Package labweb serves what a web page needs to try things out in a lab: the
// lab itself, its machines, and what can be made to happen to them. It
// authenticates nobody. Whoever mounts it must do that, and admit only those
// who may see the throw-away secrets of a simulated data centre.
package labweb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"gpuaas/sim/lab"
	"gpuaas/sim/lab/happening"
	"gpuaas/sim/maas/control"
	"gpuaas/sim/maas/region"
)

type server struct{ lab *lab.Lab }

// Handler serves a lab below the path at which it is mounted.
func Handler(l *lab.Lab) http.Handler {
	s := server{l}
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(*http.Request) (any, *refusal){
		"GET /{$}": s.describe, "GET /machines": s.machines, "GET /happenings": s.happenings,
		"POST /machines/{name}/happen": s.happen, "POST /machines/{name}/heal": s.heal,
		"/": func(*http.Request) (any, *refusal) {
			return nil, &refusal{http.StatusNotFound, "not_found", "The lab has nothing here."}
		},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, mostBody)
			v, refused := handle(r)
			answer(w, v, refused)
		})
	}
	return mux
}

// Lab describes a lab in the terms in which a site is created.
type Lab struct {
	Name           string      `json:"name"`
	Kind           lab.Kind    `json:"kind"`
	RegionCode     string      `json:"region_code"`
	SKU            string      `json:"sku"`
	Image          string      `json:"image"`
	URL            string      `json:"maas_url"`
	Machines       int         `json:"machines"`
	PXEIface       string      `json:"pxe_iface"`
	NodePXEIface   string      `json:"node_pxe_iface"`
	DeployUser     string      `json:"deploy_user"`
	DeploySSHIface string      `json:"deploy_ssh_iface"`
	MaxParallel    int         `json:"max_parallel"`
	Credentials    Credentials `json:"credentials"`
}

// Credentials are what a site of the lab needs, in the form that the control
// plane accepts.
type Credentials struct {
	APIToken       string `json:"api_token"`
	DeployPassword string `json:"deploy_password"`
	Power          Power  `json:"power"`
}

// Power opens the BMCs of the lab.
type Power struct {
	User string `json:"user"`
	Pass string `json:"pass"`
}

func (s server) describe(*http.Request) (any, *refusal) {
	return Lab{
		Name: "lab", Kind: s.lab.Kind, RegionCode: lab.RegionCode, SKU: lab.SKU, Image: lab.Image, URL: s.lab.URL,
		Machines: s.lab.Count(),
		PXEIface: lab.BootIface, NodePXEIface: lab.PXEIface, DeployUser: s.lab.DeployUser, DeploySSHIface: lab.PXEIface,
		MaxParallel: lab.AtOnce,
		Credentials: Credentials{
			APIToken: s.lab.Token, DeployPassword: s.lab.DeployPassword,
			Power: Power{User: lab.BMCUser, Pass: lab.BMCPassword},
		},
	}, nil
}

// Machine is one server as MAAS knows it, and what goes wrong with it.
type Machine struct {
	Hostname  string   `json:"hostname"`
	SystemID  string   `json:"system_id"`
	Status    string   `json:"status"`
	Power     string   `json:"power"`
	BMC       string   `json:"bmc"`
	Addresses []string `json:"addresses"`
	Owner     string   `json:"owner"`
	Faults    []string `json:"faults"` // the words of happenings
}

func (s server) machines(*http.Request) (any, *refusal) {
	all := []Machine{}
	for _, m := range s.lab.Overview() {
		all = append(all, Machine{
			Hostname: m.Hostname, SystemID: m.SystemID, Status: m.Status, Power: m.Power, BMC: m.BMC,
			Addresses: append([]string{}, m.Addresses...),
			Owner:     m.Owner, Faults: s.faults(m),
		})
	}
	return all, nil
}

func (s server) faults(m region.Brief) []string {
	return happening.Words(s.lab.Faults.Standing(m.Ref()))
}

func (s server) happenings(*http.Request) (any, *refusal) { return happening.All(), nil }

// Happened describes the new state.
type Happened struct {
	Said string `json:"said"`
}

func (s server) happen(r *http.Request) (any, *refusal) {
	m, refused := s.named(r)
	if refused != nil {
		return nil, refused
	}
	var in struct {
		What string `json:"what"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, &refusal{http.StatusBadRequest, "body_invalid", "The body is not JSON with the field what."}
	}
	h, possible := happening.Named(in.What)
	if !possible {
		return nil, &refusal{
			http.StatusUnprocessableEntity, "happening_unknown",
			fmt.Sprintf("%q cannot happen to a machine.", in.What),
		}
	}
	var err error
	if !h.Lasts {
		err = s.lab.Happen(m.SystemID, h.Befalls)
	} else if !slices.Contains(s.faults(m), h.What) {
		rule := h.Rule
		rule.Machine = m.Hostname
		_, err = s.lab.Faults.Add(rule)
	}
	if err != nil {
		return nil, impossible(err)
	}
	return Happened{h.Tell(m.Hostname)}, nil
}

func (s server) heal(r *http.Request) (any, *refusal) {
	m, refused := s.named(r)
	if refused != nil {
		return nil, refused
	}
	if err := control.Heal(s.lab.Region.Region, s.lab.Faults, m.SystemID); err != nil {
		return nil, impossible(err)
	}
	return Happened{m.Hostname + " is well again"}, nil
}

func (s server) named(r *http.Request) (region.Brief, *refusal) {
	name := r.PathValue("name")
	m, known := s.lab.Named(name)
	if !known {
		return m, &refusal{http.StatusNotFound, "machine_not_found", fmt.Sprintf("No machine of the lab is called %q.", name)}
	}
	return m, nil
}

const mostBody = 4 << 10

// refusal is a refusal in the form of the control plane's API.
type refusal struct {
	status       int
	code, detail string
}

func impossible(err error) *refusal {
	return &refusal{http.StatusConflict, "happening_impossible", err.Error()}
}

func answer(w http.ResponseWriter, v any, refused *refusal) {
	status, kind := http.StatusOK, "application/json"
	if refused != nil {
		status, kind = refused.status, "application/problem+json"
		problem := map[string]any{
			"type": "urn:gpuaas:problem:" + refused.code, "title": http.StatusText(status), "status": status,
			"code": refused.code, "detail": refused.detail,
		}
		// Whoever stands before the lab has set the correlation id of its log.
		if correlation := w.Header().Get("X-Correlation-Id"); correlation != "" {
			problem["correlation_id"] = correlation
		}
		v = problem
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store") // some answers hold secrets
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that has gone cannot be told
}
