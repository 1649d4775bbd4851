package region

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settingNames are in the order in which MAAS lists them.
var settingNames = []string{
	"maas_name", "theme", "kernel_opts", "enable_http_proxy", "maas_proxy_port", "use_peer_proxy", "prefer_v4_proxy",
	"http_proxy", "default_dns_ttl",
	"upstream_dns", "dnssec_validation", "maas_internal_domain", "dns_trusted_acl", "ntp_servers", "ntp_external_only",
	"allow_only_trusted_transfers",
	"remote_syslog", "maas_syslog_port", "network_discovery", "active_discovery_interval",
	"default_boot_interface_link_type", "default_osystem",
	"default_distro_series", "default_min_hwe_kernel", "enable_kernel_crash_dump", "default_storage_layout",
	"commissioning_distro_series",
	"enable_third_party_drivers", "windows_kms_host", "enable_disk_erasing_on_release", "disk_erase_with_secure_erase",
	"disk_erase_with_quick_erase",
	"boot_images_auto_import", "boot_images_no_proxy", "curtin_verbose", "force_v1_network_yaml", "enable_analytics",
	"completed_intro",
	"max_node_commissioning_results", "max_node_testing_results", "max_node_installation_results",
	"max_node_release_results",
	"subnet_ip_exhaustion_threshold_count", "release_notifications", "use_rack_proxy", "node_timeout",
	"prometheus_enabled", "prometheus_push_gateway",
	"prometheus_push_interval", "promtail_enabled", "promtail_port", "enlist_commissioning", "maas_auto_ipmi_user",
	"maas_auto_ipmi_user_privilege_level", "maas_auto_ipmi_k_g_bmc_key", "maas_auto_ipmi_cipher_suite_id",
	"maas_auto_ipmi_workaround_flags",
	"vcenter_server", "vcenter_username", "vcenter_password", "vcenter_datacenter", "hardware_sync_interval",
	"tls_cert_expiration_notification_enabled", "tls_cert_expiration_notification_interval", "session_length",
	"auto_vlan_creation",
}

func defaultSettings() map[string]any {
	return map[string]any{
		"maas_name": "sim", "theme": "", "kernel_opts": "", "enable_http_proxy": true, "maas_proxy_port": 8000,
		"default_dns_ttl":   30,
		"dnssec_validation": "auto", "maas_internal_domain": "maas-internal", "ntp_servers": "ntp.ubuntu.com",
		"ntp_external_only": false,
		"network_discovery": "enabled", "active_discovery_interval": 10800, "default_boot_interface_link_type": "auto",
		"default_osystem":       "ubuntu",
		"default_distro_series": "noble", "default_min_hwe_kernel": "", "enable_kernel_crash_dump": false,
		"default_storage_layout":      "flat",
		"commissioning_distro_series": "noble", "enable_third_party_drivers": true, "enable_disk_erasing_on_release": false,
		"disk_erase_with_secure_erase": true, "disk_erase_with_quick_erase": false, "boot_images_auto_import": true,
		"curtin_verbose":   true,
		"enable_analytics": false, "completed_intro": true, "max_node_commissioning_results": 10,
		"max_node_testing_results":      10,
		"max_node_installation_results": 3, "max_node_release_results": 3, "node_timeout": 30, "enlist_commissioning": true,
		"maas_auto_ipmi_user": "maas", "maas_auto_ipmi_user_privilege_level": "ADMIN", "maas_auto_ipmi_cipher_suite_id": "3",
		"hardware_sync_interval": "15m", "session_length": 1209600, "auto_vlan_creation": true, "release_notifications": true,
		"use_rack_proxy": true,
	}
}

func unknownSetting(name string) *RefusalError {
	return bareFieldError(name, fmt.Sprintf("%s is not a valid config setting (valid settings are: %s).", name,
		strings.Join(settingNames, ", ")))
}

// Setting returns the value of a setting. One that was never set is null.
func (r *Region) Setting(name string) (any, error) {
	if name == "" {
		return nil, badRequest("No provided name!")
	}
	if !slices.Contains(settingNames, name) {
		return nil, unknownSetting(name)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state.Settings[name], nil
}

// SetSetting changes a setting. Only administrators may do that.
func (r *Region) SetSetting(c Caller, name, value string, given bool) error {
	switch {
	case c.User == nil || !c.User.Admin:
		return adminOnly()
	case name == "":
		return badRequest("No provided name!")
	case !given:
		return badRequest("No provided value!")
	case !slices.Contains(settingNames, name):
		return unknownSetting(name)
	}
	v, err := parseSetting(name, value)
	if err != nil {
		return err
	}
	r.change(func() {
		r.state.Settings[name] = v
		if v == nil {
			delete(r.state.Settings, name)
		}
	})
	return nil
}

func parseSetting(name, value string) (any, error) {
	switch name {
	case "hardware_sync_interval":
		if _, ok := parseInterval(value); !ok {
			return nil, fieldError(name, fmt.Sprintf(
				"'%s' is not a valid interval. Only 'h|hr|hour|hours, m|min|minute|minutes.s|sec|second|seconds' are valid units",
				value))
		}
		return value, nil
	case "upstream_dns":
		var list []string
		for _, s := range strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ' ' }) {
			if _, err := netip.ParseAddr(s); err != nil {
				return nil, fieldError(name, fmt.Sprintf("Invalid IP address: %s; provide a list of space-separated IP addresses",
					s))
			}
			list = append(list, s)
		}
		if len(list) == 0 {
			return nil, nil //nolint:nilnil // an emptied list is stored as null
		}
		return strings.Join(list, " "), nil
	}
	switch defaultSettings()[name].(type) {
	case bool:
		return strings.EqualFold(value, "true"), nil
	case int:
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, fieldError(name, "Enter a whole number.")
		}
		return n, nil
	}
	return value, nil
}

var intervalForm = regexp.MustCompile(
	`^(?:(\d+)\s*(?:h|hr|hour|hours))?\s*(?:(\d+)\s*(?:m|min|minute|minutes))?\s*(?:(\d+)\s*(?:s|sec|second|seconds))?$`)

func parseInterval(s string) (time.Duration, bool) {
	m := intervalForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil || strings.TrimSpace(s) == "" {
		return 0, false
	}
	var d time.Duration
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.Atoi(m[i+1])
		if err != nil || n > 1_000_000 {
			return 0, false
		}
		d += time.Duration(n) * unit
	}
	return d, d > 0
}

func (r *Region) text(name string) string {
	s, _ := r.state.Settings[name].(string)
	return s
}

func (r *Region) flag(name string) bool {
	b, _ := r.state.Settings[name].(bool)
	return b
}

func (r *Region) number(name string) int {
	switch v := r.state.Settings[name].(type) {
	case int:
		return v
	case float64: // read back from a file
		return int(v)
	case json.Number:
		n, err := v.Int64()
		if err == nil {
			return int(n)
		}
	}
	return 0
}
