package controlplane

import "regexp"

// registryHost is the form of a host with or without a port.
var registryHost = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?$`)

// RegistriesConfig is which registries the control plane may ask about artifacts.
type RegistriesConfig struct {
	AllowedNetworks   []string `koanf:"allowed_networks" doc:"networks that hold registries although they are not public, such as 10.1.0.0/16"`
	ForbiddenNetworks []string `koanf:"forbidden_networks" doc:"networks in which no registry is asked, such as 198.51.100.0/24, even where allowed_networks holds them"`
	ForbiddenHosts    []string `koanf:"forbidden_hosts" doc:"names that are never asked as registries, with all names below them, such as gpuaas.example.com"`
	SendTo            []string `koanf:"send_to" doc:"hosts, as host:port, in allowed_networks to which registries may send for tokens and bytes; all others that they name must be public"`
	PlainHTTP         []string `koanf:"plain_http" doc:"registries, as host:port, that are asked without TLS"`
}

func (c RegistriesConfig) check(bad func(string, string, ...any)) {
	if _, err := networks(c.AllowedNetworks); err != nil {
		bad("registries.allowed_networks", "%v", err)
	}
	if _, err := networks(c.ForbiddenNetworks); err != nil {
		bad("registries.forbidden_networks", "%v", err)
	}
	for _, host := range c.ForbiddenHosts {
		if !hostSuffix.MatchString(host) {
			bad("registries.forbidden_hosts", "%q is not a name such as gpuaas.example.com; networks belong in "+
				"registries.forbidden_networks", host)
		}
	}
	hosts := func(name string, all []string) {
		for _, host := range all {
			if !registryHost.MatchString(host) {
				bad(name, "%q is not a host such as registry.local:5000", host)
			}
		}
	}
	hosts("registries.plain_http", c.PlainHTTP)
	hosts("registries.send_to", c.SendTo)
}
