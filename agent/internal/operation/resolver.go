package operation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/hostexec"
	"gpuaas/agent/internal/task"
	"gpuaas/contract/agentwire"
)

// Resolver keeps the resolver configurations of the node. They come in signed
// tasks only, so no file of the machine can add a program.
type Resolver struct {
	Host hostexec.Host
	// Changed is called after another version came into use. It may be nil.
	Changed func()

	mu sync.Mutex
}

const (
	resolverFile = "/var/lib/gpuaas/operations/resolver.json"
	maxKept      = 5
)

// configs are what is kept, the newest last.
type configs struct {
	Current  int64     `json:"current"`
	Versions []version `json:"versions"`
}

type version struct {
	Version int64                    `json:"version"`
	Config  agentwire.ResolverConfig `json:"config"`
}

func (c configs) find(number int64) *version {
	i := slices.IndexFunc(c.Versions, func(v version) bool { return v.Version == number })
	if i < 0 {
		return nil
	}
	return &c.Versions[i]
}

func (c configs) kept() []int64 {
	out := []int64{}
	for _, v := range c.Versions {
		out = append(out, v.Version)
	}
	return out
}

func (r *Resolver) load() (configs, error) {
	raw, err := os.ReadFile(r.Host.Path(resolverFile))
	if errors.Is(err, fs.ErrNotExist) {
		return configs{}, nil
	}
	var c configs
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return configs{}, fmt.Errorf("read resolver configuration: %w", err)
	}
	return c, nil
}

// Current returns the configuration in use. Its version is zero if there is
// none.
func (r *Resolver) Current() (agentwire.ResolverConfig, int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.load()
	if err != nil {
		return agentwire.ResolverConfig{}, 0, err
	}
	if v := c.find(c.Current); v != nil {
		return v.Config, v.Version, nil
	}
	return agentwire.ResolverConfig{}, 0, nil
}

// Check implements task.Handler.
func (r *Resolver) Check(_ context.Context, t *task.Task) (any, bool, error) {
	p, ok := t.Params.(*agentwire.ResolverConfigParams)
	if !ok {
		return nil, false, fmt.Errorf("task %s of type %s has parameters of type %T", t.TaskID, t.Type, t.Params)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.load()
	if err != nil {
		return nil, false, nil // what cannot be read is replaced
	}
	return agentwire.ResolverConfigOutput{Version: c.Current, Kept: c.kept()}, c.Current == p.Version, nil
}

// Apply implements task.Handler.
func (r *Resolver) Apply(_ context.Context, t *task.Task) (any, error) {
	p, ok := t.Params.(*agentwire.ResolverConfigParams)
	if !ok {
		return nil, fmt.Errorf("task %s of type %s has parameters of type %T", t.TaskID, t.Type, t.Params)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.load()
	if err != nil {
		c = configs{} // damaged: the new one replaces it
	}
	switch {
	case p.Action == agentwire.ResolverRollback && c.find(p.Version) == nil:
		return nil, task.Fail("version_not_kept",
			fmt.Sprintf("version %d of the resolver configuration is not kept here", p.Version), "install it instead", nil)
	case p.Action == agentwire.ResolverInstall && p.Version < c.Current:
		return nil, task.Fail("version_stale",
			fmt.Sprintf("version %d of the resolver configuration is older than %d, which is in use", p.Version, c.Current),
			"roll back by version if that is meant", nil)
	case p.Action == agentwire.ResolverInstall:
		c.Versions = slices.DeleteFunc(c.Versions, func(v version) bool { return v.Version == p.Version })
		c.Versions = append(c.Versions, version{Version: p.Version, Config: *p.Config})
		if len(c.Versions) > maxKept {
			c.Versions = c.Versions[len(c.Versions)-maxKept:]
		}
	}
	c.Current = p.Version
	raw, err := json.Marshal(c)
	if err == nil {
		err = atomicfile.Write(r.Host.Path(resolverFile), raw, 0o600)
	}
	if err != nil {
		return nil, task.Fail("config_not_kept", "the resolver configuration cannot be kept",
			"free space below "+resolverFile+" on the node", err)
	}
	if r.Changed != nil {
		r.Changed()
	}
	return agentwire.ResolverConfigOutput{Version: c.Current, Kept: c.kept()}, nil
}
