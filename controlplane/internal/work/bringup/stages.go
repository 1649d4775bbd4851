package bringup

// Stages are the stages by name.
func (b *Bringup) Stages() map[string]Stage {
	stages := map[string]Stage{
		LoadSiteConfig:               b.LoadSiteConfig,
		ResolvePowerCredentials:      b.ResolvePowerCredentials,
		CreateOrFindInMAAS:           b.CreateOrFindInMAAS,
		CommissionNode:               b.CommissionNode,
		WaitForReady:                 b.WaitForReady,
		ConfigureStorage:             b.ConfigureStorage,
		ApplyRoCEPhase2:              b.ApplyRoCEPhase2,
		EnsurePXEInterfaceAuto:       b.EnsurePXEInterfaceAuto,
		RenderCloudInit:              b.RenderCloudInit,
		DeployViaMAAS:                b.DeployViaMAAS,
		WaitForDeployed:              b.WaitForDeployed,
		ClassifyDeployFailure:        b.ClassifyDeployFailure,
		RecoverForDatasourceRetry:    b.RecoverForDatasourceRetry,
		EnsureHardwareSyncConfigured: b.EnsureHardwareSyncConfigured,
		WaitForHardwareSyncHealthy:   b.WaitForHardwareSyncHealthy,
		WaitForAgentEnrollment:       b.WaitForAgentEnrollment,
		ReleaseMAASNode:              b.ReleaseMAASNode,
		PowerOffMAASNode:             b.PowerOffMAASNode,
		RemoveMAASRecord:             b.RemoveMAASRecord,
	}
	for name, stage := range stages {
		stages[name] = b.doubting(stage)
	}
	return stages
}
