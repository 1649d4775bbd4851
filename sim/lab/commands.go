package lab

import (
	"context"
	"io"

	"gpuaas/sim/rack"
)

// Exit statuses of commands that do not succeed.
const (
	failedCommand  = 1
	unknownCommand = 127
)

// command is what a command line does on a machine.
type command func(ctx context.Context, h *host, input []byte, output io.Writer) error

// commands are the exact lines that a control plane sends.
var commands = map[string]command{
	"cat | sudo -n install -D -m 0600 /dev/stdin " +
		syncCredentials: func(_ context.Context, h *host, input []byte, _ io.Writer) error {
		return h.seed(input)
	},
	"sudo -n systemctl enable maas_hardware_sync.timer": func(context.Context, *host, []byte,
		io.Writer,
	) error {
		return nil
	},
	"sudo -n systemctl restart maas_hardware_sync.timer": func(_ context.Context, h *host, _ []byte, _ io.Writer) error {
		h.restartTimer()
		return nil
	},
	// systemd does not wait for the service, and does not say how it ends.
	"sudo -n systemctl start --no-block maas_hardware_sync.service": func(_ context.Context, h *host, _ []byte,
		_ io.Writer,
	) error {
		if err := h.report(); err != nil {
			h.lab.log.Info("hardware sync failed", "machine", h.systemID, "error", err)
		}
		return nil
	},
	"sudo -n find " + rack.FirstBootFolder + " -maxdepth 1 -name '" + recordNames +
		"' -exec cat {} +": func(_ context.Context, h *host, _ []byte, output io.Writer) error {
		_, err := output.Write(h.disk.records(rack.FirstBootFolder))
		return err
	},
	"sudo -n systemd-run --collect --quiet /bin/sh " + rack.FirstBootFolder +
		"/run": func(ctx context.Context, h *host, _ []byte, _ io.Writer) error {
		return h.again(ctx)
	},
}
