package stack

import (
	"errors"
	"fmt"
	"path/filepath"
)

// RunningDatabase returns how to reach the private PostgreSQL of a state folder
// that another process holds. Whoever can read the folder may use it.
func RunningDatabase(state string) (Endpoints, error) {
	path, err := filepath.Abs(state)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return Endpoints{}, fmt.Errorf("open state folder: %w", err)
	}
	f := folder(path)
	record, err := loadRecord(f)
	if err != nil {
		return Endpoints{}, err
	}
	p := &postgres{port: record.port(string(Postgres)), passwords: map[string]string{}}
	if p.port == 0 || record.pid(Postgres) == 0 {
		return Endpoints{}, errors.New("the state folder has no PostgreSQL that runs: name the database with --config")
	}
	for _, role := range []string{productRole, ownerRole} {
		if p.passwords[role], err = f.secret("postgres-" + role); err != nil {
			return Endpoints{}, err
		}
	}
	var e Endpoints
	p.describe(&e)
	return e, nil
}
