package controlplane

import "net/url"

// RegistryConfig is the platform's own registry.
type RegistryConfig struct {
	URL          string `koanf:"url" doc:"registry that holds what tenants push, as https://host:port; empty: the platform has none"`
	User         string `koanf:"user" doc:"name that it lets the control plane in with, and nobody else"`
	PasswordFile string `koanf:"password_file" doc:"file that holds the password"`
	CAFile       string `koanf:"ca_file" doc:"CA of its certificate; empty: the system's"`
	CertFile     string `koanf:"cert_file" doc:"client certificate of the control plane, instead of a password or beside it"`
	KeyFile      string `koanf:"key_file" doc:"its private key"`
	Folder       string `koanf:"folder" doc:"folder on its file system, if that is on this machine: pushes end before it is full"`
}

func (c RegistryConfig) check(bad func(string, string, ...any)) {
	if c.URL == "" {
		return
	}
	badURL(bad, "registry.url", c.URL, "http", "https")
	if (c.User == "" || c.PasswordFile == "") && (c.CertFile == "" || c.KeyFile == "") {
		bad("registry.url", "needs registry.user and registry.password_file, or registry.cert_file and registry.key_file: "+
			"without a login, others reach what tenants push")
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
