package controlplane

import "time"

// TerminalsConfig is how long interactive sessions on nodes last. Both the
// server and the agent enforce both limits.
type TerminalsConfig struct {
	IdleLimit  time.Duration `koanf:"idle_limit" doc:"a terminal in which nothing is typed or shown for so long is closed; 24h at most"`
	TotalLimit time.Duration `koanf:"total_limit" doc:"a terminal is closed after so long, whatever happens in it; 24h at most"`
}

func defaultTerminals() TerminalsConfig {
	return TerminalsConfig{IdleLimit: 15 * time.Minute, TotalLimit: 8 * time.Hour}
}

// The agent accepts no longer session.
const (
	minTerminalLimit = time.Second
	maxTerminalLimit = 24 * time.Hour
)

func (c TerminalsConfig) check(bad func(string, string, ...any)) {
	for key, limit := range map[string]time.Duration{
		"terminals.idle_limit":  c.IdleLimit,
		"terminals.total_limit": c.TotalLimit,
	} {
		if limit < minTerminalLimit || limit > maxTerminalLimit {
			bad(key, "%s is not between %s and %s", limit, minTerminalLimit, maxTerminalLimit)
		}
	}
}
