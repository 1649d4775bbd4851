package controlplane

import "time"

// WebhooksConfig is what webhooks may do.
type WebhooksConfig struct {
	AllowedNetworks []string      `koanf:"allowed_networks" doc:"networks that webhooks may call although they are not public, such as 10.1.0.0/16"`
	PlainHTTP       bool          `koanf:"plain_http" doc:"let webhooks have addresses without TLS"`
	DisableAfter    time.Duration `koanf:"disable_after" doc:"how long a webhook may do nothing but fail before it is disabled"`
}

func defaultWebhooks() WebhooksConfig { return WebhooksConfig{DisableAfter: 72 * time.Hour} }

func (c WebhooksConfig) check(bad func(string, string, ...any)) {
	if _, err := networks(c.AllowedNetworks); err != nil {
		bad("webhooks.allowed_networks", "%v", err)
	}
	if c.DisableAfter < time.Hour {
		bad("webhooks.disable_after", "%s is shorter than an hour", c.DisableAfter)
	}
}
