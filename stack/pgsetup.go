package stack

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Roles and databases of the cluster. Migrations grant to appRole; the product
// logs in as a member of it.
const (
	appRole         = "gpuaas_app"   // group, no login
	ownerRole       = "gpuaas_owner" // owns the database, runs migrations
	productRole     = "gpuaas"       // the running product
	productDatabase = "gpuaas"
	temporalRole    = "temporal" // owns Temporal's two databases
)

// ensureDatabases makes the product's roles and database. Every statement can
// be repeated. Passwords are set again each time, so a lost password file
// repairs itself.
func (p *postgres) ensureDatabases(ctx context.Context, say func(string)) error {
	conn, err := p.connect(ctx, superuserDatabase)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := ensureRole(ctx, conn, appRole); err != nil {
		return err
	}
	for _, role := range []string{ownerRole, productRole} {
		if err := p.ensureLogin(ctx, conn, role); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "GRANT "+appRole+" TO "+productRole); err != nil {
		return fmt.Errorf("grant %s to %s: %w", appRole, productRole, err)
	}
	exists, err := databaseExists(ctx, conn, productDatabase)
	if err != nil {
		return err
	}
	if !exists {
		say("making roles and the database")
		if err := createDatabase(ctx, conn, productDatabase, ownerRole); err != nil {
			return err
		}
	}
	return reserveDatabase(ctx, conn, productDatabase, appRole)
}

func ensureRole(ctx context.Context, conn *pgx.Conn, role string) error {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role).Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE ROLE "+pgx.Identifier{role}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("make role %s: %w", role, err)
	}
	return nil
}

// ensureLogin gives the server a verifier and not the password, so neither its
// catalogue nor its log ever sees the secret.
func (p *postgres) ensureLogin(ctx context.Context, conn *pgx.Conn, role string) error {
	if err := ensureRole(ctx, conn, role); err != nil {
		return err
	}
	iterations := 4096
	if p.throwaway { // tests log in thousands of times, and the race detector makes each hash dear
		iterations = 1
	}
	verifier, err := scramVerifier(p.passwords[role], iterations)
	if err != nil {
		return fmt.Errorf("derive password verifier of role %s: %w", role, err)
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(
		"ALTER ROLE %s LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS PASSWORD '%s'",
		pgx.Identifier{role}.Sanitize(), verifier))
	if err != nil {
		return fmt.Errorf("set up login of role %s: %w", role, err)
	}
	return nil
}

func databaseExists(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for database %s: %w", name, err)
	}
	return exists, nil
}

func createDatabase(ctx context.Context, conn *pgx.Conn, name, owner string) error {
	statement := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " OWNER " + pgx.Identifier{owner}.Sanitize()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("make database %s: %w", name, err)
	}
	return nil
}

// reserveDatabase lets only its owner and one role into a database.
func reserveDatabase(ctx context.Context, conn *pgx.Conn, name, role string) error {
	database := pgx.Identifier{name}.Sanitize()
	_, err := conn.Exec(ctx, "REVOKE ALL ON DATABASE "+database+" FROM PUBLIC; "+
		"GRANT CONNECT ON DATABASE "+database+" TO "+pgx.Identifier{role}.Sanitize())
	if err != nil {
		return fmt.Errorf("restrict database %s: %w", name, err)
	}
	return nil
}

// scramVerifier returns what PostgreSQL stores for a SCRAM-SHA-256 password
// (RFC 5803). We made the password from ASCII, so SASLprep changes nothing.
func scramVerifier(password string, iterations int) (string, error) {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	clientKey := keyed(salted, "Client Key")
	stored := sha256.Sum256(clientKey)
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s",
		iterations, encode(salt), encode(stored[:]), encode(keyed(salted, "Server Key"))), nil
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
