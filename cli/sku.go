package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
)

func (a *app) skuColumns() []column[apiclient.SkuView] {
	type sku = apiclient.SkuView
	return []column[sku]{
		{title: "SKU", text: func(v sku) string { return v.SkuId }},
		{title: "STATUS", text: func(v sku) string { return string(v.Status) }},
		{title: "NAME", text: func(v sku) string { return v.DisplayName }},
		{title: "VENDOR", text: func(v sku) string { return string(v.GpuVendor) }},
		{title: "GPUS", text: func(v sku) string { return strconv.Itoa(int(v.GpusTotal)) + " × " + v.GpuModel }},
		{title: "RENTED BY", text: func(v sku) string { return string(v.CapacityShape) }},
		{title: "COUNTS", text: func(v sku) string { return fmt.Sprint(v.AllowedCounts) }},
		{title: "GPU-HOUR", text: func(v sku) string {
			return fmt.Sprintf("%d.%02d %s", v.PriceMinor/100, v.PriceMinor%100, v.PriceCurrency)
		}},
		{title: "UPDATED", text: func(v sku) string { return a.when(v.UpdatedAt) }, detail: true},
		{title: "VERSION", text: func(v sku) string { return strconv.FormatInt(v.Version, 10) }, detail: true},
	}
}

func (a *app) skuCommand() *cobra.Command {
	return a.noun(noun{use: "sku", short: "Kinds of machines that can be rented", group: groupMachines},
		a.verb(verb{
			use: "list", short: "List the SKUs", aliases: []string{"ls"}, operations: []string{"list-skus"},
			flags: func(cmd *cobra.Command) action {
				status := cmd.Flags().String("status", "", "only those that are so: active or disabled")
				complete(cmd, "status", "active", "disabled")
				f := addListFlags(cmd, 0)
				return func(s *session, _ []string) error {
					return list(s, f, listing[apiclient.SkuView]{columns: a.skuColumns(), fetch: func(p page) (apiclient.Answer, error) {
						return s.api.ListSkusWithResponse(s.ctx, &apiclient.ListSkusParams{
							Cursor: p.cursor, PageSize: p.size, Status: givenAs[apiclient.ListSkusParamsStatus](s, "status", status),
						})
					}})
				}
			},
		}),
		a.verb(verb{
			use: "get SKU", short: "Show a SKU", args: exactly("SKU"), operations: []string{"get-sku"},
			run: func(s *session, args []string) error {
				return show(s, a.skuColumns())(s.api.GetSkuWithResponse(s.ctx, args[0]))
			},
		}),
		a.skuCreateCommand(), a.skuUpdateCommand(),
		a.verb(verb{
			use: "delete SKU", short: "Take a SKU out of the catalog; refused while nodes are of it", aliases: []string{"rm"}, args: exactly("SKU"), operations: []string{"delete-sku"},
			run: func(s *session, args []string) error {
				return done(s, "SKU %s is deleted", args[0])(s.api.DeleteSkuWithResponse(s.ctx, args[0], &apiclient.DeleteSkuParams{}))
			},
		}),
	)
}

type skuFlags struct {
	name, vendor, model, shape, currency string
	gpus                                 int32
	counts                               []int32
	price                                int64
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
	complete(cmd, "vendor", "nvidia", "amd", "intel", "other", "none")
	complete(cmd, "rented-by", "node", "slice")
	return v
}

func (a *app) skuCreateCommand() *cobra.Command {
	return a.verb(verb{
		use: "create SKU", short: "Add a kind of machine to the catalog", args: exactly("SKU"), operations: []string{"create-sku"},
		example: "  gpuaas sku create b200-sxm-8g --name \"NVIDIA B200\" --vendor nvidia --model B200 --gpus 8 --rented-by node --counts 1 --price-minor 450",
		flags: func(cmd *cobra.Command) action {
			v := addSKUFlags(cmd)
			return func(s *session, args []string) error {
				if err := s.require("name", "vendor", "model", "gpus", "rented-by", "counts", "price-minor"); err != nil {
					return err
				}
				return show(s, a.skuColumns())(s.api.CreateSkuWithResponse(s.ctx, &apiclient.CreateSkuParams{}, apiclient.SkuNewBody{
					SkuId: args[0], DisplayName: v.name, GpuVendor: apiclient.SkuNewBodyGpuVendor(v.vendor), GpuModel: v.model, GpusTotal: v.gpus,
					CapacityShape: apiclient.SkuNewBodyCapacityShape(v.shape), AllowedCounts: v.counts, PriceMinor: v.price, PriceCurrency: v.currency,
				}))
			}
		},
	})
}

func (a *app) skuUpdateCommand() *cobra.Command {
	return a.verb(verb{
		use: "update SKU", short: "Change a SKU", args: exactly("SKU"), operations: []string{"get-sku", "update-sku"},
		flags: func(cmd *cobra.Command) action {
			v := addSKUFlags(cmd)
			status := cmd.Flags().String("status", "", "active, or disabled: not for new nodes")
			complete(cmd, "status", "active", "disabled")
			return func(s *session, args []string) error {
				if err := s.anything("name", "vendor", "model", "gpus", "rented-by", "counts", "price-minor", "currency", "status"); err != nil {
					return err
				}
				now, err := fetch[apiclient.SkuView](s.api.GetSkuWithResponse(s.ctx, args[0]))
				if err != nil {
					return err
				}
				return show(s, a.skuColumns())(s.api.UpdateSkuWithResponse(s.ctx, args[0], &apiclient.UpdateSkuParams{IfMatch: etag(now.Version)}, apiclient.SkuChange{
					DisplayName: given(s, "name", &v.name), GpuVendor: givenAs[apiclient.SkuChangeGpuVendor](s, "vendor", &v.vendor),
					GpuModel: given(s, "model", &v.model), GpusTotal: given(s, "gpus", &v.gpus),
					CapacityShape: givenAs[apiclient.SkuChangeCapacityShape](s, "rented-by", &v.shape), AllowedCounts: given(s, "counts", &v.counts),
					PriceMinor: given(s, "price-minor", &v.price), PriceCurrency: given(s, "currency", &v.currency),
					Status: givenAs[apiclient.SkuChangeStatus](s, "status", status),
				}))
			}
		},
	})
}
