package site

import (
	"gpuaas/controlplane/internal/fleet/site/internal/sitedb"
)

func siteFrom(r sitedb.Site) Site {
	return Site{
		ID: r.ID, Name: r.Name, Status: Status(r.Status),
		Settings: Settings{
			RegionCode: r.RegionCode, APIBaseURL: r.APIBaseURL, CACertificate: r.CaCertificate,
			AllowedNetworks: r.AllowedNetworks, BMCNetworks: r.BmcNetworks,
			PXEIface: r.PxeIface, PXEVLANVID: r.PxeVlanVid, NodePXEIface: r.NodePxeIface, DeployUser: r.DeployUser,
			DeploySSHIface: r.DeploySshIface, UpstreamDNSServers: r.UpstreamDnsServers, MaxParallel: r.MaxParallel,
			HWSyncHTTP: SyncHTTP(r.HwSyncHttp), RequiredScripts: r.RequiredScripts,
			RequiredCapabilities: converted(r.RequiredCapabilities, func(c string) Capability { return Capability(c) }),
		},
		APIToken: Credential{Fingerprint: r.ApiTokenFingerprint, RotatedAt: r.ApiTokenRotatedAt},
		Power:    Credential{Fingerprint: r.PowerFingerprint, RotatedAt: r.PowerRotatedAt},
		Deploy:   Credential{Fingerprint: r.DeployPasswordFingerprint, RotatedAt: r.DeployPasswordRotatedAt},
		shared:   r.DeployPasswordSharedUntil,
		salt:     r.FingerprintSalt, credentialsVersion: r.CredentialsVersion,
		Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func siteColumns(s Site) sitedb.UpdateSiteParams {
	n := s.Settings
	return sitedb.UpdateSiteParams{
		ID: s.ID, Name: s.Name, RegionCode: n.RegionCode, APIBaseURL: n.APIBaseURL, CaCertificate: n.CACertificate,
		AllowedNetworks: n.AllowedNetworks, PxeIface: n.PXEIface, PxeVlanVid: n.PXEVLANVID, NodePxeIface: n.NodePXEIface,
		DeployUser: n.DeployUser, DeploySshIface: n.DeploySSHIface, UpstreamDnsServers: n.UpstreamDNSServers,
		MaxParallel: n.MaxParallel, Status: string(s.Status), HwSyncHttp: string(n.HWSyncHTTP),
		RequiredScripts: n.RequiredScripts, BmcNetworks: n.BMCNetworks,
		RequiredCapabilities: converted(n.RequiredCapabilities, func(c Capability) string { return string(c) }),
	}
}

func profileFrom(r sitedb.Profile) Profile {
	return Profile{
		ID: r.ID, Site: r.SiteID, Name: r.Name, Description: r.Description, Status: Status(r.Status),
		Policy: Policy{
			DistroSeries:                         r.DistroSeries,
			Architecture:                         r.Architecture,
			PXEIface:                             r.PxeIface,
			PXEVLANVID:                           r.PxeVlanVid,
			NodePXEIface:                         r.NodePxeIface,
			StrictPXEPreflight:                   r.StrictPxePreflight,
			EnablePhase2RoCE:                     r.EnablePhase2Roce,
			RequireHWSync:                        r.RequireHwSync,
			HardwareSyncInterval:                 r.HardwareSyncInterval,
			ReleaseFallbackNoErase:               r.ReleaseFallbackNoErase,
			MinimumErase:                         Erase(r.MinimumErase),
			MinimumSanitization:                  Level(r.MinimumSanitization),
			GPUScrub:                             Scrub(r.GpuScrub),
			GPUScrubNVIDIA:                       ScrubMethod(r.GpuScrubNvidia),
			GPUScrubAMD:                          ScrubMethod(r.GpuScrubAmd),
			RemoveMAASRecord:                     r.RemoveMaasRecord,
			ReleaseRetiredMachines:               r.RetiredMachines == string(RetiredRelease),
			DataDisks:                            DataDisks(r.DataDisks),
			RetiredMachines:                      RetiredMachines(r.RetiredMachines),
			ReturnHealedNodes:                    r.ReturnHealedNodes,
			RequireEnrollmentAddress:             r.RequireEnrollmentAddress,
			EnableDeployRetryOnDatasourceFailure: r.EnableDeployRetryOnDatasourceFailure,
			MaxDeployRetryAttempts:               r.MaxDeployRetryAttempts,
			AutoClaimSingleNewMachine:            r.AutoClaimSingleNewMachine,
			BatchMaxParallel:                     r.BatchMaxParallel,
			SiteBootstrapBundleRef:               r.SiteBootstrapBundleRef,
			EnrollmentTokenTTLSeconds:            r.EnrollmentTokenTtlSeconds,
			DiscoveryTimeoutSeconds:              r.DiscoveryTimeoutSeconds,
			CommissionTimeoutSeconds:             r.CommissionTimeoutSeconds,
			DeployTimeoutSeconds:                 r.DeployTimeoutSeconds,
			HWSyncSeedTimeoutSeconds:             r.HwSyncSeedTimeoutSeconds,
			HWSyncHealthTimeoutSeconds:           r.HwSyncHealthTimeoutSeconds,
			EnrollmentTimeoutSeconds:             r.EnrollmentTimeoutSeconds,
			ReleaseTimeoutSeconds:                r.ReleaseTimeoutSeconds,
			AgentTimeoutSeconds:                  r.AgentTimeoutSeconds,
		},
		BundleDigest: r.SiteBootstrapBundleDigest, PreviousBundleRef: r.PreviousBundleRef,
		PreviousBundleDigest: r.PreviousBundleDigest,
		Version:              r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func profileColumns(p Profile) sitedb.SetProfileParams {
	n := p.Policy
	return sitedb.SetProfileParams{
		ID: p.ID, Name: p.Name, Description: p.Description, Status: string(p.Status), Version: p.Version,
		DistroSeries:                         n.DistroSeries,
		Architecture:                         n.Architecture,
		PxeIface:                             n.PXEIface,
		PxeVlanVid:                           n.PXEVLANVID,
		NodePxeIface:                         n.NodePXEIface,
		StrictPxePreflight:                   n.StrictPXEPreflight,
		EnablePhase2Roce:                     n.EnablePhase2RoCE,
		RequireHwSync:                        n.RequireHWSync,
		HardwareSyncInterval:                 n.HardwareSyncInterval,
		ReleaseFallbackNoErase:               n.ReleaseFallbackNoErase,
		MinimumErase:                         string(n.MinimumErase),
		MinimumSanitization:                  string(n.MinimumSanitization),
		GpuScrub:                             string(n.GPUScrub),
		GpuScrubNvidia:                       string(n.GPUScrubNVIDIA),
		GpuScrubAmd:                          string(n.GPUScrubAMD),
		RemoveMaasRecord:                     n.RemoveMAASRecord,
		ReleaseRetiredMachines:               n.ReleaseRetiredMachines,
		DataDisks:                            string(n.DataDisks),
		RetiredMachines:                      string(n.RetiredMachines),
		ReturnHealedNodes:                    n.ReturnHealedNodes,
		RequireEnrollmentAddress:             n.RequireEnrollmentAddress,
		EnableDeployRetryOnDatasourceFailure: n.EnableDeployRetryOnDatasourceFailure,
		MaxDeployRetryAttempts:               n.MaxDeployRetryAttempts,
		AutoClaimSingleNewMachine:            n.AutoClaimSingleNewMachine,
		BatchMaxParallel:                     n.BatchMaxParallel,
		SiteBootstrapBundleRef:               n.SiteBootstrapBundleRef,
		EnrollmentTokenTtlSeconds:            n.EnrollmentTokenTTLSeconds,
		DiscoveryTimeoutSeconds:              n.DiscoveryTimeoutSeconds,
		CommissionTimeoutSeconds:             n.CommissionTimeoutSeconds,
		DeployTimeoutSeconds:                 n.DeployTimeoutSeconds,
		HwSyncSeedTimeoutSeconds:             n.HWSyncSeedTimeoutSeconds,
		HwSyncHealthTimeoutSeconds:           n.HWSyncHealthTimeoutSeconds,
		EnrollmentTimeoutSeconds:             n.EnrollmentTimeoutSeconds,
		ReleaseTimeoutSeconds:                n.ReleaseTimeoutSeconds,
		AgentTimeoutSeconds:                  n.AgentTimeoutSeconds,
		SiteBootstrapBundleDigest:            p.BundleDigest,
		PreviousBundleRef:                    p.PreviousBundleRef,
		PreviousBundleDigest:                 p.PreviousBundleDigest,
	}
}

func bundleFrom(r sitedb.Bundle) Bundle {
	return Bundle{
		ID: r.ID, Site: r.SiteID, Name: r.Name, Version: r.Version, Digest: r.Digest, Size: r.Size, AddedBy: r.AddedBy,
		CreatedAt: r.CreatedAt,
	}
}

func overrideFrom(r sitedb.Override) PowerOverride {
	rotated := r.RotatedAt
	return PowerOverride{
		ID: r.ID, Site: r.SiteID, Selector: Selector{Type: SelectorType(r.SelectorType), Value: r.SelectorValue},
		Status: Status(r.Status), Credential: Credential{Fingerprint: r.Fingerprint, RotatedAt: &rotated},
		Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func assignmentFrom(r sitedb.Assignment) Assignment {
	return Assignment{
		ID: r.ID, Site: r.SiteID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		AssignmentRow: AssignmentRow{Hostname: r.Hostname, Interface: r.Interface, IPv4CIDR: r.Ipv4Cidr, MTU: r.MTU},
	}
}

func converted[row, noun any](rows []row, from func(row) noun) []noun {
	out := make([]noun, len(rows))
	for i, r := range rows {
		out[i] = from(r)
	}
	return out
}
