package region

import (
	"bytes"
	"net/url"
	"testing"
	"time"

	"gpuaas/sim/maas/simclock"
)

// A region that was killed between recording an operation and switching the
// machine on goes on with it; one that cannot is ended by its time limit.
func TestAnOperationThatNobodySwitchedOnForGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		at, want Status
		mischief Mischief
	}{
		"commissioning":       {Commissioning, Ready, nil},
		"deploying":           {Deploying, Deployed, nil},
		"erasing":             {DiskErasing, Ready, nil},
		"deploying, it hangs": {Deploying, FailedDeployment, hangs{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Open(Options{Seed: 1, Clock: simclock.NewManual(time.Now())})
			defer r.Close()
			doc, err := r.Create(t.Context(), Caller{User: r.user("admin")}, url.Values{
				"architecture": {"amd64"}, "mac_addresses": {"52:54:00:00:00:01"}, "power_type": {"virsh"}, "hostname": {"a"},
				"commission": {"false"},
			})
			if err != nil {
				t.Fatal(err)
			}
			m := r.bySystem[doc.SystemID]
			m.Status, m.PowerState, m.Netboot = c.at, "off", true
			var saved bytes.Buffer
			if err := r.Save(&saved); err != nil {
				t.Fatal(err)
			}
			clock := simclock.NewManual(time.Now())
			again, err := Load(Options{Seed: 1, Clock: clock, Mischief: c.mischief}, &saved)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			clock.Advance(4 * time.Hour)
			if got := again.statusOf(again.bySystem[doc.SystemID]); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

// hangs lets every phase last for ever.
type hangs struct{ noMischief }

func (hangs) Phase(Ref, string) Fate { return Fate{Hang: true} }
