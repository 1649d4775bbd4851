package site

import (
	"reflect"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// Status says whether something is to be used for new work.
type Status string

// The statuses of sites, profiles and overrides.
const (
	Active   Status = "active"
	Disabled Status = "disabled"
)

var statuses = []Status{Active, Disabled}

// Site is one MAAS region.
type Site struct {
	ID                      id.Site
	Name                    string
	Status                  Status
	Settings                Settings
	APIToken, Power, Deploy Credential
	shared                  *time.Time // until when machines were given the deploy password; nil: none ever was
	salt                    []byte
	credentialsVersion      int64
	Version                 int64
	CreatedAt, UpdatedAt    time.Time
}

// SyncHTTP says what vouches for the program that machines fetch from a MAAS that
// speaks plain HTTP, and run as root to report their hardware.
type SyncHTTP string

// What may vouch for it.
const (
	SyncPinned    SyncHTTP = "pinned"    // its digest, as the control plane saw it
	SyncAccepted  SyncHTTP = "accepted"  // nothing, and somebody has decided that this will do
	SyncUndecided SyncHTTP = "undecided" // its digest; nobody was asked yet, and machines of before may have nothing
)

// PlainSync says whether root on machines of the site runs what plain HTTP brings,
// whatever that is: only somebody's decision makes it so.
func (s Settings) PlainSync() bool { return s.plainHTTP() && s.HWSyncHTTP == SyncAccepted }

// PinsSync says whether the program that reports hardware is known by its digest.
func (s Settings) PinsSync() bool { return s.plainHTTP() && s.HWSyncHTTP != SyncAccepted }

// GivesPin says whether agents of nodes are told the digest of that program. At a
// site that speaks https they are as well: machines that were deployed before it did
// go on over plain HTTP. They do not know a CA of the site's own, and fetch nothing
// from such a site.
func (s Settings) GivesPin() bool { return s.PinsSync() || !s.plainHTTP() && s.CACertificate == "" }

func (s Settings) plainHTTP() bool { return !strings.HasPrefix(s.APIBaseURL, "https://") }

// SharedPassword says until when machines were given the deploy password that the
// site has now; nil: none was.
func (s Site) SharedPassword() *time.Time {
	if s.shared == nil || !s.Deploy.Present() || s.Deploy.RotatedAt.After(*s.shared) {
		return nil
	}
	return s.shared
}

// Settings are how a site is reached and wired.
type Settings struct {
	RegionCode           string       `json:"region_code" doc:"The region of the product that its machines belong to." example:"eu-1"`
	APIBaseURL           string       `json:"api_base_url" doc:"Address of the MAAS region." example:"http://maas.example:5240/MAAS"`
	CACertificate        string       `json:"ca_certificate" doc:"PEM of the CA that signed the certificate of MAAS; empty: the CAs of the control plane's machine."`
	AllowedNetworks      []string     `json:"allowed_networks" nullable:"false" doc:"CIDRs that the address of MAAS must lie in; empty: any but link-local and loopback."`
	BMCNetworks          []string     `json:"bmc_networks" nullable:"false" doc:"CIDRs that the BMCs of its machines live in; MAAS uses the BMC credentials of the site at no other address. Empty: any but link-local and loopback."`
	PXEIface             string       `json:"pxe_iface" doc:"Interface of the MAAS server on the PXE network." example:"ens19"`
	PXEVLANVID           int32        `json:"pxe_vlan_vid" doc:"VLAN of the PXE network; 0: untagged." example:"46"`
	NodePXEIface         string       `json:"node_pxe_iface" doc:"Interface of the nodes on the PXE network." example:"eno8303"`
	DeployUser           string       `json:"deploy_user" doc:"Account that deployed machines are reached by."`
	DeploySSHIface       string       `json:"deploy_ssh_iface" doc:"Interface of the nodes that deployed machines are reached over."`
	UpstreamDNSServers   []string     `json:"upstream_dns_servers" nullable:"false" doc:"DNS servers that MAAS must forward to."`
	MaxParallel          int32        `json:"max_parallel" doc:"Machines of the site in work at once, over all batches."`
	RequiredScripts      []string     `json:"required_scripts" nullable:"false" doc:"Commissioning and testing scripts that MAAS must have, as NAME or NAME@VERSION; a version is the number or the comment of the newest revision."`
	RequiredCapabilities []Capability `json:"required_capabilities" nullable:"false" doc:"What MAAS must be able to do."`
	HWSyncHTTP           SyncHTTP     `json:"hw_sync_http" enum:"pinned,accepted,undecided" doc:"What vouches for the program that machines fetch from MAAS over plain HTTP and run as root to report their hardware: its digest (pinned), or nothing, because somebody accepted that (accepted). Nobody has decided yet at a site of before this was asked (undecided): new machines go by the digest there. Without meaning where MAAS speaks https."`
}

// DefaultSettings are those of a site that does not say otherwise.
func DefaultSettings() Settings {
	return Settings{
		AllowedNetworks: []string{}, BMCNetworks: []string{}, DeployUser: "hpcadmin", DeploySSHIface: "eno8303",
		UpstreamDNSServers: []string{"1.1.1.1", "8.8.8.8"}, MaxParallel: 20,
		HWSyncHTTP: SyncPinned, RequiredScripts: []string{}, RequiredCapabilities: []Capability{},
	}
}

// SettingsChange is what to change of settings; nil stays as it is.
type SettingsChange struct {
	RegionCode           *string       `json:"region_code,omitempty" doc:"The region of the product that its machines belong to."`
	APIBaseURL           *string       `json:"api_base_url,omitempty" maxLength:"500" doc:"Address of the MAAS region. The MAAS token must be written again after a change."`
	CACertificate        *string       `json:"ca_certificate,omitempty" maxLength:"65536" doc:"PEM of the CA that signed the certificate of MAAS; empty: the CAs of the control plane's machine."`
	AllowedNetworks      *[]string     `json:"allowed_networks,omitempty" nullable:"false" maxItems:"32" doc:"CIDRs that the address of MAAS must lie in; empty: any but link-local and loopback."`
	BMCNetworks          *[]string     `json:"bmc_networks,omitempty" nullable:"false" maxItems:"32" doc:"CIDRs that the BMCs of its machines live in; MAAS uses the BMC credentials of the site at no other address. Empty: any but link-local and loopback."`
	PXEIface             *string       `json:"pxe_iface,omitempty" doc:"Interface of the MAAS server on the PXE network."`
	PXEVLANVID           *int32        `json:"pxe_vlan_vid,omitempty" doc:"VLAN of the PXE network, 0 to 4094; 0: untagged."`
	NodePXEIface         *string       `json:"node_pxe_iface,omitempty" doc:"Interface of the nodes on the PXE network."`
	DeployUser           *string       `json:"deploy_user,omitempty" doc:"Account that deployed machines are reached by."`
	DeploySSHIface       *string       `json:"deploy_ssh_iface,omitempty" doc:"Interface of the nodes that deployed machines are reached over."`
	UpstreamDNSServers   *[]string     `json:"upstream_dns_servers,omitempty" nullable:"false" minItems:"1" maxItems:"8" doc:"DNS servers that MAAS must forward to."`
	MaxParallel          *int32        `json:"max_parallel,omitempty" doc:"Machines of the site in work at once, over all batches; 1 to 1000."`
	RequiredScripts      *[]string     `json:"required_scripts,omitempty" nullable:"false" maxItems:"32" doc:"Commissioning and testing scripts that MAAS must have, as NAME or NAME@VERSION; a version is the number or the comment of the newest revision."`
	RequiredCapabilities *[]Capability `json:"required_capabilities,omitempty" nullable:"false" maxItems:"8" doc:"What MAAS must be able to do."`
	HWSyncHTTP           *SyncHTTP     `json:"hw_sync_http,omitempty" enum:"pinned,accepted" doc:"What vouches for the program that machines fetch from MAAS over plain HTTP and run as root: its digest (pinned), or nothing (accepted)."`
}

// Change is what to change of a site; nil stays as it is.
type Change struct {
	Name     *string
	Status   *Status
	Settings SettingsChange
}

// RequireEnabled refuses new work for a site that takes none.
func RequireEnabled(s Site) error {
	if s.Status == Active {
		return nil
	}
	return fault.New(fault.Conflict, "site_disabled", "the site %s is disabled and takes no new machines", s.Name).
		WithRemedy("enable it: gpuaas site enable %s", s.Name)
}

// apply copies what a change sets: fields of the same name, where not nil.
func apply(to, change any) {
	into, from := reflect.ValueOf(to).Elem(), reflect.ValueOf(change)
	for i := range from.NumField() {
		if field := from.Field(i); !field.IsNil() {
			into.FieldByName(from.Type().Field(i).Name).Set(field.Elem())
		}
	}
}

// notFound says the same as the frame does of what a caller must not know of.
func notFound(what string) error {
	return fault.New(fault.NotFound, "not_found", "there is no such %s", what).WithRemedy("check the id")
}

func atVersion(have, based int64) error {
	if have == based {
		return nil
	}
	return fault.New(fault.Stale, "version_stale",
		"it was changed since it was read: the newest version is %d, the change is based on %d", have, based).
		WithRemedy("read it again and repeat the change with the new ETag")
}

func nameTaken(noun, name string) error {
	return fault.New(fault.Conflict, noun+"_name_taken", "there is already a %s with the name %s", noun, name).
		WithRemedy("choose another name")
}
