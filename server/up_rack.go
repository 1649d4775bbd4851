package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"gpuaas/sim/rack"
	"gpuaas/sim/rack/rackcmd"
)

const noRack = "none"

func checkRack(name string) error {
	if !slices.Contains([]string{noRack, string(rack.LXD), string(rack.Process)}, name) {
		return fmt.Errorf("there is no rack %q: use lxd, process or none", name)
	}
	return nil
}

// openRack brings the virtual machines up and serves them to `gpuaas sim rack`;
// nil where none are wanted. It returns what to do in the end.
func (u *up) openRack(ctx context.Context) (r rack.Rack, closeRack func(), err error) {
	if u.rack == noRack {
		return nil, func() {}, nil
	}
	r, err = rack.Open(ctx, rack.Options{
		Kind: rack.Kind(u.rack), Folder: filepath.Join(u.state, "rack-"+u.rack),
		Progress: func(detail string) { u.say("rack      %s", detail) },
	})
	if err != nil {
		return nil, nil, fmt.Errorf("bring the virtual rack up: %w", err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := rackcmd.Serve(serving, rackcmd.Socket(u.state), r); err != nil {
			u.say("the virtual rack is not served: %v", err)
		}
	}()
	return r, func() {
		u.say("stopping the machines of the virtual rack")
		stop()
		<-served
		if err := r.Close(context.WithoutCancel(ctx)); err != nil {
			u.say("could not stop the virtual rack cleanly: %v", err)
		}
	}, nil
}

// nodeHost is where nodes find this machine. Process machines reach any address
// of it; those of LXD reach the bridge.
func nodeHost(ctx context.Context, r rack.Rack) string {
	if r == nil || r.Kind() == rack.Process {
		return outwardAddress(ctx)
	}
	return r.HostAddress()
}
