package controlplane

import (
	"net/url"
	"slices"
)

// ConsoleConfig is what the web console is told.
type ConsoleConfig struct {
	TemporalUIURL string `koanf:"temporal_ui_url" doc:"http or https address of the web interface of Temporal, for a link in the console; empty: no link"`
}

func (c ConsoleConfig) check(bad func(string, string, ...any)) {
	if c.TemporalUIURL == "" {
		return
	}
	u, err := url.Parse(c.TemporalUIURL)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme):
		bad("console.temporal_ui_url", "%q is not a URL with scheme http or https", redactedURL(c.TemporalUIURL))
	case u.User != nil:
		bad("console.temporal_ui_url", "must not hold credentials: whoever uses the console sees it")
	}
}
