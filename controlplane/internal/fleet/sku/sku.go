package sku

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"gpuaas/contract/currency"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/fleet/price"
)

// Vendor is who makes the GPUs.
type Vendor string

// The vendors.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
	Intel  Vendor = "intel"
	Other  Vendor = "other"
	None   Vendor = "none"
)

// Shape is the unit in which capacity is rented.
type Shape string

// The shapes: a whole machine, or some of its GPUs.
const (
	WholeNode Shape = "node"
	Slice     Shape = "slice"
)

// Status says whether new machines may have a SKU.
type Status string

// The statuses.
const (
	Active   Status = "active"
	Disabled Status = "disabled"
)

var statuses = []Status{Active, Disabled}

// SKU is one kind of machine.
type SKU struct {
	ID string
	Terms
	Status               Status
	Version              int64
	CreatedAt, UpdatedAt time.Time
}

// Terms are what a SKU offers.
type Terms struct {
	DisplayName   string  `json:"display_name" minLength:"1" maxLength:"100" example:"NVIDIA H200 SXM, whole node"`
	GPUVendor     Vendor  `json:"gpu_vendor" enum:"nvidia,amd,intel,other,none"`
	GPUModel      string  `json:"gpu_model" minLength:"1" maxLength:"100" example:"H200"`
	GPUsTotal     int32   `json:"gpus_total" minimum:"0" maximum:"64" doc:"GPUs of one machine of this kind." example:"8"`
	CapacityShape Shape   `json:"capacity_shape" enum:"node,slice" doc:"node: rented whole; slice: rented by the GPU."`
	AllowedCounts []int32 `json:"allowed_counts" nullable:"false" minItems:"1" maxItems:"64" doc:"How many units one request may ask for: GPUs of a slice, machines otherwise." example:"[1]"`
	PriceMinor    int64   `json:"price_minor" minimum:"0" maximum:"1000000000000" doc:"Price of one GPU for one hour, in minor units of the currency." example:"350"`
	PriceCurrency string  `json:"price_currency" pattern:"^[A-Z]{3}$" example:"USD"`

	UserAccessOnly bool `json:"user_access_only,omitempty" doc:"Nobody can have root on machines of this kind."`

	Hardware Hardware `json:"hardware,omitzero" required:"false" doc:"What a machine of this kind has at least besides its GPUs; for onboardings that accept only matching hardware."`
}

// Hardware is what a machine has at least; zero asks for nothing.
type Hardware struct {
	MemoryGiB int32 `json:"memory_gib,omitempty" minimum:"0" maximum:"1048576" doc:"Memory, in GiB." example:"2048"`
	Disks     int32 `json:"disks,omitempty" minimum:"0" maximum:"1000" doc:"Disks, the one with the system among them." example:"10"`
	NICs      int32 `json:"nics,omitempty" minimum:"0" maximum:"1000" doc:"Network interfaces." example:"10"`
}

// Change describes the change of a SKU. Nil fields stay as they are.
type Change struct {
	DisplayName   *string   `json:"display_name,omitempty" minLength:"1" maxLength:"100"`
	GPUVendor     *Vendor   `json:"gpu_vendor,omitempty" enum:"nvidia,amd,intel,other,none"`
	GPUModel      *string   `json:"gpu_model,omitempty" minLength:"1" maxLength:"100"`
	GPUsTotal     *int32    `json:"gpus_total,omitempty" minimum:"0" maximum:"64" doc:"GPUs of one machine of this kind. It cannot be changed while nodes are of the SKU: tenants pay by it."`
	CapacityShape *Shape    `json:"capacity_shape,omitempty" enum:"node,slice"`
	AllowedCounts *[]int32  `json:"allowed_counts,omitempty" nullable:"false" minItems:"1" maxItems:"64" example:"[1]"`
	PriceMinor    *int64    `json:"price_minor,omitempty" minimum:"0" maximum:"1000000000000"`
	PriceCurrency *string   `json:"price_currency,omitempty" pattern:"^[A-Z]{3}$" example:"USD"`
	Hardware      *Hardware `json:"hardware,omitempty" doc:"What a machine of this kind has at least besides its GPUs."`

	UserAccessOnly *bool `json:"user_access_only,omitempty" doc:"Nobody can have root on machines of this kind; what is rented stays as it is."`

	Status *Status `json:"status,omitempty" doc:"A disabled SKU keeps its nodes and gets no new ones."`
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

func (c Change) applied(to SKU) (SKU, error) {
	set(&to.DisplayName, c.DisplayName)
	set(&to.GPUVendor, c.GPUVendor)
	set(&to.GPUModel, c.GPUModel)
	set(&to.GPUsTotal, c.GPUsTotal)
	set(&to.CapacityShape, c.CapacityShape)
	set(&to.AllowedCounts, c.AllowedCounts)
	set(&to.PriceMinor, c.PriceMinor)
	set(&to.PriceCurrency, c.PriceCurrency)
	set(&to.Hardware, c.Hardware)
	set(&to.Status, c.Status)
	set(&to.UserAccessOnly, c.UserAccessOnly)
	terms, err := to.checked(nil)
	to.Terms = terms
	return to, err
}

var idForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// checked refuses terms that contradict each other, and sorts the counts.
func (t Terms) checked(fields []fault.Field) (Terms, error) {
	add := func(path, format string, args ...any) {
		fields = append(fields, fault.Field{Path: "body." + path, Message: fmt.Sprintf(format, args...)})
	}
	if n := len(t.DisplayName); n < 1 || n > 100 {
		add("display_name", "must be 1 to 100 characters long")
	}
	if n := len(t.GPUModel); n < 1 || n > 100 {
		add("gpu_model", "must be 1 to 100 characters long")
	}
	if !slices.Contains([]Vendor{NVIDIA, AMD, Intel, Other, None}, t.GPUVendor) {
		add("gpu_vendor", "is not a vendor")
	}
	if !slices.Contains([]Shape{WholeNode, Slice}, t.CapacityShape) {
		add("capacity_shape", "must be node or slice")
	}
	if t.GPUsTotal < 0 || t.GPUsTotal > 64 {
		add("gpus_total", "must be 0 to 64")
	}
	if (t.GPUVendor == None) != (t.GPUsTotal == 0) {
		add("gpus_total", "is 0 if and only if the vendor is none")
	}
	if t.PriceMinor < 0 || t.PriceMinor > price.Most {
		add("price_minor", "must be 0 to %d", int64(price.Most))
	}
	if !currency.Known(t.PriceCurrency) {
		add("price_currency", "must be the code of a currency, such as USD")
	}
	t.AllowedCounts = slices.Compact(slices.Sorted(slices.Values(t.AllowedCounts)))
	most := int32(1024)
	if t.CapacityShape == Slice {
		most = t.GPUsTotal
	}
	if len(t.AllowedCounts) == 0 || len(t.AllowedCounts) > 64 || t.AllowedCounts[0] < 1 ||
		t.AllowedCounts[len(t.AllowedCounts)-1] > most {
		add("allowed_counts", "must be 1 to 64 numbers from 1 to %d", most)
	}
	if len(fields) > 0 {
		return t, fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(fields...)
	}
	return t, nil
}

// Allows reports whether one request may ask for count units.
func (t Terms) Allows(count int32) bool { return slices.Contains(t.AllowedCounts, count) }

func notFound(id string) error {
	return fault.New(fault.NotFound, "not_found",
		"there is no such SKU").WithRemedy("gpuaas sku list shows those that there are; %q is not among them", id)
}
