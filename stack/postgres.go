package stack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	superuser         = "postgres"
	superuserDatabase = "postgres"
)

// postgres is a private cluster, made from the installed binaries.
type postgres struct {
	nursery   *nursery
	bin       string // folder of initdb and postgres
	account   *account
	port      int
	throwaway bool
	title     string // shown by every process of the cluster
	passwords map[string]string
}

func newPostgres(ctx context.Context, n *nursery, ports *portBook, throwaway bool) (*postgres, error) {
	p := &postgres{nursery: n, throwaway: throwaway, passwords: map[string]string{}}
	p.title = fmt.Sprintf("gpuaas-%x", sha256.Sum256([]byte(n.folder)))[:19]
	var err error
	if p.bin, err = findPostgres(ctx, p.data()); err != nil {
		return nil, err
	}
	if p.account, err = databaseAccount(); err != nil {
		return nil, err
	}
	if p.port, err = ports.take("postgres", 5543); err != nil {
		return nil, err
	}
	for _, role := range []string{superuser, ownerRole, productRole, temporalRole} {
		if p.passwords[role], err = n.folder.secret("postgres-" + role); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *postgres) home() string    { return p.nursery.folder.path("postgres") }
func (p *postgres) data() string    { return filepath.Join(p.home(), "data") }
func (p *postgres) address() string { return hostPort(p.port) }

func (p *postgres) describe(e *Endpoints) {
	e.PostgresURL = p.url(productRole, p.passwords[productRole], productDatabase)
	e.PostgresMigrateURL = p.url(ownerRole, p.passwords[ownerRole], productDatabase)
}

func (p *postgres) url(role, password, database string) string {
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(role, password),
		Host:   p.address(),
		Path:   "/" + database,
		// Only SCRAM: it does not send the password, and the server proves that
		// it knows it. Whoever takes the port while the database is down for a
		// moment learns nothing, and clients do not believe them.
		RawQuery: "sslmode=disable&require_auth=scram-sha-256",
	}
	return u.String()
}

func (p *postgres) launch(ctx context.Context, say func(string)) (instance, error) {
	if err := p.clearWay(ctx); err != nil {
		return nil, err
	}
	if err := p.ensureCluster(ctx, say); err != nil {
		return nil, err
	}
	home, err := os.Open(p.home())
	if err != nil {
		return nil, fmt.Errorf("open database folder: %w", err)
	}
	defer home.Close()
	server, err := p.nursery.spawn(program{
		engine: Postgres,
		path:   filepath.Join(p.bin, "postgres"),
		args:   p.arguments(),
		dir:    "/",            // the account may not pass the folders above; postgres changes to its data itself
		stop:   syscall.SIGINT, // fast shutdown: SIGTERM would wait for clients
		user:   p.account.credential(),
		folder: home,
	})
	if err != nil {
		return nil, err
	}
	if err := server.answers(ctx, p.probe); err != nil {
		return nil, err
	}
	if err := p.ensureDatabases(ctx, say); err != nil {
		server.stop(ctx)
		return nil, err
	}
	return server, nil
}

// clearWay waits for processes of an earlier run of the cluster. Backends
// outlive a killed postmaster for a moment, and must be gone before their
// shared memory can be used again. When no process is left, the lock file of a
// killed postmaster is stale and removed: PostgreSQL itself would take a
// zombie, or whoever has its process id now, for the owner and refuse to start.
func (p *postgres) clearWay(ctx context.Context) error {
	earlier := func() []int {
		// A dying process has no command line any more, but still its memory.
		return append(dying("postgres"), processesWhere(func(line []string) bool {
			return strings.HasPrefix(line[0], "postgres: "+p.title+":") || slices.Contains(line, p.mark()) ||
				slices.Contains(line, p.data())
		})...)
	}
	if err := outlast(ctx, postgresPatience, earlier); err != nil {
		return fmt.Errorf("end earlier database processes: %w", err)
	}
	err := os.Remove(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove stale lock file: %w", err)
	}
	return nil
}

