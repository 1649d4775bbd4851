package maas

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// StorageLayout is how MAAS partitions a machine.
type StorageLayout struct {
	Name       string // flat, lvm, bcache, vmfs6, vmfs7, custom or blank
	RootDevice int64  // the id of a block device, never a path; 0: the boot disk
	BootSize   int64
	RootSize   int64
}

// SetStorageLayout replaces the layout of a Ready machine.
func (c *Client) SetStorageLayout(ctx context.Context, id string, l StorageLayout) (Machine, error) {
	f := newForm().text("storage_layout", l.Name).number("root_device", l.RootDevice).number("boot_size",
		l.BootSize).number("root_size", l.RootSize)
	return c.operate(ctx, post(id, "set_storage_layout", f), id)
}

// BlockDevices lists the disks of a machine.
func (c *Client) BlockDevices(ctx context.Context, id string) ([]BlockDevice, error) {
	list, err := fetch[[]BlockDevice](ctx, c, call{path: nodePath(id) + "blockdevices/"})
	if err != nil {
		return nil, fmt.Errorf("list disks of MAAS machine %s: %w", id, err)
	}
	return list, nil
}

// SetBootDisk chooses the disk from which a Ready machine boots. Set the layout
// again afterwards, because it stays on the old disk.
func (c *Client) SetBootDisk(ctx context.Context, id string, device int64) error {
	err := c.command(ctx, call{path: nodePath(id) + "blockdevices/" + number(device) + "/", op: "set_boot_disk"})
	if err != nil {
		return fmt.Errorf("set boot disk of MAAS machine %s: %w", id, err)
	}
	return nil
}

// Interfaces lists the network interfaces of a machine.
func (c *Client) Interfaces(ctx context.Context, id string) ([]Interface, error) {
	list, err := fetch[[]Interface](ctx, c, call{path: nodePath(id) + "interfaces/"})
	if err != nil {
		return nil, fmt.Errorf("list interfaces of MAAS machine %s: %w", id, err)
	}
	return list, nil
}

// LinkOptions say how to connect an interface to a subnet.
type LinkOptions struct {
	Mode           LinkMode
	SubnetID       int64
	IPAddress      string // with LinkStatic
	DefaultGateway bool
	Force          bool // drop other links, and move to the subnet's VLAN
}

// LinkSubnet connects an interface to a subnet.
func (c *Client) LinkSubnet(ctx context.Context, id string, iface int64, o LinkOptions) (Interface, error) {
	f := newForm().text("mode", string(o.Mode)).number("subnet", o.SubnetID).text("ip_address", o.IPAddress).
		option("default_gateway", o.DefaultGateway).option("force", o.Force)
	return c.interfaceOp(ctx, id, iface, "link_subnet", f)
}

// UnlinkSubnet removes a link from an interface.
func (c *Client) UnlinkSubnet(ctx context.Context, id string, iface, link int64) (Interface, error) {
	return c.interfaceOp(ctx, id, iface, "unlink_subnet", newForm().number("id", link))
}

// InterfaceAttributes are the settable attributes of an interface. Empty ones
// stay as they are.
type InterfaceAttributes struct {
	Name   string // at most 15 characters
	VLANID int64
	MTU    int64
}

// UpdateInterface changes an interface.
func (c *Client) UpdateInterface(ctx context.Context, id string, iface int64, a InterfaceAttributes) (
	Interface, error,
) {
	k := call{
		method: http.MethodPut, path: nodePath(id) + "interfaces/" + number(iface) + "/",
		form: newForm().text("name", a.Name).number("vlan", a.VLANID).number("mtu", a.MTU),
	}
	out, err := send[Interface](ctx, c, k)
	if err != nil {
		return out, fmt.Errorf("update interface %d of MAAS machine %s: %w", iface, id, err)
	}
	return out, nil
}

func (c *Client) interfaceOp(ctx context.Context, id string, iface int64, op string, f *form) (Interface, error) {
	out, err := send[Interface](ctx, c, call{path: nodePath(id) + "interfaces/" + number(iface) + "/", op: op, form: f})
	if err != nil {
		return out, fmt.Errorf("%s of interface %d of MAAS machine %s: %w", op, iface, id, err)
	}
	return out, nil
}

// Subnets lists the networks of the region.
func (c *Client) Subnets(ctx context.Context) ([]Subnet, error) {
	list, err := fetch[[]Subnet](ctx, c, call{path: "subnets/"})
	if err != nil {
		return nil, fmt.Errorf("list MAAS subnets: %w", err)
	}
	return list, nil
}

// NewSubnet describes a network that MAAS does not know yet.
type NewSubnet struct {
	CIDR   string
	Name   string // empty: the CIDR
	VLANID int64  // 0: the untagged VLAN of the first fabric
}

// CreateSubnet adds a network to MAAS. MAAS refuses one that overlaps with a
// known network, so the call may be repeated after an ambiguous failure.
func (c *Client) CreateSubnet(ctx context.Context, s NewSubnet) (Subnet, error) {
	out, err := send[Subnet](ctx, c, call{
		path: "subnets/",
		form: newForm().text("cidr", s.CIDR).text("name", s.Name).number("vlan", s.VLANID),
	})
	if err != nil {
		return out, fmt.Errorf("create MAAS subnet %s: %w", s.CIDR, err)
	}
	return out, nil
}

// Fabrics lists the fabrics of the region and their VLANs.
func (c *Client) Fabrics(ctx context.Context) ([]Fabric, error) {
	list, err := fetch[[]Fabric](ctx, c, call{path: "fabrics/"})
	if err != nil {
		return nil, fmt.Errorf("list MAAS fabrics: %w", err)
	}
	return list, nil
}

// VLANs lists the VLANs of a fabric.
func (c *Client) VLANs(ctx context.Context, fabric int64) ([]VLAN, error) {
	list, err := fetch[[]VLAN](ctx, c, call{path: "fabrics/" + number(fabric) + "/vlans/"})
	if err != nil {
		return nil, fmt.Errorf("list VLANs of MAAS fabric %d: %w", fabric, err)
	}
	return list, nil
}

func nodePath(id string) string { return "nodes/" + url.PathEscape(id) + "/" }
