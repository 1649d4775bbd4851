package maas

import (
	"context"
	"fmt"
	"net/url"
)

// ResultType is a kind of scripts that MAAS runs on a machine.
type ResultType string

// The kinds of scripts.
const (
	ResultCommissioning ResultType = "commissioning"
	ResultTesting       ResultType = "testing"
	ResultInstallation  ResultType = "installation"
	ResultRelease       ResultType = "release"
)

// ResultSet is one run of scripts on a machine.
type ResultSet struct {
	ID         int64          `json:"id"`
	Type       string         `json:"type_name"`
	StatusName string         `json:"status_name"`
	Started    string         `json:"started"`
	Ended      string         `json:"ended"`
	Results    []ScriptResult `json:"results"`
}

// ScriptResult is how one script ended.
type ScriptResult struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	Status     int    `json:"status"`
	StatusName string `json:"status_name"`
	ExitStatus *int   `json:"exit_status"`
}

// Begun reports whether the machine has begun to run the script.
func (r ScriptResult) Begun() bool { return r.Status != 0 } // pending

// Failed reports whether the script is a reason for a failure.
func (r ScriptResult) Failed() bool {
	switch r.Status {
	case 3, 4, 6, 8, 11: // failed, timed out, degraded, dependencies not installed, network not configured
		return true
	}
	return false
}

// Results lists the runs of scripts on a machine. Without types it lists all.
func (c *Client) Results(ctx context.Context, id string, types ...ResultType) ([]ResultSet, error) {
	q := url.Values{}
	for _, t := range types {
		q.Add("type", string(t))
	}
	sets, err := fetch[[]ResultSet](ctx, c, call{path: nodePath(id) + "results/", query: q})
	if err != nil {
		return nil, fmt.Errorf("list script results of MAAS machine %s: %w", id, err)
	}
	return sets, nil
}
