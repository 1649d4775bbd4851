package controlplane

import "net/url"

// RegistryConfig is the platform's own registry.
type RegistryConfig struct {
	URL          string `koanf:"url" doc:"registry that holds what tenants push, as http(s)://host:port; empty: the platform has none"`
	User         string `koanf:"user" doc:"name that it lets the control plane in with, and nobody else"`
	PasswordFile string `koanf:"password_file" doc:"file that holds the password"`
	Folder       string `koanf:"folder" doc:"folder on its file system, if that is on this machine: pushes end before it is full"`
}

func (c RegistryConfig) check(bad func(string, string, ...any)) {
	if c.URL == "" {
		return
	}
	badURL(bad, "registry.url", c.URL, "http", "https")
	if c.User == "" || c.PasswordFile == "" {
		bad("registry.user", "must be set with registry.password_file: without a login, others reach what tenants push")
	}
}

// address is the URL; it was validated.
func (c RegistryConfig) address() *url.URL {
	u, err := url.Parse(c.URL)
	if err != nil {
		panic("controlplane: registry.url: " + err.Error())
	}
	return u
}
