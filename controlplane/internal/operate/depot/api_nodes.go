package depot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
)

// ServeNode answers a node that its listener has let in. It reads by digest, and what a
// task fetches that it works on.
func (s *Service) ServeNode(w http.ResponseWriter, r *http.Request, n id.Node) error {
	want, ok := parse(r.URL.Path)
	if !ok || want.object != manifests && want.object != blobs || !digestForm.MatchString(want.reference) ||
		r.Method != http.MethodGet && r.Method != http.MethodHead {
		return fault.New(fault.NotFound, "not_found", "nodes read manifests and blobs by their digest only")
	}
	leave, err := s.enter("node "+n.String(), transfersOfNode)
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	allowed, err := s.fetches(ctx, n, want)
	if err != nil {
		return err
	}
	if !allowed {
		return fault.New(fault.Forbidden, "registry_not_for_task", "no task that this node works on fetches %s from %s",
			want.reference, want.repository).
			WithRemedy("run the operation again; a node reads from the registry only while a run of it fetches there")
	}
	s.pass(w, plain(r), longestOfNode)
	return nil
}

const (
	transfersOfNode = 16 // at a time; an agent has eight
	// longestOfNode is how long a node goes on with what its task allowed it when it began.
	// Agents ask for a few MiB at a time.
	longestOfNode = 10 * time.Minute
)

// fetches says whether a task that a node works on fetches a manifest or a blob: by its
// digest, or because what it fetches names it, or names a manifest that does.
func (s *Service) fetches(ctx context.Context, n id.Node, want request) (bool, error) {
	tasks, err := s.cfg.Tasks.WorksOn(ctx, n, agentwire.TypeOperationRun)
	if err != nil {
		return false, err
	}
	for _, t := range tasks {
		roots, err := fetchedBy(t.Params, want.repository)
		if err != nil {
			return false, fmt.Errorf("read task %s: %w", t.ID, err)
		}
		if found, err := s.within(ctx, want, roots, true); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// within looks for a digest among manifests, and among what they name. Indexes name
// manifests; an index in an index is fetched by nobody.
func (s *Service) within(ctx context.Context, want request, digests []string, indexes bool) (bool, error) {
	if want.object == manifests && slices.Contains(digests, want.reference) {
		return true, nil
	}
	for _, d := range digests {
		named, err := s.names(ctx, want.repository, d)
		if err != nil {
			return false, err
		}
		if want.object == blobs && slices.Contains(named.blobs, want.reference) {
			return true, nil
		}
		if !indexes {
			continue
		}
		if found, err := s.within(ctx, want, named.manifests, false); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// fetchedBy lists the digests that the steps of a task fetch from a repository of ours.
func fetchedBy(params json.RawMessage, repository string) ([]string, error) {
	var p agentwire.OperationRunParams
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	if p.Plan || p.Begin < 0 || p.Begin > len(p.Steps) {
		return nil, nil
	}
	var out []string
	for _, step := range p.Steps[p.Begin:] {
		kind, _ := agentwire.LookupStep(step.Kind)
		all, err := kind.Fetched(step.With)
		if err != nil { // what cannot be read gives no right
			continue
		}
		for _, f := range all {
			if f.Source == "https://"+agentwire.PlatformRegistry+"/"+repository+"@"+f.Digest {
				out = append(out, f.Digest)
			}
		}
	}
	return out, nil
}
