package agent

import (
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/terminal"
)

// terminals makes the interactive sessions of the machine. They are dialled
// under the identity of the node, and only towards its control plane.
func (a *Agent) terminals(host hostexec.Host) *terminal.Sessions {
	a.sessions = terminal.New(terminal.Config{
		Host: host, Accounts: terminal.HostAccounts{Host: host},
		Gateways: []string{a.config.API.Hostname(), a.config.Terminal.Hostname()},
		TLS:      a.client.TLS, Header: a.client.Header, Logger: a.o.Log,
	})
	return a.sessions
}

// closeTerminals ends the sessions in order; other programs of tenants go on.
func (a *Agent) closeTerminals() {
	if a.sessions != nil {
		a.sessions.CloseAll()
	}
}
