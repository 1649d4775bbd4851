package controlplane_test

import (
	"slices"
	"strings"
	"testing"

	"gpuaas/controlplane"
)

func TestTheConsoleLinksToTemporal(t *testing.T) {
	for address, problem := range map[string]string{
		"":                                 "",
		"http://127.0.0.1:8233":            "",
		"https://temporal.example.com/ui/": "",
		"temporal.example.com":             "not a URL with scheme http or https",
		"javascript:alert(1)":              "not a URL with scheme http or https",
		"ftp://temporal.example.com":       "not a URL with scheme http or https",
		"https://ada:canary@temporal.example.com/": "must not hold credentials",
	} {
		env := append(slices.Clone(valid(t)), "GPUAAS_CONSOLE_TEMPORAL_UI_URL="+address)
		cfg, problems := controlplane.Load(controlplane.Defaults(), "", env, nil)
		if problem == "" {
			if len(problems) != 0 || cfg.Console.TemporalUIURL != address {
				t.Errorf("%q: %q %v", address, cfg.Console.TemporalUIURL, problems)
			}
			continue
		}
		if len(problems) != 1 || !strings.Contains(problems[0].Error(), "console.temporal_ui_url: ") ||
			!strings.Contains(problems[0].Error(), problem) ||
			strings.Contains(problems[0].Error(), "canary") {
			t.Errorf("%q: %v", address, problems)
		}
	}
}
