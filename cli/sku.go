package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/table"
	"gpuaas/contract/apiclient"
	"gpuaas/contract/currency"
)

func (a *app) skuColumns() []table.Column[apiclient.SkuView] {
	type sku = apiclient.SkuView
	return []table.Column[sku]{
		{Title: "SKU", Text: func(v sku) string { return v.SkuId }},
		{Title: "STATUS", Text: func(v sku) string { return string(v.Status) }},
		{Title: "NAME", Text: func(v sku) string { return v.DisplayName }},
		{Title: "VENDOR", Text: func(v sku) string { return string(v.GpuVendor) }},
		{Title: "GPUS", Text: func(v sku) string { return strconv.Itoa(int(v.GpusTotal)) + " × " + v.GpuModel }},
		{Title: "RENTED BY", Text: func(v sku) string { return string(v.CapacityShape) }},
		{Title: "COUNTS", Text: func(v sku) string { return fmt.Sprint(v.AllowedCounts) }},
		{Title: "GPU-HOUR", Text: func(v sku) string {
			return currency.Format(v.PriceMinor, v.PriceCurrency)
		}},
		{Title: "ROOT ACCESS", Text: func(v sku) string {
			return yesNo(v.UserAccessOnly == nil || !*v.UserAccessOnly)
		}, Detail: true},
		{Title: "HAS AT LEAST", Text: leastText, Detail: true},
		{Title: "UPDATED", Text: func(v sku) string { return a.When(v.UpdatedAt) }, Detail: true},
		{Title: "VERSION", Text: func(v sku) string { return strconv.FormatInt(v.Version, 10) }, Detail: true},
	}
}

// leastText is what a machine of a SKU has at least besides its GPUs.
func leastText(v apiclient.SkuView) string {
	if v.Hardware == nil {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		number *int32
		what   string
	}{
		{v.Hardware.MemoryGib, "GiB of memory"}, {v.Hardware.Disks, "disks"}, {v.Hardware.Nics, "network interfaces"},
	} {
		if p.number != nil && *p.number > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", *p.number, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

func (a *app) skuCommand() *cobra.Command {
	return a.noun(noun{use: "sku", short: "Kinds of machines that can be rented", group: groupMachines},
		a.verb(verb{
			use: "list", short: "List the SKUs", aliases: []string{"ls"}, operations: []string{"list-skus"},
			flags: func(cmd *cobra.Command) action {
				status := cmd.Flags().String("status", "", "only those with this status: active or disabled")
				frame.Complete(cmd, "status", apiclient.Words("SkuChange.status")...)
				f := listing.AddFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return listing.Print(s.Session, f, listing.Listing[apiclient.SkuView]{
						Columns: a.skuColumns(),
						Fetch: func(p listing.Page) (apiclient.Answer, error) {
							return s.API.ListSkusWithResponse(s.Ctx, &apiclient.ListSkusParams{
								Cursor: p.Cursor, PageSize: p.Size, Status: frame.GivenAs[apiclient.ListSkusParamsStatus](s.Session, "status",
									status),
							})
						},
					})
				}
			},
		}),
		a.verb(verb{
			use: "get SKU", short: "Show a SKU", args: frame.Exactly("SKU"), operations: []string{"get-sku"},
			run: func(s *session, args []string) error {
				return frame.Show(s.Session, a.skuColumns())(s.API.GetSkuWithResponse(s.Ctx, args[0]))
			},
		}),
		a.skuCreateCommand(), a.skuUpdateCommand(),
		a.verb(verb{
			use: "delete SKU", short: "Take a SKU out of the catalog; refused while nodes are of it", aliases: []string{"rm"},
			args: frame.Exactly("SKU"), operations: []string{"delete-sku"},
			run: func(s *session, args []string) error {
				return frame.Done(s.Session, "SKU %s is deleted", args[0])(
					s.API.DeleteSkuWithResponse(s.Ctx, args[0], &apiclient.DeleteSkuParams{}))
			},
		}),
	)
}

type skuFlags struct {
	memory, disks, nics                  int32
	name, vendor, model, shape, currency string
	gpus                                 int32
	counts                               []int32
	price                                int64
	userOnly                             bool
}

func addSKUFlags(cmd *cobra.Command) *skuFlags {
	v := &skuFlags{}
	f := cmd.Flags()
	f.StringVar(&v.name, "name", "", "what people read")
	f.StringVar(&v.vendor, "vendor", "", "maker of its GPUs: nvidia, amd, intel, other or none")
	f.StringVar(&v.model, "model", "", "model of its GPUs, such as H200")
	f.Int32Var(&v.gpus, "gpus", 0, "GPUs of one machine")
	f.StringVar(&v.shape, "rented-by", "", "node: rented whole; slice: by the GPU")
	f.Int32SliceVar(&v.counts, "counts", nil, "how many units one request may ask for, such as 1,2,4,8")
	f.Int64Var(&v.price, "price-minor", 0, "price of one GPU for one hour, in minor units such as cents")
	f.StringVar(&v.currency, "currency", "USD", "currency of the price")
	f.Int32Var(&v.memory, "memory-gib", 0, "memory that a machine has at least, for onboardings that require matching hardware")
	f.Int32Var(&v.disks, "disks", 0, "disks that a machine has at least, the one with the system among them")
	f.Int32Var(&v.nics, "nics", 0, "network interfaces that a machine has at least")
	f.BoolVar(&v.userOnly, "user-access-only", false, "nobody can have root on machines of this kind")
	frame.Complete(cmd, "vendor", apiclient.Words("SkuNewBody.gpu_vendor")...)
	frame.Complete(cmd, "rented-by", apiclient.Words("SkuNewBody.capacity_shape")...)
	return v
}

// hardware is what is asked of machines from now on; nil: as it was.
func (v *skuFlags) hardware(s *session, now *apiclient.SkuHardware) *apiclient.SkuHardware {
	memory, disks, nics := frame.Given(s.Session, "memory-gib", &v.memory), frame.Given(s.Session, "disks", &v.disks),
		frame.Given(s.Session, "nics", &v.nics)
	if memory == nil && disks == nil && nics == nil {
		return nil
	}
	var out apiclient.SkuHardware
	if now != nil {
		out = *now
	}
	return &apiclient.SkuHardware{
		MemoryGib: cmp.Or(memory, out.MemoryGib), Disks: cmp.Or(disks, out.Disks), Nics: cmp.Or(nics, out.Nics),
	}
}

func (a *app) skuCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create SKU", short: "Add a kind of machine to the catalog", args: frame.Exactly("SKU"),
		operations: []string{"create-sku"},
		example: "  gpuaas sku create b200-sxm-8g --name \"NVIDIA B200\" --vendor nvidia --model B200 --gpus 8 --rented-by " +
			"node --counts 1 --price-minor 450",
		flags: func(cmd *cobra.Command) action {
			v := addSKUFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.Require("name", "vendor", "model", "gpus", "rented-by", "counts", "price-minor"); err != nil {
					return err
				}
				return frame.Show(s.Session, a.skuColumns())(
					s.API.CreateSkuWithResponse(s.Ctx, &apiclient.CreateSkuParams{}, apiclient.SkuNewBody{
						SkuId: args[0], DisplayName: v.name, GpuVendor: apiclient.SkuNewBodyGpuVendor(v.vendor), GpuModel: v.model,
						GpusTotal:     v.gpus,
						CapacityShape: apiclient.SkuNewBodyCapacityShape(v.shape), AllowedCounts: v.counts, PriceMinor: v.price,
						PriceCurrency: v.currency, Hardware: v.hardware(s, nil),
						UserAccessOnly: frame.Given(s.Session, "user-access-only", &v.userOnly),
					}))
			}
		},
	})
}

