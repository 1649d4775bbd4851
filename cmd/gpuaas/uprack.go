package main

import (
	"context"
	"fmt"
	"path/filepath"

	"gpuaas/sim/rack"
	"gpuaas/sim/rack/rackcmd"
)

// openRack brings the virtual machines up and serves them to `gpuaas sim rack`.
// It returns where nodes find this machine, and what to do in the end.
func (u *up) openRack(ctx context.Context) (host string, closeRack func(), err error) {
	switch u.rack {
	case "none":
		return outwardAddress(ctx), func() {}, nil
	case string(rack.LXD), string(rack.Process):
	default:
		return "", nil, fmt.Errorf("there is no rack %q: use lxd, process or none", u.rack)
	}
	r, err := rack.Open(ctx, rack.Options{
		Kind: rack.Kind(u.rack), Folder: filepath.Join(u.state, "rack-"+u.rack), Progress: func(detail string) { u.say("rack      %s", detail) },
	})
	if err != nil {
		return "", nil, fmt.Errorf("bring the virtual rack up: %w", err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := rackcmd.Serve(serving, rackcmd.Socket(u.state), r); err != nil {
			u.say("the virtual rack is not served: %v", err)
		}
	}()
	closeRack = func() {
		stop()
		<-served
		if err := r.Close(context.WithoutCancel(ctx)); err != nil {
			u.say("could not stop the virtual rack cleanly: %v", err)
		}
	}
	if r.Kind() == rack.Process {
		return outwardAddress(ctx), closeRack, nil // its machines reach any address of this one
	}
	return r.HostAddress(), closeRack, nil
}
