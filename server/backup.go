package server

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"gpuaas/stack"
)

func backupCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "backup", Short: "Back up what gpuaas up keeps, prove that a backup works, and restore it",
		Long: "A backup holds everything that the private engines keep: rows and workflows, secrets with the key that\n" +
			"opens them, certificates, the admin token. It is encrypted with age, for a key or with a passphrase.\n" +
			"Engines that the settings name are backed up with their own tools; docs/operate.md says how.",
	}
	cmd.AddCommand(backupKeyCommand(), backupCreateCommand(version), backupVerifyCommand(), backupRestoreCommand())
	return cmd
}

func backupKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Make a key that opens backups, and print what locks them", Args: cobra.ExactArgs(1),
		Long: "Writes a new key to FILE, which only you can read, and prints its recipient. Backups are made with the\n" +
			"recipient, which is no secret; only FILE opens them. Keep it elsewhere: without it a backup is worthless.",
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := age.GenerateX25519Identity()
			if err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			err = createFile(args[0], func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "# opens backups for %s\n%s\n", key.Recipient(), key)
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.Recipient())
			return err
		},
	}
}

func stateFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "state", cmp.Or(os.Getenv("GPUAAS_STATE"), ".gpuaas"),
		"state folder of gpuaas up (GPUAAS_STATE)")
}

func backupCreateCommand(version string) *cobra.Command {
	var state, recipient, passphrase string
	cmd := &cobra.Command{
		Use: "create FILE", Short: "Write an encrypted backup of a state folder, whether gpuaas up runs or not",
		Args: cobra.ExactArgs(1),
		Example: "  gpuaas backup key backup.key\n" +
			"  gpuaas backup create gpuaas.backup --recipient age1...\n" +
			"  gpuaas backup create gpuaas.backup --passphrase-file passphrase",
	}
	stateFlag(cmd, &state)
	cmd.Flags().StringVar(&recipient, "recipient", "", "who can open it: what gpuaas backup key printed")
	cmd.Flags().StringVar(&passphrase, "passphrase-file", "", "file with the passphrase that opens it")
	cmd.MarkFlagsOneRequired("recipient", "passphrase-file")
	cmd.MarkFlagsMutuallyExclusive("recipient", "passphrase-file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		lock, err := lockOf(recipient, passphrase)
		if err != nil {
			return err
		}
		began := time.Now()
		var taken stack.Backup
		err = createFile(args[0], func(w io.Writer) error {
			sealed, err := age.Encrypt(w, lock)
			if err != nil {
				return fmt.Errorf("encrypt backup: %w", err)
			}
			taken, err = stack.TakeBackup(cmd.Context(), stack.BackupOptions{
				State: state, Version: version, Files: []string{"admin-token", "node-port"},
				Say: func(what string) { cmd.PrintErrf("  %s\n", what) },
			}, sealed)
			return errors.Join(err, sealed.Close())
		})
		if err != nil {
			return err
		}
		size := int64(0)
		if info, err := os.Stat(args[0]); err == nil {
			size = info.Size()
		}
		cmd.Printf("%s: %d files, %.1f MiB, in %.1f s\n", args[0], taken.Files, float64(size)/(1<<20),
			time.Since(began).Seconds())
		cmd.Printf("prove that it can be restored: gpuaas backup verify %s %s\n", args[0], opener(recipient))
		return nil
	}
	return cmd
}

// opener names the flag that opens what a recipient locked.
func opener(recipient string) string {
	if recipient != "" {
		return "--key-file FILE"
	}
	return "--passphrase-file FILE"
}

// unlocking are the flags that open a backup.
type unlocking struct{ key, passphrase string }

func (u *unlocking) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&u.key, "key-file", "", "the key that gpuaas backup key wrote")
	cmd.Flags().StringVar(&u.passphrase, "passphrase-file", "", "file with the passphrase")
	cmd.MarkFlagsOneRequired("key-file", "passphrase-file")
	cmd.MarkFlagsMutuallyExclusive("key-file", "passphrase-file")
}

// open calls use with the content of a backup.
func (u unlocking) open(file string, use func(io.Reader) error) error {
	keys, err := u.identities()
	if err != nil {
		return err
	}
	sealed, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open backup: %w", err)
	}
	defer func() { _ = sealed.Close() }()
	content, err := age.Decrypt(sealed, keys...)
	var wrong *age.NoIdentityMatchError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s was made for another key or with another passphrase", file)
	}
	if err != nil {
		return fmt.Errorf("%s is no backup, or is damaged: %w", file, err)
	}
	return use(content)
}

func (u unlocking) identities() ([]age.Identity, error) {
	if u.passphrase != "" {
		text, err := passphraseOf(u.passphrase)
		if err != nil {
			return nil, err
		}
		key, err := age.NewScryptIdentity(text)
		return []age.Identity{key}, err
	}
	file, err := os.Open(u.key)
	if err != nil {
		return nil, fmt.Errorf("read key of backup: %w", err)
	}
	defer func() { _ = file.Close() }()
	keys, err := age.ParseIdentities(file)
	if err != nil {
		return nil, fmt.Errorf("%s holds no key of gpuaas backup key: %w", u.key, err)
	}
	return keys, nil
}