func (a *app) skuUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update SKU", short: "Change a SKU", args: frame.Exactly("SKU"), operations: []string{"get-sku", "update-sku"},
		flags: func(cmd *cobra.Command) action {
			v := addSKUFlags(cmd)
			status := cmd.Flags().String("status", "", "active, or disabled: not for new nodes")
			frame.Complete(cmd, "status", apiclient.Words("SkuChange.status")...)
			return func(s *session, args []string) error {
				if err := s.Anything("name", "vendor", "model", "gpus", "rented-by", "counts", "price-minor", "currency",
					"status", "memory-gib", "disks", "nics", "user-access-only"); err != nil {
					return err
				}
				now, err := frame.Fetch[apiclient.SkuView](s.API.GetSkuWithResponse(s.Ctx, args[0]))
				if err != nil {
					return err
				}
				return frame.Show(s.Session, a.skuColumns())(
					s.API.UpdateSkuWithResponse(s.Ctx, args[0], &apiclient.UpdateSkuParams{IfMatch: frame.ETag(now.Version)},
						apiclient.SkuChange{
							DisplayName: frame.Given(s.Session, "name", &v.name),
							GpuVendor:   frame.GivenAs[apiclient.SkuChangeGpuVendor](s.Session, "vendor", &v.vendor),
							GpuModel:    frame.Given(s.Session, "model", &v.model), GpusTotal: frame.Given(s.Session, "gpus", &v.gpus),
							CapacityShape:  frame.GivenAs[apiclient.SkuChangeCapacityShape](s.Session, "rented-by", &v.shape),
							AllowedCounts:  frame.Given(s.Session, "counts", &v.counts),
							PriceMinor:     frame.Given(s.Session, "price-minor", &v.price),
							PriceCurrency:  frame.Given(s.Session, "currency", &v.currency),
							Hardware:       v.hardware(s, now.Hardware),
							UserAccessOnly: frame.Given(s.Session, "user-access-only", &v.userOnly),
							Status:         frame.GivenAs[apiclient.SkuChangeStatus](s.Session, "status", status),
						}))
			}
		},
	})
}
