package labcmd

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/oapi-codegen/runtime/types"
	"github.com/spf13/cobra"

	"gpuaas/contract/apiclient"
	"gpuaas/sim/lab"
	"gpuaas/sim/maas/region"
)

// Connect connects to the control plane that the user has chosen.
type Connect func(cmd *cobra.Command) (*apiclient.Client, error)

// SiteCommand returns `site`, to be mounted below the command for simulators.
func SiteCommand(connect Connect) *cobra.Command {
	var name, file string
	c := &cobra.Command{
		Use: "site", Short: "Make a site of the lab of gpuaas up, and a list of its machines", Args: cobra.NoArgs,
		Long: `Creates a site for the simulated MAAS of gpuaas up --rack process|lxd, with its
credentials and a profile, through the API of the control plane that you are
signed in to; and writes a CSV file of the machines that nobody uses yet. Run it
again whenever you like: a site that exists is brought up to date.`,
	}
	state := addState(c)
	c.Flags().StringVar(&name, "name", "lab", "name of the site")
	c.Flags().StringVar(&file, "csv", "lab.csv", "file for the list of machines")
	c.RunE = func(c *cobra.Command, _ []string) error {
		r, err := record(*state)
		if err != nil {
			return err
		}
		api, err := connect(c)
		if err != nil {
			return err
		}
		s := &site{api: api, lab: r, name: name}
		if err := s.set(c.Context()); err != nil {
			return err
		}
		all, err := machines(c.Context(), r)
		if err != nil {
			return err
		}
		free := unused(all)
		if err := writeCSV(file, free); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "site %s is ready; %s lists %d machines that are not in use\n\nOnboard "+
			"them:\n\n  gpuaas onboard --csv %s --site %s --sku %s --watch\n", name, file, len(free), file, name, lab.SKU)
		return err
	}
	return c
}

// unused returns machines that somebody could onboard.
func unused(all []region.Brief) []region.Brief {
	return slices.DeleteFunc(slices.Clone(all), func(m region.Brief) bool {
		return m.Owner != "" || m.BMC == "" || m.Status != region.New.String() && m.Status != region.Ready.String()
	})
}

func writeCSV(file string, rows []region.Brief) error {
	f, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("write list of machines: %w", err)
	}
	w := csv.NewWriter(f)
	err = w.Write([]string{"hostname", "ipmi_ip"})
	for _, m := range rows {
		if err == nil {
			err = w.Write([]string{m.Hostname, m.BMC})
		}
	}
	w.Flush()
	if err == nil {
		err = w.Error()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write list of machines: %w", err)
	}
	return nil
}

// site makes the site of a lab.
type site struct {
	api  *apiclient.Client
	lab  lab.Record
	name string
}

func (s *site) set(ctx context.Context) error {
	there, found, err := s.find(ctx)
	switch {
	case err != nil:
		return err
	case !found:
		there, err = s.create(ctx)
	case there.ApiBaseUrl != s.lab.URL || there.DeployUser != s.lab.DeployUser:
		err = s.update(ctx, there)
	}
	if err != nil {
		return err
	}
	body := apiclient.SiteCredentialsBody{
		ApiToken: &s.lab.Token, DeployPassword: &s.lab.DeployPassword,
		Power: &apiclient.SitePowerBody{User: s.lab.BMCUser, Pass: &s.lab.BMCPassword},
	}
	if _, err := apiclient.Read(s.api.SetMaasSiteCredentialsWithResponse(ctx, there.SiteId,
		&apiclient.SetMaasSiteCredentialsParams{}, body)); err != nil {
		return fmt.Errorf("set credentials of site %s: %w", s.name, err)
	}
	return s.setProfile(ctx, there.SiteId)
}

func (s *site) find(ctx context.Context) (apiclient.SiteView, bool, error) {
	for cursor := (*string)(nil); ; {
		page, err := s.api.ListMaasSitesWithResponse(ctx, &apiclient.ListMaasSitesParams{Cursor: cursor})
		if _, err := apiclient.Read(page, err); err != nil {
			return apiclient.SiteView{}, false, fmt.Errorf("look for site %s: %w", s.name, err)
		}
		for _, v := range page.JSON.Items {
			if v.Name == s.name {
				return v, true, nil
			}
		}
		if cursor = page.JSON.NextCursor; cursor == nil {
			return apiclient.SiteView{}, false, nil
		}
	}
}

func (s *site) create(ctx context.Context) (apiclient.SiteView, error) {
	parallel := int32(lab.AtOnce)
	answer, err := s.api.CreateMaasSiteWithResponse(ctx, &apiclient.CreateMaasSiteParams{}, apiclient.SiteNewBody{
		Name: s.name, RegionCode: lab.RegionCode, ApiBaseUrl: s.lab.URL, PxeIface: lab.BootIface,
		NodePxeIface: s.lab.DeployIface,
		DeployUser:   &s.lab.DeployUser, DeploySshIface: &s.lab.DeployIface, MaxParallel: &parallel,
	})
	if _, err := apiclient.Read(answer, err); err != nil {
		return apiclient.SiteView{}, fmt.Errorf("create site %s: %w", s.name, err)
	}
	return *answer.JSON, nil
}

func (s *site) update(ctx context.Context, there apiclient.SiteView) error {
	_, err := apiclient.Read(s.api.UpdateMaasSiteWithResponse(ctx, there.SiteId,
		&apiclient.UpdateMaasSiteParams{IfMatch: etag(there.Version)},
		apiclient.SiteChangeBody{ApiBaseUrl: &s.lab.URL, DeployUser: &s.lab.DeployUser}))
	if err != nil {
		return fmt.Errorf("update site %s: %w", s.name, err)
	}
	return nil
}

// setProfile adapts the site's own profile to the lab.
func (s *site) setProfile(ctx context.Context, id types.UUID) error {
	const profile = "default"
	page, err := s.api.ListSiteProfilesWithResponse(ctx, id, &apiclient.ListSiteProfilesParams{})
	if _, err := apiclient.Read(page, err); err != nil {
		return fmt.Errorf("look for profiles of site %s: %w", s.name, err)
	}
	for _, p := range page.JSON.Items {
		if p.Name != profile || p.DistroSeries == s.lab.Image && p.BatchMaxParallel == lab.AtOnce {
			continue
		}
		parallel := int32(lab.AtOnce)
		change := apiclient.SiteProfileChangeBody{DistroSeries: &s.lab.Image, BatchMaxParallel: &parallel}
		if s.lab.Kind == lab.LXD { // containers run the agent of real machines, which sees no simulated GPUs
			seen := apiclient.SiteProfileChangeBodyGpuScrubIfPresent
			change.GpuScrub = &seen
		}
		_, err := apiclient.Read(s.api.UpdateSiteProfileWithResponse(ctx, id, p.ProfileId,
			&apiclient.UpdateSiteProfileParams{IfMatch: etag(p.Version)}, change))
		if err != nil {
			return fmt.Errorf("update profile of site %s: %w", s.name, err)
		}
	}
	return nil
}

func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }
