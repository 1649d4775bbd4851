package controlplane

import (
	"regexp"
	"time"
)

// hostSuffix is the form of a name that webhooks never call.
var hostSuffix = regexp.MustCompile(`^\.?([a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)

// WebhooksConfig is what webhooks may do.
type WebhooksConfig struct {
	AllowedNetworks   []string      `koanf:"allowed_networks" doc:"networks that webhooks may call although they are not public, such as 10.1.0.0/16"`
	ForbiddenNetworks []string      `koanf:"forbidden_networks" doc:"networks that webhooks never call, such as 198.51.100.0/24, even where allowed_networks holds them"`
	ForbiddenHosts    []string      `koanf:"forbidden_hosts" doc:"names that webhooks never call, with all names below them, such as gpuaas.example.com"`
	PlainHTTP         bool          `koanf:"plain_http" doc:"let webhooks have addresses without TLS"`
	DisableAfter      time.Duration `koanf:"disable_after" doc:"how long a webhook may do nothing but fail before it is disabled"`
}

func defaultWebhooks() WebhooksConfig { return WebhooksConfig{DisableAfter: 72 * time.Hour} }

func (c WebhooksConfig) check(bad func(string, string, ...any)) {
	if _, err := networks(c.AllowedNetworks); err != nil {
		bad("webhooks.allowed_networks", "%v", err)
	}
	if _, err := networks(c.ForbiddenNetworks); err != nil {
		bad("webhooks.forbidden_networks", "%v", err)
	}
	for _, host := range c.ForbiddenHosts {
		if !hostSuffix.MatchString(host) {
			bad("webhooks.forbidden_hosts", "%q is not a name such as gpuaas.example.com; networks belong in webhooks.forbidden_networks",
				host)
		}
	}
	if c.DisableAfter < time.Hour {
		bad("webhooks.disable_after", "%s is shorter than an hour", c.DisableAfter)
	}
}
