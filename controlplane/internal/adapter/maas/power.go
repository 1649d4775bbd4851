package maas

import (
	"context"
	"fmt"
	"net/url"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// PowerOn switches a machine on. For an Allocated machine MAAS would start an
// installation instead, and for one that runs from memory a new one, so PowerOn
// refuses both.
func (c *Client) PowerOn(ctx context.Context, id, comment string) (Machine, error) {
	before, err := c.Machine(ctx, id)
	if err != nil {
		return Machine{}, err
	}
	if before.Status == StatusAllocated || (before.Status == StatusDeployed && before.EphemeralDeploy) {
		return before, fault.New(fault.Conflict, CodeWouldDeploy, "MAAS would start an installation if %s was powered on now",
			shown(before.Hostname)).
			WithRemedy("deploy the machine if that is intended")
	}
	return c.operate(ctx, post(id, "power_on", newForm().text("comment", comment)), id)
}

// PowerOff switches a machine off, at once or by asking its system to stop.
func (c *Client) PowerOff(ctx context.Context, id string, soft bool, comment string) (Machine, error) {
	mode := "hard"
	if soft {
		mode = "soft"
	}
	return c.operate(ctx, post(id, "power_off", newForm().text("stop_mode", mode).text("comment", comment)), id)
}

// QueryPower asks the BMC. It may take a minute and holds a slot all that time.
func (c *Client) QueryPower(ctx context.Context, id string) (PowerState, error) {
	state, err := fetch[struct {
		State PowerState `json:"state"`
	}](ctx, c, call{path: machinePath(id), op: "query_power_state", once: true, slow: true})
	if err != nil {
		return "", fmt.Errorf("query power of MAAS machine %s: %w", id, err)
	}
	return state.State, nil
}

// maxPowerIDs keeps the URL of a request within what proxies accept.
const maxPowerIDs = 200

// PowerOf reads how MAAS reaches the BMCs of machines, by system id. Without
// ids it reads all. It serves to find machines by the address of their BMC,
// because MAAS has no filter for that.
func (c *Client) PowerOf(ctx context.Context, ids ...string) (map[string]Power, error) {
	out := map[string]Power{}
	for first := true; first || len(ids) > 0; first = false {
		k := call{path: "machines/", op: "power_parameters", query: url.Values{}, private: true, slow: len(ids) == 0}
		if n := min(len(ids), maxPowerIDs); n > 0 {
			k.query["id"], ids = ids[:n], ids[n:]
		}
		raw, err := fetch[map[string]map[string]any](ctx, c, k)
		if err != nil {
			return nil, fmt.Errorf("read power parameters: %w", err)
		}
		for id, parameters := range raw {
			out[id] = powerFrom(parameters)
		}
	}
	return out, nil
}

func powerFrom(parameters map[string]any) Power {
	p := Power{Extra: map[string]string{}}
	for name, value := range parameters {
		text, ok := value.(string)
		switch {
		case !ok: // a list, such as the workarounds; not used here
		case name == "power_address":
			p.Address = text
		case name == "power_user":
			p.User = text
		case name == "power_pass":
			p.Password = redact.New(text)
		case name == "k_g":
			p.KG = redact.New(text)
		default:
			p.Extra[name] = text
		}
	}
	return p
}

// MachineToken is the token with which a machine authenticates to the metadata
// service of MAAS.
type MachineToken struct {
	Consumer redact.Secret
	Key      redact.Secret
	Secret   redact.Secret
}

// MachineToken reads the token of a machine. There is none before MAAS has
// first rendered its installation.
func (c *Client) MachineToken(ctx context.Context, id string) (MachineToken, error) {
	raw, err := fetch[*struct {
		Consumer string `json:"consumer_key"`
		Key      string `json:"token_key"`
		Secret   string `json:"token_secret"`
	}](ctx, c, call{path: machinePath(id), op: "get_token", private: true})
	if err != nil {
		return MachineToken{}, fmt.Errorf("read token of MAAS machine %s: %w", id, err)
	}
	if raw == nil || raw.Secret == "" {
		return MachineToken{}, fault.New(fault.NotFound, CodeNoMachineToken, "the machine has no token in MAAS yet").
			WithRemedy("wait until the deployment has begun")
	}
	return MachineToken{redact.New(raw.Consumer), redact.New(raw.Key), redact.New(raw.Secret)}, nil
}
