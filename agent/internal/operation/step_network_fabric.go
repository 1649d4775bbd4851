package operation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gpuaas/contract/agentwire"
)

var _ = carries(agentwire.StepNetworkFabricVerify, func(m machine) Kind { return networkFabric{m} })

// networkFabric reads what the kernel says about the ports of the fabric.
type networkFabric struct{ machine }

// Check implements Kind.
func (h networkFabric) Check(_ context.Context, s *Step) (Look, error) {
	w, err := params[agentwire.NetworkFabricWith](s)
	if err != nil {
		return Look{}, err
	}
	out := agentwire.NetworkFabricResult{Ports: []agentwire.FabricPort{}, Interfaces: []agentwire.FabricInterface{}}
	if out.Ports, err = h.ports(); err != nil {
		return Look{}, err
	}
	code := h.judgePorts(w, &out)
	for _, i := range w.Interfaces {
		if bad := h.judgeInterface(i, &out); bad != "" && code == "" {
			code = bad
		}
	}
	if code != "" {
		f := fail(agentwire.FailurePermanent, code, strings.Join(out.Problems, "; "),
			"look at cables, switch and driver of the named ports", nil)
		f.Output = out
		return Look{}, f
	}
	return Look{Done: true, Output: out, Summary: fmt.Sprintf("%d ports and %d interfaces are as expected", len(out.Ports),
		len(out.Interfaces))}, nil
}

// Apply implements Kind.
func (h networkFabric) Apply(ctx context.Context, s *Step) (Result, error) {
	look, err := h.Check(ctx, s)
	return Result{Output: look.Output, Summary: look.Summary}, err
}

// fabric is where the kernel shows the devices.
const fabric = "/sys/class/infiniband"

// ports lists every port of every device.
func (h networkFabric) ports() ([]agentwire.FabricPort, error) {
	out := []agentwire.FabricPort{}
	devices, err := os.ReadDir(h.Host.Path(fabric))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list devices of the fabric: %w", err)
	}
	for _, d := range devices {
		ports, err := os.ReadDir(h.Host.Path(path.Join(fabric, d.Name(), "ports")))
		if err != nil {
			return nil, fmt.Errorf("list ports of %s: %w", d.Name(), err)
		}
		for _, p := range ports {
			port, err := h.port(d.Name(), p.Name())
			if err != nil {
				return nil, err
			}
			out = append(out, port)
		}
	}
	return out, nil
}

func (h networkFabric) port(device, name string) (agentwire.FabricPort, error) {
	at := path.Join(fabric, device, "ports", name)
	number, err := strconv.Atoi(name)
	if err != nil {
		return agentwire.FabricPort{}, fmt.Errorf("port of %s: %w", device, err)
	}
	p := agentwire.FabricPort{
		Device: device, Port: number,
		State: afterColon(h.text(at + "/state")), Physical: afterColon(h.text(at + "/phys_state")),
		LinkLayer: h.text(at + "/link_layer"), Mbps: rate(h.text(at + "/rate")),
	}
	gids, err := filepath.Glob(h.Host.Path(at + "/gids/*"))
	if err != nil {
		return p, fmt.Errorf("list addresses of %s: %w", device, err)
	}
	for _, g := range gids {
		index := filepath.Base(g)
		gid := h.text(at + "/gids/" + index)
		if strings.Trim(gid, "0:") == "" {
			continue
		}
		p.GIDs++
		// Addresses that begin with fe80 reach only the next switch.
		if h.text(at+"/gid_attrs/types/"+index) == "RoCE v2" && !strings.HasPrefix(gid, "fe80") {
			p.RoCEv2 = true
		}
	}
	return p, nil
}

// text is one line of a file of the kernel. It is empty if there is none.
func (h networkFabric) text(name string) string {
	raw, err := os.ReadFile(h.Host.Path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(raw), "?"))
}

// afterColon reads "4: ACTIVE".
func afterColon(s string) string {
	if _, after, found := strings.Cut(s, ":"); found {
		return strings.TrimSpace(after)
	}
	return s
}

// rate reads "400 Gb/sec (4X NDR)" and "2.5 Gb/sec (1X SDR)".
func rate(s string) int64 {
	f := strings.Fields(s)
	if len(f) < 2 || f[1] != "Gb/sec" {
		return 0
	}
	g, err := strconv.ParseFloat(f[0], 64)
	if err != nil || g < 0 || g > 1e6 {
		return 0
	}
	return int64(g * 1000)
}

// judgePorts compares the ports with what is expected.
func (h networkFabric) judgePorts(w *agentwire.NetworkFabricWith, out *agentwire.NetworkFabricResult) (code string) {
	note := func(c, format string, args ...any) {
		out.Problems = append(out.Problems, fmt.Sprintf(format, args...))
		if code == "" {
			code = c
		}
	}
	for _, want := range w.Devices {
		if !slices.ContainsFunc(out.Ports, func(p agentwire.FabricPort) bool { return p.Device == want }) {
			note("device_missing", "there is no device %s", want)
		}
	}
	active := 0
	for _, p := range out.Ports {
		if len(w.Devices) > 0 && !slices.Contains(w.Devices, p.Device) {
			continue
		}
		name := fmt.Sprintf("%s port %d", p.Device, p.Port)
		switch {
		case p.State != "ACTIVE":
			// A port that nobody plugged in is fine if enough others are active.
			if len(w.Devices) > 0 || w.MinimumPorts == 0 {
				note("link_down", "%s is %s (%s)", name, p.State, p.Physical)
			}
			continue
		case w.LinkLayer != "" && p.LinkLayer != w.LinkLayer:
			note("wrong_link_layer", "%s is %s, not %s", name, p.LinkLayer, w.LinkLayer)
		case p.Mbps < int64(w.MinimumGbps)*1000:
			note("slow_link", "%s has %d Mbit/s, not %d Gbit/s", name, p.Mbps, w.MinimumGbps)
		case w.RequireRoCEv2 && p.LinkLayer == "Ethernet" && !p.RoCEv2:
			note("no_gid", "%s has no routable address of RoCE v2", name)
		case p.GIDs == 0:
			note("no_gid", "%s has no address", name)
		default:
			active++
		}
	}
	if active < w.MinimumPorts {
		note("link_down", "%d ports are as expected, not %d", active, w.MinimumPorts)
	}
	return code
}

func (h networkFabric) judgeInterface(want agentwire.InterfaceWant, out *agentwire.NetworkFabricResult) (code string) {
	at := "/sys/class/net/" + want.Name
	number := func(name string) int64 {
		n, err := strconv.ParseInt(h.text(at+name), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	i := agentwire.FabricInterface{
		Name: want.Name, State: h.text(at + "/operstate"), Mbps: max(0, number("/speed")), MTU: int(number("/mtu")),
		Carrier: h.text(at+"/carrier") == "1",
	}
	out.Interfaces = append(out.Interfaces, i)
	problem := ""
	switch {
	case i.State == "":
		code, problem = "device_missing", "there is no interface "+want.Name
	case !i.Carrier:
		code, problem = "link_down", want.Name+" has no link"
	case i.Mbps < int64(want.MinimumMbps):
		code, problem = "slow_link", fmt.Sprintf("%s has %d Mbit/s, not %d", want.Name, i.Mbps, want.MinimumMbps)
	case want.MTU > 0 && i.MTU != want.MTU:
		code, problem = "wrong_mtu", fmt.Sprintf("%s has the MTU %d, not %d", want.Name, i.MTU, want.MTU)
	}
	if problem != "" {
		out.Problems = append(out.Problems, problem)
	}
	return code
}
