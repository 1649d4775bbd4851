package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/baseline"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// idsFile records which ids were given to whom, for the life of the
// installation: whoever gets an id gets every file that still has it.
const idsFile = stateFolder + "/ids.json"

// givenID is one account that had these ids on this installation.
type givenID struct {
	UID          int    `json:"uid"`
	GID          int    `json:"gid"`
	Username     string `json:"username"`
	AllocationID string `json:"allocation_id"`
}

// givenIDs lists all ids that were ever given, including accounts from before
// the agent kept the list.
func (h host) givenIDs() ([]givenID, error) {
	var given []givenID
	raw, err := os.ReadFile(h.Host.Path(idsFile))
	if err == nil {
		err = json.Unmarshal(raw, &given)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the ids that were given: %w", err)
	}
	marks, err := h.tenants()
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		one := givenID{UID: m.UID, GID: m.GID, Username: m.Username, AllocationID: m.AllocationID}
		if !slices.Contains(given, one) {
			given = append(given, one)
		}
	}
	return given, nil
}

// noteIDs records ids before they are given.
func (h host) noteIDs(p *agentwire.ProvisionUserParams) error {
	given, err := h.givenIDs()
	if err != nil {
		return err
	}
	one := givenID{UID: p.UID, GID: p.GID, Username: p.Username, AllocationID: p.AllocationID}
	if !slices.Contains(given, one) {
		given = append(given, one)
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("encode the ids that were given: %w", err)
	}
	if err := atomicfile.Write(h.Host.Path(idsFile), raw, 0o600); err != nil {
		return fmt.Errorf("note the ids that are given: %w", err)
	}
	return nil
}

// fresh refuses ids that somebody else had on this installation.
func (h host) fresh(p *agentwire.ProvisionUserParams) error {
	given, err := h.givenIDs()
	if err != nil {
		return err
	}
	highest := agentwire.MinUID - 1
	for _, g := range given {
		highest = max(highest, g.UID, g.GID)
	}
	for _, g := range given {
		if g.AllocationID == p.AllocationID && g.Username == p.Username {
			continue
		}
		for name, id := range map[string]int{"uid": p.UID, "gid": p.GID} {
			if id == g.UID || id == g.GID {
				return task.Fail("id_used_before", fmt.Sprintf(
					"%s %d was given to %s of allocation %s on this installation, and would inherit what is left of it", name, id,
					g.Username, g.AllocationID),
					fmt.Sprintf("choose ids that nobody had here, such as %d, or reimage the node", highest+1), nil)
			}
		}
	}
	return nil
}

// taker prepares a look at the installation. Ids in the list belong to tenants.
// If the list may be incomplete, all ids in the tenants' range do.
func (h host) taker() (baseline.Taker, error) {
	given, err := h.givenIDs()
	if err != nil {
		return baseline.Taker{}, err
	}
	state, _, err := baseline.ReadState(h.Host)
	if err != nil {
		return baseline.Taker{}, err
	}
	complete := state.Outcome == agentwire.BaselineKept // the baseline was taken before anybody got an id
	return baseline.Taker{
		Host: h.Host, Machine: h.machine, Clock: h.Clock, Foreign: tenantUID,
		Given: func(id int) bool {
			if slices.ContainsFunc(given, func(g givenID) bool { return g.UID == id || g.GID == id }) {
				return true
			}
			return !complete && id >= agentwire.MinUID && id <= lastUID
		},
	}, nil
}

// Baseline prepares the look at an installation before any tenant uses it. ok
// is false if a tenant has used it, because then it is too late.
func Baseline(d Deps) (t baseline.Taker, ok bool, err error) {
	h := newHost(d)
	given, err := h.givenIDs()
	if err != nil || len(given) > 0 {
		return baseline.Taker{}, false, err
	}
	t, err = h.taker()
	t.Given = func(int) bool { return false }
	return t, err == nil, err
}
