package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"gpuaas/sim/lab"
	"gpuaas/sim/lab/labweb"
	"gpuaas/sim/maas"
	"gpuaas/sim/maas/fleet"
	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
)

// What a lab has unless somebody asks for something else. A container is a
// whole system, so there are fewer of them.
const (
	labMachines    = 24
	labMachinesLXD = 3
	// labSpeed makes commissioning and deploying last some seconds: long enough
	// to be seen.
	labSpeed = 200
)

// openLab puts a simulated MAAS before the rack, so that its machines can be
// onboarded; nil where there is no rack.
func (u *up) openLab(r rack.Rack) (*lab.Lab, func(), error) {
	if u.speed <= 0 || u.machines < 0 {
		return nil, nil, errors.New("--hardware-speed is positive, and --machines is not negative")
	}
	if r == nil {
		return nil, func() {}, nil
	}
	log, err := os.OpenFile(filepath.Join(u.state, "logs", "lab.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open log of the lab: %w", err)
	}
	count := u.machines
	if count == 0 {
		count = labMachines
		if r.Kind() == rack.LXD {
			count = labMachinesLXD
		}
	}
	l, err := lab.Open(lab.Options{
		Rack: r, Folder: filepath.Join(u.state, "lab-"+u.rack), Log: slog.New(slog.NewTextHandler(log, nil)),
		Region: maas.Options{
			Control: "127.0.0.1:0", Fleet: fleet.Options{Machines: count, Stage: "new"}, SaveEvery: 200 * time.Millisecond,
			Careful: true,
			Timing:  region.Timing{Pace: region.PaceTriangular, Ranges: region.Faster(u.speed)},
		},
	})
	if err == nil {
		err = l.Record().Save(lab.RecordFile(u.state))
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("bring the lab up: %w", err), log.Close())
	}
	u.say("lab       %d machines behind MAAS at %s", l.Count(), l.URL)
	return l, func() {
		u.say("stopping the lab")
		if err := errors.Join(l.Close(), log.Close()); err != nil {
			u.say("could not stop the lab cleanly: %v", err)
		}
	}, nil
}

// onLoopback names the MAAS of the lab as one that sites may lead to although it
// is on this machine; nothing when it is not on loopback.
func onLoopback(maasURL string) []string {
	u, err := url.Parse(maasURL)
	if err != nil {
		return nil
	}
	to, err := netip.ParseAddrPort(u.Host)
	if err != nil || !to.Addr().IsLoopback() {
		return nil
	}
	return []string{to.String()}
}

// tryLab says how machines of the lab become nodes.
func (u *up) tryLab(l *lab.Lab) string {
	if l == nil {
		return ""
	}
	list := filepath.Join(u.state, "lab.csv")
	return fmt.Sprintf(`  bin/gpuaas sim site --state %s --csv %s
  bin/gpuaas onboard --csv %s --site lab --sku %s --watch
`, u.state, list, list, lab.SKU)
}

// labPages is what the console shows of the lab; nil where there is none.
func labPages(l *lab.Lab) http.Handler {
	if l == nil {
		return nil
	}
	return labweb.Handler(l)
}
