package operation

import (
	"fmt"
	"testing"

	"gpuaas/contract/agentwire"
)

// port lays out a port as the kernel shows it.
func (b *bench) port(device, state, layer, rate, gid, kind string) {
	at := fmt.Sprintf("/sys/class/infiniband/%s/ports/1/", device)
	b.Write(at+"state", state+"\n")
	b.Write(at+"phys_state", "5: LinkUp\n")
	b.Write(at+"link_layer", layer+"\n")
	b.Write(at+"rate", rate+"\n")
	b.Write(at+"gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n")
	b.Write(at+"gids/1", gid+"\n")
	b.Write(at+"gid_attrs/types/1", kind+"\n")
}

func TestTheFabricIsReadFromTheKernel(t *testing.T) {
	const routable, local = "0000:0000:0000:0000:0000:ffff:0a00:0001", "fe80:0000:0000:0000:5054:00ff:fe12:3456"
	b := newBench(t)
	look := func(with string) agentwire.StepOutcome {
		t.Helper()
		return b.one(agentwire.StepNetworkFabricVerify, with)
	}
	wantOutcome(t, look(`{}`), agentwire.StepSucceeded, false) // nothing is asked for
	wantFailure(t, look(`{"minimum_ports":1}`), "link_down", agentwire.FailurePermanent)
	b.port("mlx5_0", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)", local, "IB/RoCE v1")
	b.port("mlx5_1", "4: ACTIVE", "Ethernet", "200 Gb/sec (4X HDR)", routable, "RoCE v2")
	b.port("mlx5_2", "1: DOWN", "Ethernet", "2.5 Gb/sec (1X SDR)", local, "RoCE v2")
	o := look(`{"devices":["mlx5_0","mlx5_1"],"minimum_gbps":200,"require_roce_v2":true}`)
	wantOutcome(t, o, agentwire.StepSucceeded, false)
	out := outputOf[agentwire.NetworkFabricResult](t, o)
	if len(out.Ports) != 3 || out.Ports[0].Mbps != 400_000 || out.Ports[1].GIDs != 1 || !out.Ports[1].RoCEv2 ||
		out.Ports[2].State != "DOWN" || out.Ports[2].Mbps != 2500 {
		t.Errorf("%+v", out.Ports)
	}
	wantOutcome(t, look(`{"minimum_ports":2}`), agentwire.StepSucceeded, false)
	for with, code := range map[string]string{
		`{}`:                     "link_down",
		`{"devices":["mlx5_9"]}`: "device_missing",
		`{"devices":["mlx5_1"],"minimum_gbps":400}`:          "slow_link",
		`{"devices":["mlx5_1"],"link_layer":"InfiniBand"}`:   "wrong_link_layer",
		`{"minimum_ports":3}`:                                "link_down",
		`{"devices":["mlx5_2"]}`:                             "link_down",
		`{"minimum_ports":1,"interfaces":[{"name":"eth9"}]}`: "device_missing",
	} {
		wantFailure(t, look(with), code, agentwire.FailurePermanent)
	}
	b.port("mlx5_1", "4: ACTIVE", "Ethernet", "200 Gb/sec (4X HDR)", local, "RoCE v2")
	wantFailure(t, look(`{"devices":["mlx5_1"],"require_roce_v2":true}`), "no_gid", agentwire.FailurePermanent)
	for name, value := range map[string]string{"operstate": "up", "speed": "25000", "mtu": "9000", "carrier": "1"} {
		b.Write("/sys/class/net/eth0/"+name, value+"\n")
	}
	wantOutcome(t, look(`{"minimum_ports":2,"interfaces":[{"name":"eth0","minimum_mbps":25000,"mtu":9000}]}`),
		agentwire.StepSucceeded, false)
	wantFailure(t, look(`{"minimum_ports":2,"interfaces":[{"name":"eth0","mtu":1500}]}`), "wrong_mtu", agentwire.FailurePermanent)
	b.Write("/sys/class/net/eth0/carrier", "0\n")
	wantFailure(t, look(`{"minimum_ports":2,"interfaces":[{"name":"eth0"}]}`), "link_down", agentwire.FailurePermanent)
}
