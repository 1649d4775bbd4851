package site

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"gpuaas/controlplane/internal/base/fault"
)

// problems collects the inputs that cannot be accepted.
type problems []fault.Field

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (p *problems) note(path string, err error) {
	if err != nil {
		p.add(path, "%v", err)
	}
}

func (p *problems) between(path string, v, least, most int32) {
	if v < least || v > most {
		p.add(path, "must be %d to %d", least, most)
	}
}

func (p *problems) matches(path, v string, form *regexp.Regexp, message string) {
	if !form.MatchString(v) {
		p.add(path, "%s", message)
	}
}

// rejected is the failure of inputs that can never be accepted; nil without any.
func (p *problems) rejected() error {
	if len(*p) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "validation_error", "the request has fields that cannot be accepted").WithFields(*p...)
}

// The forms of names; those of sites and profiles are checks of the database, too.
var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	ifaceForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
	userForm   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	archForm   = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9.+-]+$`)
	bundleForm = regexp.MustCompile(`^[!-~]{0,500}$`)
	imageForm  = regexp.MustCompile(`^[A-Za-z0-9._+-]{1,80}(/[A-Za-z0-9._+-]{1,80})?$`)
	labelForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

const (
	nameRule  = "must be 1 to 63 lower-case letters, digits and inner hyphens"
	ifaceRule = "must be the name of a network interface: 1 to 15 letters, digits, dots, hyphens and underscores"
)

// checked completes settings to their normal form, or says what is wrong with them.
func (s Settings) checked(p *problems) Settings {
	p.matches("body.region_code", s.RegionCode, nameForm, nameRule)
	address, err := normalURL(s.APIBaseURL)
	p.note("body.api_base_url", err)
	s.APIBaseURL = address
	p.note("body.ca_certificate", checkCA(s.CACertificate))
	s.AllowedNetworks = networks(p, "allowed_networks", s.AllowedNetworks)
	s.BMCNetworks = networks(p, "bmc_networks", s.BMCNetworks)
	p.matches("body.pxe_iface", s.PXEIface, ifaceForm, ifaceRule)
	p.between("body.pxe_vlan_vid", s.PXEVLANVID, 0, 4094)
	p.matches("body.node_pxe_iface", s.NodePXEIface, ifaceForm, ifaceRule)
	p.matches("body.deploy_user", s.DeployUser, userForm, "must be the name of a Linux account")
	p.matches("body.deploy_ssh_iface", s.DeploySSHIface, ifaceForm, ifaceRule)
	s.UpstreamDNSServers = slices.Clone(s.UpstreamDNSServers)
	if n := len(s.UpstreamDNSServers); n < 1 || n > 8 {
		p.add("body.upstream_dns_servers", "must be 1 to 8 addresses")
	}
	for i, text := range s.UpstreamDNSServers {
		addr, err := normalIP(text)
		p.note(fmt.Sprintf("body.upstream_dns_servers[%d]", i), err)
		s.UpstreamDNSServers[i] = addr
	}
	s.checkRequired(p)
	p.between("body.max_parallel", s.MaxParallel, 1, 1000)
	if !slices.Contains([]SyncHTTP{SyncPinned, SyncAccepted, SyncUndecided}, s.HWSyncHTTP) {
		p.add("body.hw_sync_http", "must be pinned or accepted")
	}
	return s
}

// notRoot refuses an account that no first boot makes and that no agent locks. A
// site that has it from before can still be changed otherwise.
func (p *problems) notRoot(user *string) {
	if user != nil && *user == "root" {
		p.add("body.deploy_user",
			"must not be root: it is locked when the agent has taken over; name an account of its own, such as hpcadmin")
	}
}

// normalURL is the address of a region in the one form that is stored. What it
// refuses is not quoted: the URL may hold a password.
func normalURL(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil || len(raw) > 500:
		return "", errors.New("must be a URL such as http://maas.example:5240/MAAS")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("must begin with http:// or https://")
	case u.User != nil || strings.Contains(u.Host, "@") || strings.Contains(u.Path, "@"):
		return "", errors.New("must not hold credentials")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(raw, "?#"):
		return "", errors.New("must not hold a query or a fragment")
	}
	host, err := normalHost(u)
	if err != nil {
		return "", err
	}
	path := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api/2.0"), "/")
	if path == "" {
		path = "/MAAS"
	}
	for _, part := range strings.Split(path[1:], "/") {
		if part == "" || strings.Trim(part, ".") == "" || strings.ContainsFunc(part, notPathRune) {
			return "", errors.New("has a path that MAAS cannot have")
		}
	}
	if !strings.HasSuffix(path, "/MAAS") {
		return "", errors.New("must end in /MAAS")
	}
	return u.Scheme + "://" + host + path, nil
}

func notPathRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._~-", r)
}

func normalHost(u *url.URL) (string, error) {
	name := u.Hostname()
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr.IsLinkLocalUnicast() {
			return "", errors.New("must not name that kind of address")
		}
		name = addr.Unmap().String()
	} else if name, err = normalHostname(name); err != nil {
		return "", errors.New("names no valid host")
	}
	port := u.Port()
	if port == "" {
		if strings.HasSuffix(u.Host, ":") {
			return "", errors.New("has an empty port")
		}
		if strings.Contains(name, ":") {
			return "[" + name + "]", nil
		}
		return name, nil
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port {
		return "", errors.New("has a port outside 1 to 65535")
	}
	return net.JoinHostPort(name, port), nil
}

func checkCA(text string) error {
	if text == "" {
		return nil
	}
	rest, n := []byte(text), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("holds a %s where only certificates belong", strings.ToLower(block.Type))
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errors.New("holds a certificate that cannot be read")
		}
		n++
	}
	if n == 0 || strings.TrimSpace(string(rest)) != "" {
		return errors.New("must be certificates in PEM, beginning with -----BEGIN CERTIFICATE-----")
	}
	return nil
}

func normalIP(text string) (string, error) {
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
		return "", errors.New("must be an IP address of one host")
	}
	return addr.Unmap().String(), nil
}

func normalMAC(text string) (string, error) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || slices.Equal(mac, make([]byte, 6)) {
		return "", errors.New("must be a MAC address of one interface, such as 52:54:00:12:34:56")
	}
	return mac.String(), nil
}

func normalHostname(text string) (string, error) {
	name := strings.ToLower(strings.TrimSpace(text))
	if len(name) > 253 {
		return "", errors.New("must be at most 253 characters")
	}
	for _, label := range strings.Split(name, ".") {
		if !labelForm.MatchString(label) {
			return "", errors.New("must be a host name: letters, digits and inner hyphens, parts divided by dots")
		}
	}
	return name, nil
}

// normalCIDR is the address of one interface with the size of its network.
func normalCIDR(text string) (string, error) {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || !prefix.Addr().Is4() {
		return "", errors.New("must be an IPv4 address with prefix length, such as 172.30.9.61/31")
	}
	addr := prefix.Addr()
	switch {
	case prefix.Bits() < 8:
		return "", errors.New("must be in a network of /8 or smaller")
	case addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr.IsLinkLocalUnicast():
		return "", errors.New("must be an address that a host can have")
	case prefix.Bits() < 31 && addr == prefix.Masked().Addr():
		return "", errors.New("is the address of the network, not of a host in it")
	case prefix.Bits() < 31 && !prefix.Contains(addr.Next()):
		return "", errors.New("is the broadcast address of the network")
	}
	return prefix.String(), nil
}

var (
	intervalForm  = regexp.MustCompile(`^([0-9]{1,6})\s*([a-z]+)$`)
	intervalUnits = map[string]time.Duration{
		"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
		"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
		"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	}
)

// ParseInterval reads an interval as MAAS writes it.
func ParseInterval(text string) (time.Duration, error) {
	m := intervalForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil || intervalUnits[m[2]] == 0 {
		return 0, errors.New("must be a number and a unit (h, m or s), such as 15m")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0, errors.New("must be a number and a unit (h, m or s), such as 15m")
	}
	return time.Duration(n) * intervalUnits[m[2]], nil
}

func normalInterval(text string) (string, error) {
	d, err := ParseInterval(text)
	if err != nil {
		return "", err
	}
	if d < time.Minute || d > 24*time.Hour {
		return "", errors.New("must be between 1m and 24h")
	}
	return strings.Join(strings.Fields(text), ""), nil
}

// readable refuses text that would disturb a terminal or a log.
func readable(text string, most int) error {
	if utf8.RuneCountInString(text) > most {
		return fmt.Errorf("must be at most %d characters", most)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("must not contain control characters")
	}
	return nil
}