func lockOf(recipient, passphraseFile string) (age.Recipient, error) {
	if recipient != "" {
		r, err := age.ParseX25519Recipient(recipient)
		if err != nil {
			return nil, fmt.Errorf("%q is no recipient: make a key with: gpuaas backup key FILE: %w", recipient, err)
		}
		return r, nil
	}
	text, err := passphraseOf(passphraseFile)
	if err != nil {
		return nil, err
	}
	return age.NewScryptRecipient(text)
}

// passphraseMin keeps out what can be guessed from a stolen file.
const passphraseMin = 16

func passphraseOf(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read passphrase: %w", err)
	}
	text := strings.TrimRight(string(content), "\r\n")
	if len(text) < passphraseMin {
		return "", fmt.Errorf("the passphrase in %s is shorter than %d characters: take a longer one, or a key: gpuaas backup key FILE",
			file, passphraseMin)
	}
	return text, nil
}

func backupVerifyCommand() *cobra.Command {
	var u unlocking
	var quick bool
	var servers, temporary string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Restore a backup into a folder of its own and start the engines from it",
		Args: cobra.ExactArgs(1),
		Long: "Opens the backup, restores it into a temporary folder, lets the database recover and the secrets engine\n" +
			"unseal, says what is in them, and removes the folder. With --quick, it only reads the backup to its end.",
	}
	u.flags(cmd)
	cmd.Flags().BoolVar(&quick, "quick", false, "read it only; start nothing")
	cmd.Flags().StringVar(&temporary, "temporary", os.TempDir(), "where to make the temporary folder")
	cmd.Flags().StringVar(&servers, "servers", "", "path of the gpuaas-servers program (GPUAAS_SERVERS)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return u.open(args[0], func(content io.Reader) error {
			if quick {
				b, err := stack.ReadBackup(cmd.Context(), content, func(_ *tar.Header, file io.Reader) error {
					if file == nil {
						return nil
					}
					_, err := io.Copy(io.Discard, file)
					return err
				})
				if err != nil {
					return err
				}
				cmd.Printf("%s is whole: %d files, taken %s by %s; whether engines start from it was not tried\n", args[0], b.Files,
					b.TakenAt.Format(time.RFC3339), b.Version)
				return nil
			}
			return verifyBackup(cmd, content, args[0], servers, temporary)
		})
	}
	return cmd
}

func verifyBackup(cmd *cobra.Command, content io.Reader, name, servers, temporary string) (err error) {
	ctx := cmd.Context()
	folder, err := os.MkdirTemp(temporary, "gpuaas-verify-")
	if err != nil {
		return fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	state := filepath.Join(folder, "state")
	cmd.PrintErrln("  restoring to a temporary folder")
	b, err := stack.Restore(ctx, state, content)
	if err != nil {
		return err
	}
	cmd.PrintErrln("  starting the database and the secrets engine from it")
	engines, err := stack.Start(ctx, stack.Options{
		State: state, Servers: servers, Only: []stack.Engine{stack.Postgres, stack.OpenBao},
	})
	if err != nil {
		return fmt.Errorf("the engines do not start from %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, engines.Stop(context.WithoutCancel(ctx))) }()
	schema, nodes, err := contents(ctx, engines.Endpoints().PostgresURL)
	if err != nil {
		return fmt.Errorf("the database of %s does not answer as it should: %w", name, err)
	}
	cmd.Printf("%s can be restored: taken %s by %s, schema %d, %d nodes; the database recovered and the secrets engine unsealed\n",
		name, b.TakenAt.Format(time.RFC3339), b.Version, schema, nodes)
	return nil
}

// contents says what is in the database of a backup.
func contents(ctx context.Context, url string) (schema, nodes int64, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, 0, fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = conn.QueryRow(ctx, "SELECT (SELECT max(version_id) FROM goose_db_version), (SELECT count(*) FROM nodes)").
		Scan(&schema, &nodes)
	return schema, nodes, err
}

func backupRestoreCommand() *cobra.Command {
	var u unlocking
	var state string
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Make a state folder from a backup, where none is", Args: cobra.ExactArgs(1),
		Long: "Makes a state folder from a backup. It never touches a folder that has something in it. Make sure that\n" +
			"the control plane that the backup was taken of is stopped for good: two of them would give orders to the\n" +
			"same nodes. Then start it with: gpuaas up --state FOLDER",
	}
	u.flags(cmd)
	stateFlag(cmd, &state)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return u.open(args[0], func(content io.Reader) error {
			cmd.PrintErrf("  restoring to %s\n", state)
			b, err := stack.Restore(cmd.Context(), state, content)
			if err != nil {
				return err
			}
			at := b.TakenAt.Format(time.RFC3339)
			cmd.Printf("%s is as it was at %s (%d files). What happened later is forgotten:\n"+
				"  - tokens, people and identities of nodes that were revoked after that are valid again: revoke them again\n"+
				"  - nodes that renewed their certificates since then go on; nodes that enrolled since then enrol again\n"+
				"  - jobs go on from that moment, and look before they act; drift shows what changed meanwhile\n"+
				"start it with: gpuaas up --state %s\n", state, at, b.Files, state)
			return nil
		})
	}
	return cmd
}

// createFile writes a new file that only its owner can read. The file appears
// whole, or not at all, and never replaces another one.
func createFile(path string, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already: nothing was written; name another file", path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		if err = os.Link(file.Name(), path); err != nil { // unlike a rename, it refuses to replace a file
			err = fmt.Errorf("put %s in place: %w", path, err)
		}
	}
	return errors.Join(err, os.Remove(file.Name()))
}
