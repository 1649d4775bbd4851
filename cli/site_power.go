package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

// powerFlags say how MAAS gets into a BMC.
type powerFlags struct{ file, kind, driver, cipher, privilege, node string }

// powerParameters are the flags that go with the file.
var powerParameters = []string{"power-type", "power-driver", "cipher-suite", "privilege-level", "redfish-node"}

func addPowerFlags(cmd *cobra.Command, file string) *powerFlags {
	v := &powerFlags{}
	f := cmd.Flags()
	f.StringVar(&v.file, "power-file", "", file)
	f.StringVar(&v.kind, "power-type", "", "how MAAS speaks to the BMC: ipmi or redfish (default ipmi)")
	f.StringVar(&v.driver, "power-driver", "", "IPMI: LAN_2_0 (lanplus) or LAN (default: as MAAS chooses)")
	f.StringVar(&v.cipher, "cipher-suite", "", "IPMI: 17, 12, 8 or 3 (default: as MAAS chooses)")
	f.StringVar(&v.privilege, "privilege-level", "", "IPMI: USER, OPERATOR or ADMIN (default: as MAAS chooses)")
	f.StringVar(&v.node, "redfish-node", "", "Redfish: which system of the BMC it is")
	_ = cmd.MarkFlagFilename("power-file") // defined above
	return v
}

// power is what the flags say of a BMC; nil when no file is named.
func (s *session) power(v *powerFlags) (*apiclient.SitePowerBody, error) {
	line, err := s.secretLine(v.file)
	if err != nil {
		return nil, err
	}
	if line == nil {
		for _, name := range powerParameters {
			if s.Cmd.Flags().Changed(name) {
				return nil, failure.Misuse(s.Cmd, "--%s is written together with --power-file", name)
			}
		}
		return nil, nil
	}
	user, pass, found := strings.Cut(*line, ":")
	if !found || user == "" || pass == "" {
		return nil, failure.New(failure.Usage, "secret_unreadable", "write it as one line: USER:PASSWORD",
			"%s does not hold BMC credentials", v.file)
	}
	return &apiclient.SitePowerBody{
		User: user, Pass: &pass,
		PowerType:      frame.GivenAs[apiclient.SitePowerBodyPowerType](s.Session, "power-type", &v.kind),
		PowerDriver:    frame.GivenAs[apiclient.SitePowerBodyPowerDriver](s.Session, "power-driver", &v.driver),
		CipherSuiteId:  frame.GivenAs[apiclient.SitePowerBodyCipherSuiteId](s.Session, "cipher-suite", &v.cipher),
		PrivilegeLevel: frame.GivenAs[apiclient.SitePowerBodyPrivilegeLevel](s.Session, "privilege-level", &v.privilege),
		NodeId:         frame.Given(s.Session, "redfish-node", &v.node),
	}, nil
}

// newOverride is an override by a selector with these credentials.
func newOverride(kind, value string, p apiclient.SitePowerBody) apiclient.SiteNewPowerOverrideBody {
	return apiclient.SiteNewPowerOverrideBody{
		SelectorType: apiclient.SiteNewPowerOverrideBodySelectorType(kind), SelectorValue: value, User: p.User,
		Pass: p.Pass, NodeId: p.NodeId,
		PowerType:      (*apiclient.SiteNewPowerOverrideBodyPowerType)(p.PowerType),
		PowerDriver:    (*apiclient.SiteNewPowerOverrideBodyPowerDriver)(p.PowerDriver),
		CipherSuiteId:  (*apiclient.SiteNewPowerOverrideBodyCipherSuiteId)(p.CipherSuiteId),
		PrivilegeLevel: (*apiclient.SiteNewPowerOverrideBodyPrivilegeLevel)(p.PrivilegeLevel),
	}
}
