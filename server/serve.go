package server

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"gpuaas/controlplane"
)

// settings reads the configuration of the control plane from the flags of a
// command, the environment and a file.
type settings struct {
	file  string
	flags map[string]*string
}

func addSettings(cmd *cobra.Command) *settings {
	s := &settings{flags: map[string]*string{}}
	cmd.Flags().StringVar(&s.file, "config", os.Getenv("GPUAAS_CONFIG"), "YAML file with settings (GPUAAS_CONFIG)")
	for _, one := range controlplane.Settings() {
		if one.Secret {
			continue // command lines are public
		}
		s.flags[one.Key] = cmd.Flags().String(one.Flag(), "", one.Doc+" ("+one.Env()+")")
	}
	return s
}

func (s *settings) load(cmd *cobra.Command, base controlplane.Config) (controlplane.Config, []error) {
	given := map[string]string{}
	for _, one := range controlplane.Settings() {
		if f := cmd.Flags().Lookup(one.Flag()); f != nil && f.Changed {
			given[one.Key] = *s.flags[one.Key]
		}
	}
	return controlplane.Load(base, s.file, os.Environ(), given)
}

func (s *settings) must(cmd *cobra.Command) (controlplane.Config, error) {
	cfg, problems := s.load(cmd, controlplane.Defaults())
	if len(problems) > 0 {
		return cfg, fmt.Errorf("the configuration has %d problem(s):\n%w", len(problems), errors.Join(problems...))
	}
	return cfg, nil
}

func serveCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the control plane against existing PostgreSQL, Temporal, NATS and OpenBao or Vault",
		Long: "Runs the roles api, worker and relay, or those named with --roles, in this process.\n" +
			"Each role can run in as many replicas as needed. To bring everything up on one machine, use: gpuaas up",
		Args: cobra.NoArgs,
	}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.must(cmd)
		if err != nil {
			return err
		}
		return controlplane.Run(cmd.Context(), cfg, controlplane.Options{Version: version, Log: cmd.ErrOrStderr()})
	}
	return cmd
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database schema forward", Args: cobra.NoArgs}
	s := addSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.must(cmd)
		if err != nil {
			return err
		}
		applied, err := controlplane.Migrate(cmd.Context(), cfg)
		for _, name := range applied {
			cmd.Println("applied", name)
		}
		if err == nil && len(applied) == 0 {
			cmd.Println("the schema is up to date")
		}
		return err
	}
	return cmd
}

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check or show the configuration of the control plane"}
	check := &cobra.Command{Use: "check", Short: "Report every problem of the configuration at once", Args: cobra.NoArgs}
	checked := addSettings(check)
	check.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := checked.must(cmd)
		if err != nil {
			return err
		}
		for _, w := range cfg.Warnings() {
			cmd.PrintErrln("warning:", w)
		}
		cmd.Println("the configuration is valid")
		return nil
	}
	show := &cobra.Command{Use: "show", Short: "Show every setting with its value, secrets redacted", Args: cobra.NoArgs}
	shown := addSettings(show)
	show.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, problems := shown.load(cmd, controlplane.Defaults())
		cmd.Print(cfg.Show())
		for _, p := range problems {
			cmd.PrintErrln("problem:", p)
		}
		return nil
	}
	cmd.AddCommand(check, show)
	return cmd
}

func contractCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "contract", Short: "Print the contracts of the API and of the event stream"}
	for use, print := range map[string]func() (
		[]byte, error){"openapi": controlplane.OpenAPI, "asyncapi": controlplane.AsyncAPI} {
		cmd.AddCommand(&cobra.Command{
			Use: use, Short: "Print the " + use + " document", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				b, err := print()
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(b)
				return err
			},
		})
	}
	return cmd
}
