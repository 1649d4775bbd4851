package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// findPostgres finds the folder of the server programs: the version with which
// the cluster was made, otherwise the newest.
func findPostgres(ctx context.Context, data string) (string, error) {
	made, err := clusterVersion(data)
	if err != nil {
		return "", err
	}
	best, newest := "", 0
	for _, bins := range []func(context.Context) []string{packagedPostgres, namedPostgres} {
		for _, bin := range bins(ctx) {
			switch version := serverVersion(ctx, bin); {
			case version == made && made != 0:
				return bin, nil
			case version > newest:
				best, newest = bin, version
			}
		}
		if made == 0 && newest >= oldestPostgres {
			return best, nil
		}
	}
	switch {
	case newest == 0:
		return "", errors.New("find PostgreSQL: no server programs (initdb, postgres) are installed; install them with: " +
			"apt-get install postgresql")
	case made != 0:
		return "", fmt.Errorf("find PostgreSQL %d, which the cluster in %s was made with: the newest version installed is "+
			"%d; install the old one with: apt-get install postgresql-%d, or upgrade the cluster with pg_upgrade", made, data,
			newest, made)
	}
	return "", fmt.Errorf("find PostgreSQL %d or newer: the newest version installed is %d; install a newer one, for "+
		"example with: apt-get install postgresql", oldestPostgres, newest)
}

// oldestPostgres is the first version in which the owner of the database also
// owns its public schema. The migrations rely on that.
const oldestPostgres = 15

// clusterVersion returns the major version of an existing cluster, or 0.
func clusterVersion(data string) (int, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of database cluster: %w", err)
	}
	version, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("read version of database cluster %s: %w", data, err)
	}
	return version, nil
}

// packagedPostgres lists where distributions put the server programs.
func packagedPostgres(context.Context) []string {
	debian, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the patterns are well formed
	redhat, _ := filepath.Glob("/usr/pgsql-*/bin")
	return append(debian, redhat...)
}

// namedPostgres lists what pg_config and the PATH name.
func namedPostgres(ctx context.Context) []string {
	var bins []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		bins = append(bins, strings.TrimSpace(string(out)))
	}
	if server, err := exec.LookPath("postgres"); err == nil {
		if server, err = filepath.EvalSymlinks(server); err == nil {
			bins = append(bins, filepath.Dir(server))
		}
	}
	return bins
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// serverVersion is 0 for a folder without the server programs.
func serverVersion(ctx context.Context, bin string) int {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output() //nolint:gosec // the folder comes from the system, not from a user
	if err != nil {
		return 0
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0
	}
	version, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return 0
	}
	return version
}
