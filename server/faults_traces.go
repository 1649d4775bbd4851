package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"gpuaas/controlplane"
	"gpuaas/stack"
)

// telling are places that cannot but hold something of every job: the rows of
// the control plane, histories of Temporal, and events in NATS.
var telling = []string{"table public.jobs of", "table public.history_node of", "file nats/"}

// traces is everything that a control plane and its engines leave behind.
type traces struct {
	engines *stack.Stack
	state   string
	log     string
}

// show shows every table of every database, with those in which Temporal keeps
// histories, the log, and then, once the engines have written all they know,
// every file of theirs but those that are meant for secrets.
func (t *traces) show(ctx context.Context, show func(place string, content []byte)) error {
	if err := t.tables(ctx, show); err != nil {
		return err
	}
	if err := t.file(t.log, "log of the control plane", show); err != nil {
		return err
	}
	if err := t.engines.Stop(ctx); err != nil {
		return err
	}
	return filepath.WalkDir(t.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(t.state, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(name, "secrets/") || path == t.log {
			return nil
		}
		return t.file(path, "file "+name, show)
	})
}

func (t *traces) file(path, place string, show func(string, []byte)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", place, err)
	}
	show(place, content)
	return nil
}

func (t *traces) tables(ctx context.Context, show func(place string, content []byte)) error {
	databases, err := t.column(ctx, "postgres", "SELECT datname FROM pg_database WHERE datallowconn")
	if err != nil {
		return err
	}
	for _, database := range databases {
		tables, err := t.column(ctx, string(database),
			`SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname <> 'pg_catalog'`)
		if err != nil {
			return err
		}
		for _, table := range tables {
			rows, err := t.column(ctx, string(database), "SELECT x::text FROM "+string(table)+" x")
			if err != nil {
				return err
			}
			show(fmt.Sprintf("table %s of database %s", table, database), bytes.Join(rows, []byte("\n")))
		}
	}
	return nil
}

func (t *traces) column(ctx context.Context, database, query string) ([][]byte, error) {
	cfg, err := pgx.ParseConfig(t.engines.SuperuserURL())
	if err != nil {
		return nil, fmt.Errorf("read address of PostgreSQL: %w", err)
	}
	cfg.Database = database
	db, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", database, err)
	}
	defer func() { _ = db.Close(ctx) }() // it was only read from
	rows, err := db.Query(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read database %s: %w", database, err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (
		[]byte, error,
	) {
		return bytes.Clone(row.RawValues()[0]), nil
	})
	if err != nil {
		return nil, fmt.Errorf("read database %s: %w", database, err)
	}
	return out, nil
}

// lose removes the content of a stored file, past the control plane.
func (t *traces) lose(ctx context.Context, digest string) error {
	db, err := pgx.Connect(ctx, t.engines.Endpoints().PostgresURL)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { _ = db.Close(ctx) }() // the statement has committed by itself
	gone, err := db.Exec(ctx, `DELETE FROM blob_chunks c USING blobs b WHERE b.content_id = c.content_id AND b.digest = $1`,
		digest)
	if err == nil && gone.RowsAffected() == 0 {
		err = errors.New("no such file is stored")
	}
	if err != nil {
		return fmt.Errorf("lose stored file %s: %w", digest, err)
	}
	return nil
}

// silence makes the agent of a node have called last hours ago.
func (t *traces) silence(ctx context.Context, node string) error {
	db, err := pgx.Connect(ctx, t.engines.Endpoints().PostgresURL)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	defer func() { _ = db.Close(ctx) }() // the statement has committed by itself
	heard, err := db.Exec(ctx, `UPDATE node_contacts SET last_contact_at = now() - interval '3 hours' WHERE node_id = $1`,
		node)
	if err == nil && heard.RowsAffected() == 0 {
		err = errors.New("its agent has never called")
	}
	if err != nil {
		return fmt.Errorf("silence node %s: %w", node, err)
	}
	return nil
}

// claims counts the claims of allocations on nodes that have not ended.
func (t *traces) claims(ctx context.Context, nodes []string) (n int, err error) {
	db, err := pgx.Connect(ctx, t.engines.Endpoints().PostgresURL)
	if err != nil {
		return 0, fmt.Errorf("open database: %w", err)
	}
	defer func() { _ = db.Close(ctx) }() // it was only read from
	err = db.QueryRow(ctx, `SELECT count(*) FROM allocation_resource_claims
		WHERE node_id = ANY ($1::uuid[]) AND ended_at IS NULL`, nodes).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count claims: %w", err)
	}
	return n, nil
}

// secretsEngine is OpenBao, past the control plane.
type secretsEngine struct{ address, roleFile, secretFile string }

func engineOf(e stack.Endpoints) secretsEngine {
	return secretsEngine{e.SecretsAddress, e.SecretsRoleIDFile, e.SecretsSecretIDFile}
}

// forget makes the engine lose what it has at a path, as somebody with its keys
// could.
func (s secretsEngine) forget(ctx context.Context, path string) error {
	role, err := os.ReadFile(s.roleFile)
	if err != nil {
		return fmt.Errorf("read role: %w", err)
	}
	secret, err := os.ReadFile(s.secretFile)
	if err != nil {
		return fmt.Errorf("read secret id: %w", err)
	}
	login, err := json.Marshal(map[string]string{
		"role_id":   strings.TrimSpace(string(role)),
		"secret_id": strings.TrimSpace(string(secret)),
	})
	if err != nil {
		return fmt.Errorf("write login: %w", err)
	}
	var answer struct {
		Auth struct {
			Token string `json:"client_token"`
		} `json:"auth"`
	}
	if err := s.call(ctx, http.MethodPost, "auth/approle/login", "", login, &answer); err != nil {
		return err
	}
	return s.call(ctx, http.MethodDelete, controlplane.Defaults().Secrets.KVMount+"/metadata/"+path, answer.Auth.Token,
		nil, nil)
}

func (s secretsEngine) call(ctx context.Context, method, path, token string, body []byte, into any) (err error) {
	address, err := url.JoinPath(s.address, "v1", path)
	if err != nil {
		return fmt.Errorf("address of the secrets engine: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask secrets engine: %w", err)
	}
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask secrets engine: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read answer of the secrets engine: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the secrets engine refuses %s %s: %s", method, path, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
