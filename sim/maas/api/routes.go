package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gpuaas/sim/maas/region"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)

func path(s string) []string { return strings.Split(strings.TrimPrefix(s, "/"), "/") }

func number(s, kind string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, &region.RefusalError{
			Status: http.StatusNotFound, Text: "No " + kind + " matches the given query.",
			Missing: true,
		}
	}
	return n, nil
}

// done answers "OK" when there was no error.
func done(err error) (any, error) { return text("OK"), err }

func gone(err error) (any, error) { return nothing{}, err }

// value converts a typed answer to any. A nil pointer becomes JSON null.
func value[T any](v *T, err error) (any, error) {
	if v == nil {
		return nil, err
	}
	return v, err
}

func list[T any](v []T, err error) (any, error) { return v, err }

func (s *Server) table() []route {
	all := [][]route{s.smallRoutes(), s.machineRoutes(), s.nodeRoutes(), s.networkRoutes()}
	var routes []route
	for _, group := range all {
		routes = append(routes, group...)
	}
	return routes
}

var capabilities = []string{
	"networks-management", "static-ipaddresses", "ipv6-deployment-ubuntu", "devices-management",
	"storage-deployment-ubuntu", "network-deployment-ubuntu", "bridging-interface-ubuntu", "bridging-automatic-ubuntu",
	"authenticate-api",
}

func (s *Server) smallRoutes() []route {
	r := s.region
	return []route{
		{name: "version", path: path("/version/"), open: true, methods: map[string]handler{get: func(*call) (any, error) {
			return map[string]any{"version": region.Version, "subversion": "", "capabilities": capabilities}, nil
		}}},
		{name: "account", path: path("/account/"), ops: map[string]verb{
			"list_authorisation_tokens": {get, func(c *call) (any, error) { return r.Tokens(c.caller), nil }},
			"create_authorisation_token": {post, func(c *call) (
				any, error,
			) {
				return r.CreateToken(c.caller, c.form.Get("name")), nil
			}},
			"delete_authorisation_token": {post, func(c *call) (
				any, error,
			) {
				return gone(r.DeleteToken(c.caller, c.form.Get("token_key")))
			}},
		}},
		{name: "users", path: path("/users/"), ops: map[string]verb{"whoami": {
			get,
			func(c *call) (any, error) { return r.Whoami(c.caller), nil },
		}}},
		{name: "maas", path: path("/maas/"), ops: map[string]verb{
			"get_config": {get, func(c *call) (any, error) {
				v, err := r.Setting(c.query.Get("name"))
				return bare{v}, err
			}},
			"set_config": {post, func(c *call) (any, error) {
				return done(r.SetSetting(c.caller, c.form.Get("name"), c.form.Get("value"), c.form.Has("value")))
			}},
		}},
		{
			name: "rackcontrollers", path: path("/rackcontrollers/"),
			methods: map[string]handler{get: func(c *call) (any, error) { return list(r.Racks(c.caller, c.query)) }},
		},
		{
			name: "scripts", path: path("/scripts/"),
			methods: map[string]handler{get: func(c *call) (any, error) { return r.NodeScripts(), nil }},
		},
		{name: "zones", path: path("/zones/"), methods: map[string]handler{get: func(*call) (
			any, error,
		) {
			return r.Zones(), nil
		}}},
		{
			name: "resourcepools", path: path("/resourcepools/"),
			methods: map[string]handler{get: func(*call) (any, error) { return r.Pools(), nil }},
		},
		{
			name: "events", path: path("/events/"),
			ops: map[string]verb{"query": {get, func(c *call) (any, error) { return value(r.Events(c.caller, c.query)) }}},
		},
		{name: "boot-resources", path: path("/boot-resources/"), methods: map[string]handler{
			get: func(c *call) (any, error) { return r.Images(c.query.Get("type")) },
			post: func(c *call) (any, error) {
				v, err := r.CreateImage(c.caller, c.form)
				return made{v}, err
			},
		}},
		{name: "boot-resource", path: path("/boot-resources/*/"), methods: map[string]handler{
			get: func(c *call) (any, error) {
				id, err := number(c.arg(0), "BootResource")
				if err != nil {
					return nil, err
				}
				return r.Image(id)
			},
			del: func(c *call) (any, error) {
				id, err := number(c.arg(0), "BootResource")
				if err != nil {
					return nil, err
				}
				return gone(r.DeleteImage(c.caller, id))
			},
		}},
	}
}

