package allocation

import (
	"context"
	"fmt"

	"gpuaas/controlplane/internal/fleet/node"
	"gpuaas/controlplane/internal/rent/allocation/internal/allocationdb"
)

// chosenFacts are the facts of machines that tenants choose by.
var chosenFacts = []string{
	"gpu.vendor", "gpu.architecture", "gpu.driver_series", "compute.runtime", "fabric.type", "container.runtime",
}

// Choice is what nodes of a SKU in a region can be asked for.
type Choice struct {
	SKU          string   `json:"sku"`
	Region       string   `json:"region"`
	NodeLabels   []Option `json:"node_labels" nullable:"false" doc:"Labels that some of its nodes have."`
	Capabilities []Option `json:"capabilities" nullable:"false" doc:"Capabilities that some of its nodes have."`
}

// Option is a label or a capability, with the values that there are.
type Option struct {
	Key    string   `json:"key" example:"public/tier"`
	Values []string `json:"values" nullable:"false"`
}

// with adds a value. Those of one key come one after the other.
func with(list []Option, key, value string) []Option {
	if last := len(list) - 1; last >= 0 && list[last].Key == key {
		list[last].Values = append(list[last].Values, value)
		return list
	}
	return append(list, Option{Key: key, Values: []string{value}})
}

// Choices is what there is to choose from.
type Choices struct {
	Choices []Choice `json:"choices" nullable:"false"`
}

// Choices lists what tenants can ask for of the nodes that are in service. What of it
// can be had now, Explain says.
func (s *Service) Choices(ctx context.Context) (Choices, error) {
	out := Choices{Choices: []Choice{}}
	rows, err := allocationdb.New(s.db).Choices(ctx, allocationdb.ChoicesParams{
		Public: node.PublicLabels, Facts: chosenFacts,
	})
	if err != nil {
		return out, fmt.Errorf("read what can be asked for: %w", err)
	}
	for _, r := range rows {
		last := len(out.Choices) - 1
		if last < 0 || out.Choices[last].SKU != r.Sku || out.Choices[last].Region != r.Region {
			out.Choices = append(out.Choices, Choice{
				SKU: r.Sku, Region: r.Region, NodeLabels: []Option{}, Capabilities: []Option{},
			})
			last++
		}
		switch of := &out.Choices[last]; r.Kind {
		case "label":
			of.NodeLabels = with(of.NodeLabels, r.Key, r.Value)
		case "capability":
			of.Capabilities = with(of.Capabilities, r.Key, r.Value)
		}
	}
	return out, nil
}