// ensureCluster runs initdb into its own folder and renames it: the data folder
// is either absent or complete.
func (p *postgres) ensureCluster(ctx context.Context, say func(string)) error {
	info, err := os.Stat(p.data())
	if err == nil {
		return p.account.mustOwn(p.data(), info)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for database cluster: %w", err)
	}
	say("making the database cluster (first start)")
	if err := os.MkdirAll(p.home(), 0o700); err != nil {
		return fmt.Errorf("make database folder: %w", err)
	}
	if err := p.account.own(p.home()); err != nil {
		return err
	}
	stale, err := filepath.Glob(filepath.Join(p.home(), "initdb-*"))
	if err != nil {
		return fmt.Errorf("find unfinished clusters: %w", err)
	}
	for _, dir := range stale {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove unfinished cluster: %w", err)
		}
	}
	dir, err := os.MkdirTemp(p.home(), "initdb-")
	if err != nil {
		return fmt.Errorf("make folder for cluster: %w", err)
	}
	if err := p.initdb(ctx, dir); err != nil {
		return fmt.Errorf("make database cluster: %w", err)
	}
	if err := os.Rename(filepath.Join(dir, "data"), p.data()); err != nil {
		return fmt.Errorf("put database cluster in place: %w", err)
	}
	return errors.Join(os.RemoveAll(dir), syncFolder(p.home()))
}

func (p *postgres) initdb(ctx context.Context, dir string) error {
	// initdb takes the password only from a file, and reads it as the account.
	password := filepath.Join(dir, "password")
	if err := writeFile(password, []byte(p.passwords[superuser])); err != nil {
		return fmt.Errorf("hand over password: %w", err)
	}
	if err := errors.Join(p.account.own(dir), p.account.own(password)); err != nil {
		return err
	}
	open, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder for cluster: %w", err)
	}
	defer open.Close()
	args := []string{
		"-D", inheritedFolder + "/data", "-U", superuser, "-A", "scram-sha-256", "--pwfile=" + inheritedFolder + "/password",
		"-E", "UTF8", "--locale=C.UTF-8", "--no-instructions",
	}
	if p.throwaway {
		args = append(args, "--no-sync")
	}
	return p.nursery.run(ctx, program{
		engine: Postgres, path: filepath.Join(p.bin, "initdb"), args: args,
		dir: "/", stop: syscall.SIGKILL, user: p.account.credential(), folder: open,
	})
}

// mark names the state folder on the command line, by which a later launcher
// recognises the process. PostgreSQL sees a parameter that nothing reads.
func (p *postgres) mark() string { return folderMark + string(p.nursery.folder) }

// arguments hold the whole configuration, so that a newer launcher changes it
// without editing files.
func (p *postgres) arguments() []string {
	settings := []string{
		"port=" + strconv.Itoa(p.port),
		"listen_addresses=" + loopback,
		"unix_socket_directories=", // no socket: its path is limited to 107 bytes
		"cluster_name=" + p.title,
		p.mark(),
		"max_connections=300",
		"shared_buffers=64MB",
		"max_wal_size=512MB",
		"wal_keep_size=256MB", // so that a backup finds what was written while it ran
		"jit=off",
		"timezone=UTC",
		"log_timezone=UTC",
		"log_min_messages=warning",
	}
	if p.throwaway {
		settings = append(settings,
			// Shared memory as files in the data folder is deleted with the
			// folder.
			"dynamic_shared_memory_type=mmap",
			// A commit still reaches the kernel, so a killed server loses
			// nothing.
			"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
			"min_wal_size=32MB", "max_wal_size=256MB", "autovacuum=off")
	}
	args := []string{"-D", inheritedFolder + "/data"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

func (p *postgres) probe(ctx context.Context) error {
	conn, err := p.connect(ctx, superuserDatabase)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "28P01" {
		return hopeless{fmt.Errorf("log in to PostgreSQL: %w: %s does not hold the password that the cluster was made "+
			"with; restore that file",
			err, p.nursery.folder.secretFile("postgres-"+superuser))}
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// connect opens a database as superuser, for set-up.
func (p *postgres) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, p.url(superuser, p.passwords[superuser], database))
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL as superuser: %w", err)
	}
	return conn, nil
}
