package site

import (
	"regexp"
	"slices"

	"gpuaas/controlplane/internal/base/redact"
)

// PowerParameters are how MAAS speaks to a BMC, beside whom it logs on as. Empty ones
// are as MAAS has them by default.
type PowerParameters struct {
	PowerType      string `json:"power_type,omitempty" enum:"ipmi,redfish" doc:"How MAAS speaks to the BMC; ipmi by default."`
	PowerDriver    string `json:"power_driver,omitempty" enum:"LAN_2_0,LAN" doc:"IPMI only: LAN_2_0 is IPMI 2.0 (lanplus), LAN is IPMI 1.5."`
	CipherSuiteID  string `json:"cipher_suite_id,omitempty" enum:"3,8,12,17" doc:"IPMI only: the cipher suite that MAAS uses; 17 is the strongest, 3 what older BMCs know."`
	PrivilegeLevel string `json:"privilege_level,omitempty" enum:"USER,OPERATOR,ADMIN" doc:"IPMI only: as what the account logs on."`
	NodeID         string `json:"node_id,omitempty" maxLength:"64" doc:"Only with redfish: which system of the BMC it is; left out, the only one." example:"1"`
}

var nodeIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

func (p PowerParameters) check(found *problems, at string) {
	one := func(field, value string, of ...string) {
		if value != "" && !slices.Contains(of, value) {
			found.add(at+field, "must be one of %v", of)
		}
	}
	one("power_type", p.PowerType, "ipmi", "redfish")
	one("power_driver", p.PowerDriver, "LAN_2_0", "LAN")
	one("cipher_suite_id", p.CipherSuiteID, "3", "8", "12", "17")
	one("privilege_level", p.PrivilegeLevel, "USER", "OPERATOR", "ADMIN")
	found.matches(at+"node_id", p.NodeID, nodeIDForm, "must be the id of a system in Redfish")
	switch {
	case p.Type() == "redfish" && p.PowerDriver+p.CipherSuiteID+p.PrivilegeLevel != "":
		found.add(at+"power_type", "must be ipmi for power_driver, cipher_suite_id and privilege_level")
	case p.Type() == "ipmi" && p.NodeID != "":
		found.add(at+"power_type", "must be redfish for node_id")
	}
}

// Type is how MAAS speaks to the BMC.
func (p PowerParameters) Type() string {
	if p.PowerType == "" {
		return "ipmi"
	}
	return p.PowerType
}

// Extra are the parameters of the power type that are set, by the names that MAAS has
// for them.
func (p PowerParameters) Extra() map[string]string {
	out := map[string]string{}
	for name, value := range map[string]string{
		"power_driver": p.PowerDriver, "cipher_suite_id": p.CipherSuiteID, "privilege_level": p.PrivilegeLevel,
		"node_id": p.NodeID,
	} {
		if value != "" {
			out[name] = value
		}
	}
	return out
}

const fieldPowerType = "power_type"

// powerFrom reads what the secrets engine keeps. What was written before there were
// parameters has none.
func powerFrom(values map[string]redact.Secret) PowerCredentials {
	text := func(name string) string { return values[name].Reveal() }
	return PowerCredentials{
		User: text(fieldUser), Pass: values[fieldPass], PowerParameters: PowerParameters{
			PowerType: text(fieldPowerType), PowerDriver: text("power_driver"), CipherSuiteID: text("cipher_suite_id"),
			PrivilegeLevel: text("privilege_level"), NodeID: text("node_id"),
		},
	}
}

// parts are what a fingerprint is made of: parameters only where there are some, so
// that fingerprints of before stay.
func (c PowerCredentials) parts() []string {
	out := []string{c.User, c.Pass.Reveal()}
	if c.PowerParameters != (PowerParameters{}) {
		out = append(out, c.PowerType, c.PowerDriver, c.CipherSuiteID, c.PrivilegeLevel, c.NodeID)
	}
	return out
}