func (s *Server) machineRoutes() []route {
	r := s.region
	collection := route{
		name: "machines", path: path("/machines/"), halfway: true,
		methods: map[string]handler{
			get:  s.listMachines,
			post: func(c *call) (any, error) { return value(r.Create(c.ctx, c.caller, c.form)) },
		},
		ops: map[string]verb{
			"accept": {post, func(c *call) (
				any, error,
			) {
				return list(r.Accept(c.ctx, c.caller, c.form["machines"], false))
			}},
			"accept_all":       {post, func(c *call) (any, error) { return list(r.Accept(c.ctx, c.caller, nil, true)) }},
			"allocate":         {post, func(c *call) (any, error) { return value(r.Allocate(c.caller, c.form)) }},
			"release":          {post, func(c *call) (any, error) { return list(r.ReleaseAll(c.ctx, c.caller, c.form)) }},
			"power_parameters": {get, func(c *call) (any, error) { return r.AllPowerParameters(c.caller, c.query["id"]) }},
			"list_allocated": {get, func(c *call) (any, error) {
				return list(r.List(c.caller, url.Values{"owner": {c.caller.User.Name}, "status": {"allocated"}}))
			}},
		},
	}
	nodes := route{name: "nodes", path: path("/nodes/"), halfway: true, methods: map[string]handler{get: s.listMachines}}
	item := route{
		name: "machine", path: path("/machines/*/"),
		methods: map[string]handler{
			get: func(c *call) (any, error) { return value(r.Machine(c.caller, c.arg(0))) },
			put: func(c *call) (any, error) { return value(r.Update(c.caller, c.arg(0), c.form)) },
			del: func(c *call) (any, error) { return gone(r.Delete(c.caller, c.arg(0))) },
		},
		ops: s.machineOps(),
	}
	return []route{collection, nodes, item}
}

// listMachines takes time for each machine in the answer.
func (s *Server) listMachines(c *call) (any, error) {
	docs, err := s.region.List(c.caller, c.query)
	if err != nil {
		return nil, err
	}
	if err := s.region.Clock().Sleep(c.ctx, time.Duration(len(docs))*s.listCost); err != nil {
		return nil, err
	}
	return docs, nil
}

// emptyDetails is the BSON document {lldp: "", lshw: ""} with binary values.
var emptyDetails = []byte("\x1b\x00\x00\x00\x05lldp\x00\x00\x00\x00\x00\x00\x05lshw\x00\x00\x00\x00\x00\x00\x00")

func (s *Server) machineOps() map[string]verb {
	r := s.region
	doc := func(f func(c *call, id string) (*region.MachineDoc, error)) verb {
		return verb{post, func(c *call) (any, error) { return value(f(c, c.arg(0))) }}
	}
	annotate := doc(func(c *call, id string) (*region.MachineDoc, error) { return r.SetAnnotations(c.caller, id, c.form) })
	return map[string]verb{
		"commission": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Commission(c.ctx, c.caller, id, c.form)
		}),
		"deploy": doc(func(c *call, id string) (*region.MachineDoc, error) { return r.Deploy(c.caller, id, c.form) }),
		"release": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Release(c.ctx, c.caller, id, c.form)
		}),
		"abort": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Abort(c.ctx, c.caller, id, c.form)
		}),
		"mark_broken": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.MarkBroken(c.ctx, c.caller, id, c.form)
		}),
		"mark_fixed": doc(func(c *call, id string) (*region.MachineDoc, error) { return r.MarkFixed(c.caller, id, c.form) }),
		"override_failed_testing": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.OverrideFailedTesting(c.caller, id, c.form)
		}),
		"test": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Test(c.ctx, c.caller, id, c.form)
		}),
		"power_on": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.PowerOn(c.ctx, c.caller, id, c.form)
		}),
		"power_off": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.PowerOff(c.ctx, c.caller, id, c.form)
		}),
		"rescue_mode": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Rescue(c.ctx, c.caller, id, true)
		}),
		"exit_rescue_mode": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.Rescue(c.ctx, c.caller, id, false)
		}),
		"lock": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.Lock(c.caller, id, c.form.Get("comment"))
		}),
		"unlock": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.Unlock(c.caller, id, c.form.Get("comment"))
		}),
		"set_storage_layout": doc(func(c *call, id string) (
			*region.MachineDoc, error,
		) {
			return r.SetStorageLayout(c.caller, id, c.form)
		}),
		"set_workload_annotations": annotate,
		"set_owner_data":           annotate,
		"restore_storage_configuration": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.RestoreStorage(c.caller, id)
		}),
		"restore_networking_configuration": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.RestoreNetworking(c.caller, id, false)
		}),
		"restore_default_configuration": doc(func(c *call, id string) (*region.MachineDoc, error) {
			return r.RestoreNetworking(c.caller, id, true)
		}),
		"query_power_state": {get, func(c *call) (any, error) { return r.QueryPower(c.ctx, c.caller, c.arg(0)) }},
		"power_parameters":  {get, func(c *call) (any, error) { return r.PowerParameters(c.caller, c.arg(0)) }},
		"get_token":         {get, func(c *call) (any, error) { return r.MachineToken(c.caller, c.arg(0)) }},
		"details": {get, func(c *call) (any, error) {
			if _, err := r.Machine(c.caller, c.arg(0)); err != nil {
				return nil, err
			}
			return raw{"application/bson", emptyDetails}, nil
		}},
	}
}
