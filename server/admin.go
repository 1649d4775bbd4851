package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gpuaas/controlplane"
	"gpuaas/stack"
)

func adminCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "admin", Short: "Look after a control plane"}
	bootstrap := &cobra.Command{
		Use: "bootstrap", Short: "Make the first administrator and print its token, once", Args: cobra.NoArgs,
		Long: "Makes an administrator and prints the only copy of its token, on standard output.\n" +
			"Does nothing when the control plane has an administrator already.",
	}
	s := addSettings(bootstrap)
	bootstrap.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := s.must(cmd)
		if err != nil {
			return err
		}
		created, err := controlplane.BootstrapAdmin(cmd.Context(), cfg, func(token controlplane.Secret) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), token.Reveal())
			return err
		})
		if err == nil && !created {
			err = errors.New("there is an administrator already; ask them for a token, or sign in with: gpuaas login")
		}
		return err
	}
	cmd.AddCommand(bootstrap, recoverCommand(), restoredCommand())
	return cmd
}

// restoredCommand is for databases that gpuaas backup does not restore.
func restoredCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restored", Short: "Say that the database was restored from a backup, so that nodes go on", Args: cobra.NoArgs,
		Long: "Certificates that nodes were given after the backup are unknown in it, and their nodes would be refused.\n" +
			"Told the time of the backup, the control plane takes those that its own CA issued since then. Run it after\n" +
			"you have restored the database of gpuaas serve with your own tools, before the control plane starts.",
		Example: "  gpuaas admin restored --config gpuaas.yaml --taken-at 2026-11-16T02:00:00Z",
	}
	s := addSettings(cmd)
	var taken string
	cmd.Flags().StringVar(&taken, "taken-at", "", "when the backup was taken, such as 2026-11-16T02:00:00Z")
	cobra.CheckErr(cmd.MarkFlagRequired("taken-at"))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := time.Parse(time.RFC3339, taken)
		if err != nil {
			return fmt.Errorf("--taken-at %q is not a time such as 2026-11-16T02:00:00Z: %w", taken, err)
		}
		cfg, err := s.must(cmd)
		if err != nil {
			return err
		}
		restored := controlplane.Restored{TakenAt: at, RestoredAt: time.Now()}
		if err := controlplane.NoteRestore(cmd.Context(), cfg, restored); err != nil {
			return err
		}
		cmd.Printf("noted: certificates that were issued to nodes after %s are taken\n", taken)
		cmd.Println("what was revoked after that is valid again: revoke it again")
		return nil
	}
	return cmd
}

// recovery makes a new token for the first administrator.
type recovery struct {
	settings *settings
	state    string
	file     string
	revoke   bool
}

func recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover", Short: "Make a new admin token, when nobody can sign in any more or the old one ends",
		Args: cobra.NoArgs,
		Long: "Makes a new token for the first administrator (admin@localhost), who is put back into office if need be,\n" +
			"and writes it to a file that only you can read; it is never shown. It is for whoever holds the state\n" +
			"folder or the settings of the database, works whether or not the control plane runs, and is audited.\n" +
			"The file is admin-token in the state folder, unless --token-file names another.",
		Example: "  gpuaas admin recover --state .gpuaas\n" +
			"  gpuaas admin recover --config gpuaas.yaml --token-file admin-token --revoke-others",
	}
	var r recovery
	r.settings = addSettings(cmd)
	cmd.Flags().StringVar(&r.state, "state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas"),
		"state folder of gpuaas up, where no database is named (GPUAAS_STATE)")
	cmd.Flags().StringVar(&r.file, "token-file", "", "where to write the token")
	cmd.Flags().BoolVar(&r.revoke, "revoke-others", false,
		"revoke all other tokens of that administrator, with everything that was made with them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return r.run(cmd) }
	return cmd
}

func (r recovery) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	cfg, problems := r.settings.load(cmd, controlplane.Defaults()) // of all settings, only those of the database count
	named := !cfg.Postgres.URL.IsZero()
	if !named && r.settings.file != "" {
		return fmt.Errorf("the settings name no database:\n%w", errors.Join(problems...))
	}
	if named && r.file == "" {
		return errors.New("name the file for the new token: --token-file admin-token")
	}
	if !named {
		var done func() error
		var err error
		if cfg, done, err = r.embedded(ctx); err != nil {
			return err
		}
		defer func() {
			if err := done(); err != nil {
				cmd.PrintErrln("the database could not be stopped cleanly:", err)
			}
		}()
		r.file = cmp.Or(r.file, filepath.Join(r.state, "admin-token"))
	}
	ends, err := controlplane.RecoverAdmin(ctx, cfg, r.revoke,
		func(token controlplane.Secret) error { return keepToken(r.file, token) })
	if err != nil {
		return err
	}
	cmd.Printf("a new admin token is in %s; it ends on %s\n", r.file, ends.UTC().Format(time.DateOnly))
	if !r.revoke {
		cmd.Println("tokens from before go on working; if one of them is in wrong hands, repeat with --revoke-others")
	}
	cmd.Printf("sign in with it: gpuaas login --url URL --token-file %s\n", r.file)
	return nil
}

// embedded is the database of a state folder: the one that runs, or else one that
// is started for the moment.
func (r recovery) embedded(ctx context.Context) (controlplane.Config, func() error, error) {
	if _, err := os.Stat(filepath.Join(r.state, "stack.json")); err != nil {
		return controlplane.Config{}, nil, fmt.Errorf(
			"%s is no state folder of gpuaas up: name it with --state, or the database with --config: %w", r.state, err)
	}
	started, err := stack.Start(ctx, stack.Options{State: r.state, Only: []stack.Engine{stack.Postgres}})
	var running *stack.AlreadyRunning
	if errors.As(err, &running) {
		ends, err := stack.RunningDatabase(r.state)
		cfg := embedded(ends)
		cfg.Postgres.MigrateOnStart = false // that is for the one that runs
		return cfg, func() error { return nil }, err
	}
	if err != nil {
		return controlplane.Config{}, nil, err
	}
	return embedded(started.Endpoints()), func() error { return started.Stop(context.WithoutCancel(ctx)) }, nil
}

// keepToken writes a token to a file that only its owner can read, in one step:
// what stood there before is whole until the new one is.
func keepToken(file string, token controlplane.Secret) error {
	f, err := os.CreateTemp(filepath.Dir(file), ".admin-token-*") // 0600
	if err != nil {
		return fmt.Errorf("write admin token: %w", err)
	}
	_, err = f.WriteString(token.Reveal() + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write admin token: %w", err), os.Remove(f.Name()))
	}
	return nil
}

func readToken(file string) (controlplane.Secret, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return controlplane.Secret{}, fmt.Errorf("read admin token: %w", err)
	}
	return controlplane.NewSecret(strings.TrimSpace(string(b))), nil
}
