package site

import (
	"fmt"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

// MaxAssignments is how many rows one request may hold.
const MaxAssignments = 5000

// AssignmentRow is the address of one RoCE interface.
type AssignmentRow struct {
	Hostname  string `json:"hostname" maxLength:"253" doc:"Name of the node." example:"c07u31"`
	Interface string `json:"interface" maxLength:"15" doc:"Name of the interface on the node." example:"enp28s0np0"`
	IPv4CIDR  string `json:"ipv4_cidr" maxLength:"18" doc:"Its address and the size of its network." example:"172.30.9.61/31"`
	MTU       int32  `json:"mtu,omitempty" doc:"MTU of the interface, 1280 to 9216; 0 or absent: what the operating system chooses." example:"9000"`
}

// Assignment is a stored row.
type Assignment struct {
	ID   id.RoCEAssignment
	Site id.Site
	AssignmentRow
	CreatedAt, UpdatedAt time.Time
}

// AssignmentFilter narrows a listing; nil does not narrow.
type AssignmentFilter struct {
	Hostname, Interface *string
}

// AssignmentKey is a position in the listing of assignments.
type AssignmentKey struct {
	Hostname  string `json:"h"`
	Interface string `json:"i"`
}

// Upserted says what a bulk upsert did.
type Upserted struct {
	Created, Updated, Unchanged int
}

// checkAssignments brings rows into their normal form, or names everything that
// is wrong with them, by row and field.
func checkAssignments(rows []AssignmentRow) ([]AssignmentRow, error) {
	var p problems
	if len(rows) == 0 || len(rows) > MaxAssignments {
		p.add("body.items", "must be 1 to %d rows", MaxAssignments)
		return nil, p.rejected()
	}
	out := make([]AssignmentRow, len(rows))
	interfaces, addresses := map[AssignmentKey]int{}, map[string]int{}
	for i, row := range rows {
		at := func(field string) string { return fmt.Sprintf("body.items[%d].%s", i, field) }
		var err error
		row.Hostname, err = normalHostname(row.Hostname)
		p.note(at("hostname"), err)
		row.Interface = strings.TrimSpace(row.Interface)
		p.matches(at("interface"), row.Interface, ifaceForm, ifaceRule)
		row.IPv4CIDR, err = normalCIDR(row.IPv4CIDR)
		p.note(at("ipv4_cidr"), err)
		if row.MTU != 0 {
			p.between(at("mtu"), row.MTU, 1280, 9216)
		}
		key := AssignmentKey{row.Hostname, row.Interface}
		if first, twice := interfaces[key]; twice && row.Hostname != "" {
			p.add(at("interface"), "is the interface of row %d again", first)
		} else {
			interfaces[key] = i
		}
		if first, twice := addresses[row.address()]; twice && row.IPv4CIDR != "" {
			p.add(at("ipv4_cidr"), "is the address of row %d again", first)
		} else {
			addresses[row.address()] = i
		}
		out[i] = row
	}
	return out, p.rejected()
}

func (r AssignmentRow) address() string {
	address, _, _ := strings.Cut(r.IPv4CIDR, "/")
	return address
}
