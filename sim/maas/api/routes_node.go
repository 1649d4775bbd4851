package api

import (
	"gpuaas/sim/maas/region"
)

// withID passes the number in the second argument of a path to a handler.
func withID(kind string, f func(c *call, id int) (any, error)) handler {
	return func(c *call) (any, error) {
		id, err := number(c.arg(1), kind)
		if err != nil {
			return nil, err
		}
		return f(c, id)
	}
}

func (s *Server) nodeRoutes() []route {
	r := s.region
	device := func(f func(c *call, id int) (any, error)) handler { return withID("BlockDevice", f) }
	return []route{
		{
			name: "blockdevices", path: path("/nodes/*/blockdevices/"),
			methods: map[string]handler{get: func(c *call) (any, error) { return list(r.BlockDevices(c.caller, c.arg(0))) }},
		},
		{
			name: "blockdevice", path: path("/nodes/*/blockdevices/*/"),
			methods: map[string]handler{get: device(func(c *call, id int) (
				any, error,
			) {
				return value(r.BlockDevice(c.caller, c.arg(0), id))
			})},
			ops: map[string]verb{
				"set_boot_disk": {post, device(func(c *call, id int) (
					any, error,
				) {
					return done(r.SetBootDisk(c.caller, c.arg(0), id))
				})},
				"add_tag": {post, device(func(c *call, id int) (any, error) {
					return value(r.TagBlockDevice(c.caller, c.arg(0), id, c.form.Get("tag"), true))
				})},
				"remove_tag": {post, device(func(c *call, id int) (any, error) {
					return value(r.TagBlockDevice(c.caller, c.arg(0), id, c.form.Get("tag"), false))
				})},
			},
		},
		{
			name: "interfaces", path: path("/nodes/*/interfaces/"),
			methods: map[string]handler{get: func(c *call) (any, error) { return list(r.Interfaces(c.caller, c.arg(0))) }},
		},
		s.interfaceRoute(),
		{
			name: "results", path: path("/nodes/*/results/"),
			methods: map[string]handler{get: func(c *call) (any, error) { return r.Results(c.caller, c.arg(0), c.query) }},
		},
		{
			name: "result", path: path("/nodes/*/results/*/"),
			methods: map[string]handler{get: func(c *call) (
				any, error,
			) {
				return r.Result(c.caller, c.arg(0), c.arg(1), c.query)
			}},
		},
	}
}

func (s *Server) interfaceRoute() route {
	r := s.region
	nic := func(f func(c *call, id int) (*region.InterfaceDoc, error)) handler {
		return withID("Interface", func(c *call, id int) (any, error) { return value(f(c, id)) })
	}
	return route{
		name: "interface", path: path("/nodes/*/interfaces/*/"),
		methods: map[string]handler{
			get: nic(func(c *call, id int) (*region.InterfaceDoc, error) { return r.Interface(c.caller, c.arg(0), id) }),
			put: nic(func(c *call, id int) (*region.InterfaceDoc, error) {
				return r.UpdateInterface(c.caller, c.arg(0), id, c.form)
			}),
		},
		ops: map[string]verb{
			"link_subnet": {post, nic(func(c *call, id int) (*region.InterfaceDoc, error) {
				return r.LinkSubnet(c.caller, c.arg(0), id, c.form)
			})},
			"unlink_subnet": {post, nic(func(c *call, id int) (
				*region.InterfaceDoc, error,
			) {
				return r.Unlink(c.caller, c.arg(0), id, c.form)
			})},
			"set_default_gateway": {post, nic(func(c *call, id int) (*region.InterfaceDoc, error) {
				return r.SetDefaultGateway(c.caller, c.arg(0), id, c.form)
			})},
			"disconnect": {post, nic(func(c *call, id int) (
				*region.InterfaceDoc, error,
			) {
				return r.Disconnect(c.caller, c.arg(0), id)
			})},
		},
	}
}

func (s *Server) networkRoutes() []route {
	r := s.region
	fabric := func(f func(c *call, id int) (any, error)) handler {
		return func(c *call) (any, error) {
			id, err := number(c.arg(0), "Fabric")
			if err != nil {
				return nil, err
			}
			return f(c, id)
		}
	}
	return []route{
		{name: "subnets", path: path("/subnets/"), methods: map[string]handler{
			get:  func(*call) (any, error) { return r.Subnets(), nil },
			post: func(c *call) (any, error) { return value(r.CreateSubnet(c.caller, c.form)) },
		}},
		{name: "subnet", path: path("/subnets/*/"), methods: map[string]handler{
			get: func(c *call) (any, error) { return value(r.Subnet(c.arg(0))) },
			del: func(c *call) (any, error) { return gone(r.DeleteSubnet(c.caller, c.arg(0))) },
		}},
		{name: "fabrics", path: path("/fabrics/"), methods: map[string]handler{
			get:  func(*call) (any, error) { return r.Fabrics(), nil },
			post: func(c *call) (any, error) { return value(r.CreateFabric(c.caller, c.form)) },
		}},
		{
			name: "fabric", path: path("/fabrics/*/"),
			methods: map[string]handler{get: fabric(func(_ *call, id int) (any, error) { return value(r.Fabric(id)) })},
		},
		{name: "vlans", path: path("/fabrics/*/vlans/"), methods: map[string]handler{
			get:  fabric(func(_ *call, id int) (any, error) { return list(r.VLANs(id)) }),
			post: fabric(func(c *call, id int) (any, error) { return value(r.CreateVLAN(c.caller, id, c.form)) }),
		}},
		{name: "vlan", path: path("/fabrics/*/vlans/*/"), methods: map[string]handler{
			get: fabric(withVID(func(_ *call, id, vid int) (any, error) { return value(r.VLAN(&id, vid)) })),
			put: fabric(withVID(func(c *call, id, vid int) (
				any, error,
			) {
				return value(r.UpdateVLAN(c.caller, &id, vid, c.form))
			})),
		}},
		{name: "vlan", path: path("/vlans/*/"), methods: map[string]handler{
			get: fabric(func(_ *call, id int) (any, error) { return value(r.VLAN(nil, id)) }),
			put: fabric(func(c *call, id int) (any, error) { return value(r.UpdateVLAN(c.caller, nil, id, c.form)) }),
		}},
	}
}

// withVID passes the tag in the path of a VLAN to a handler, beside the fabric.
func withVID(f func(c *call, fabric, vid int) (any, error)) func(c *call, fabric int) (any, error) {
	return func(c *call, fabric int) (any, error) {
		vid, err := number(c.arg(1), "VLAN")
		if err != nil {
			return nil, err
		}
		return f(c, fabric, vid)
	}
}
