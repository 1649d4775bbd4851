package allocation

import (
	"fmt"
	"slices"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

// CodeUnavailable is the code of a refusal for want of capacity.
const CodeUnavailable = "sku_unavailable"

// Reason is why a node cannot be let now, or that it can.
type Reason string

// reasons are the filters that nodes of a SKU go through, in their order, with what
// a tenant reads about the nodes that each of them takes out. The query Census
// gives each node the first that applies.
var reasons = []struct {
	Reason Reason
	Text   string
}{
	{"other_region", "are in another region"},
	{"other_pool", "are kept for something else"},
	{"labels_missing", "do not have the labels that were asked for"},
	{"capabilities_missing", "do not have the capabilities that were asked for"},
	{"not_reinstallable", "cannot be reinstalled, which root access needs afterwards"},
	{"rented", "are rented"},
	{"joining", "are being brought into service"},
	{"quarantined", "are quarantined"},
	{"offline", "do not answer"},
	{"leaving", "are being taken out of service"},
	{"being_cleaned", "are being cleaned, or wait for it"},
	{"on_hold", "are held by an operator"},
	{"silent", "have not been heard of lately"},
	{"drifted", "are not what they should be"},
	{"reserved", "are kept for reservations of others"},
	{"kept_for_waiting", "are kept for those who have waited longer"},
	{"claimed_concurrently", "are being given to somebody else at this moment"},
}

// free is what Census says of a node that can be let.
const free = "free"

// Filter is one reason, with how many nodes were left before and after it.
type Filter struct {
	Reason Reason `json:"reason"`
	Text   string `json:"text" doc:"What is so about the nodes that it takes out."`
	Before int32  `json:"before" doc:"Nodes that were left before it."`
	After  int32  `json:"after" doc:"Nodes that are left after it."`
}

// Capacity says how many nodes of a SKU a request could have now, and why not more.
type Capacity struct {
	SKU     string   `json:"sku"`
	Nodes   int32    `json:"nodes" doc:"Nodes of the SKU, in all."`
	Free    int32    `json:"free" doc:"Nodes that the request could have now."`
	Filters []Filter `json:"filters" nullable:"false" doc:"Every filter in its order, those that take nothing out included."`
	Cost    *Cost    `json:"cost,omitempty" doc:"What the request would cost. Left out: nothing would be charged."`
}

// capacity orders what was counted.
func capacity(sku string, counted map[Reason]int32) Capacity {
	c := Capacity{SKU: sku, Free: counted[free], Filters: make([]Filter, 0, len(reasons))}
	for _, n := range counted {
		c.Nodes += n
	}
	left := c.Nodes
	for _, r := range reasons {
		after := left - counted[r.Reason]
		c.Filters = append(c.Filters, Filter{Reason: r.Reason, Text: r.Text, Before: left, After: after})
		left = after
	}
	return c
}

// locked counts as given away what another request has locked at this moment.
func (c Capacity) locked(n int32) Capacity {
	c.Filters = slices.Clone(c.Filters)
	last := &c.Filters[len(c.Filters)-1]
	last.After -= n
	c.Free -= n
	return c
}

// lasting are the reasons that waiting does not change.
var lasting = []Reason{"other_region", "other_pool", "labels_missing", "capabilities_missing", "not_reinstallable"}

// ever counts the nodes that a request could have if all of them were free.
func (c Capacity) ever() int32 {
	n := c.Nodes
	for _, f := range c.Filters {
		if slices.Contains(lasting, f.Reason) {
			n -= f.Before - f.After
		}
	}
	return n
}

// taken says which filters take nodes out, in words.
func (c Capacity) taken() []string {
	var out []string
	for _, f := range c.Filters {
		if n := f.Before - f.After; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, f.Text))
		}
	}
	return out
}

// refusal is the fault of a request for which there is not enough.
func (c Capacity) refusal(asked int32) error {
	why := strings.Join(c.taken(), "; ")
	switch {
	case c.Nodes == 0:
		why = "nobody has brought any into service"
	case why == "":
		why = "there are no more"
	}
	f := fault.New(fault.Conflict, CodeUnavailable, "%d of %d nodes of %s can be had now, %d were asked for: %s", c.Free,
		c.Nodes, c.SKU, asked, why).
		WithRemedy("ask again later, or for less or something else; gpuaas allocation explain --project PROJECT --sku %s "+
			"shows this without asking for one", c.SKU)
	fields := make([]fault.Field, 0, len(c.Filters))
	for _, x := range c.Filters {
		if x.Before != x.After {
			fields = append(fields, fault.Field{
				Path:    "capacity." + string(x.Reason),
				Message: fmt.Sprintf("%d of %d %s", x.Before-x.After, x.Before, x.Text),
			})
		}
	}
	return f.WithFields(fields...)
}
