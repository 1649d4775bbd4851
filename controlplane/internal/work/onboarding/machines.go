package onboarding

import (
	"net/netip"
	"regexp"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

func clash(taken []InUse, at func(int) string) error {
	fields := make([]fault.Field, len(taken))
	for i, t := range taken {
		fields[i] = fault.Field{Path: at(t.Index) + t.Field, Message: t.Message}
	}
	return fault.New(fault.Conflict, "onboarding_conflict", "nothing was started: machines of the request are in use").
		WithRemedy("take those machines out of the request, or finish what uses them").WithFields(fields...)
}

var labelForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checked normalises the machines of a request, or says what is wrong with each
// of them.
func checked(machines []Request, at func(int) string) ([]Request, error) {
	out := make([]Request, len(machines))
	var fields []fault.Field
	for i, m := range machines {
		hostname, problem := normalHostname(m.Hostname)
		if problem != "" {
			fields = append(fields, fault.Field{Path: at(i) + "hostname", Message: problem})
		}
		address, problem := normalAddress(m.IPMIIP)
		if problem != "" {
			fields = append(fields, fault.Field{Path: at(i) + "ipmi_ip", Message: problem})
		}
		fields = append(fields, m.Rejected(at(i))...)
		out[i] = Request{Hostname: hostname, IPMIIP: address, Grouping: m.Grouping}
	}
	if len(fields) > 0 {
		return nil, fault.New(fault.Invalid, "validation_error",
			"the request has fields that cannot be accepted").WithFields(fields...)
	}
	return out, nil
}

func normalHostname(text string) (name, problem string) {
	name = strings.ToLower(strings.TrimSpace(text))
	const rule = "must be a host name: letters, digits and inner hyphens, parts divided by dots, 253 characters at most"
	if len(name) > 253 {
		return "", rule
	}
	for _, label := range strings.Split(name, ".") {
		if !labelForm.MatchString(label) {
			return "", rule
		}
	}
	return name, ""
}

func normalAddress(text string) (address, problem string) {
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil || addr.Zone() != "" {
		return "", "must be an IPv4 or IPv6 address"
	}
	addr = addr.Unmap()
	switch {
	case addr.IsUnspecified(), addr.IsLoopback(), addr.IsMulticast(), addr.IsLinkLocalUnicast(),
		addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "", "must be the address of one BMC that can be reached over the network: not loopback, link-local, multicast, broadcast or unspecified"
	}
	return addr.String(), ""
}
