package agentgateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"gpuaas/contract/agentpackage"
	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	agentfiles "gpuaas/deploy/agent"
)

// Names of the files of a package besides those of agentfiles.
const (
	programAgent  = agentpackage.ProgramAgent
	programGPU    = agentpackage.ProgramGPU
	fileCA        = "control-plane-ca.pem"
	fileVerifiers = "verifiers.json"
)

// Packages makes agent packages out of a folder of programs, and knows those that
// were released. The same input gives the same bytes in every replica, so a digest
// means the same everywhere.
//
// There are two kinds. The one for the bootstrap of a node holds everything,
// what it is to trust included. The one for updates holds programs and unit
// only: an update must not replace what a node trusts, and its digest must not
// change between the order and the download because a signer was rotated.
type Packages struct {
	folder, version string
	trust           *Trust
	signer          Signer
	releases        Releases

	mu    sync.Mutex
	cache map[string]*agentPackage // by what they were made of
	order []string                 // of the keys, the oldest first
}

// agentPackage is one archive.
type agentPackage struct {
	version string
	digest  string // sha256:…
	content []byte
	files   map[string]string // digests of the programs, sha256:…
}

// PackagesConfig is what a store of packages is made of.
type PackagesConfig struct {
	Folder   string // with a folder of programs for each version
	Version  string // which new nodes get; empty: the only one in the folder
	Trust    *Trust
	Signer   Signer
	Releases Releases
}

// Releases are the packages for updates that were uploaded.
type Releases interface {
	// Digest returns the digest of a release, in hexadecimal digits; it is empty for a
	// version that was never released. It refuses a version that no node may be given.
	Digest(ctx context.Context, version string) (string, error)
	Archive(ctx context.Context, digest string) ([]byte, error)
	// Programs returns digests in hexadecimal digits, none for a version that was never
	// released.
	Programs(ctx context.Context, version string) (map[string]string, error)
}

// NewPackages makes a store.
func NewPackages(cfg PackagesConfig) *Packages {
	return &Packages{
		folder: cfg.Folder, version: cfg.Version, trust: cfg.Trust, signer: cfg.Signer, releases: cfg.Releases,
		cache: map[string]*agentPackage{},
	}
}

// keptPackages bounds the memory of the cache: both kinds of two versions and
// what came before a rotation.
const keptPackages = 6

var versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// bootstrap is the package that new nodes get.
func (p *Packages) bootstrap(ctx context.Context) (*agentPackage, error) {
	version, err := p.current()
	if err != nil {
		return nil, err
	}
	ca, err := p.trust.serverCA(ctx)
	if err != nil {
		return nil, err
	}
	set, err := p.signer.Verifiers(ctx)
	if err != nil {
		return nil, err
	}
	verifiers, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode verifiers: %w", err)
	}
	return p.compose(version,
		agentpackage.File{Name: agentfiles.EnvName, Mode: 0o644, Content: []byte(agentfiles.Env)},
		agentpackage.File{Name: fileCA, Mode: 0o644, Content: []byte(ca.pem)},
		agentpackage.File{Name: fileVerifiers, Mode: 0o644, Content: append(verifiers, '\n')})
}

// bootstrapOf is bootstrap with a digest that the caller was told before; a
// package that was current when the script was rendered is still served.
func (p *Packages) bootstrapOf(ctx context.Context, digest string) (*agentPackage, error) {
	p.mu.Lock()
	for _, made := range p.cache {
		if made.digest == digest {
			p.mu.Unlock()
			return made, nil
		}
	}
	p.mu.Unlock()
	current, err := p.bootstrap(ctx)
	if err != nil {
		return nil, err
	}
	if digest != "" && digest != current.digest {
		return nil, fault.New(fault.Conflict, "agent_package_changed",
			"the agent package is another one than when the script was made").
			WithRemedy("run the bootstrap again: it fetches a new script")
	}
	return current, nil
}

// update is the package that nodes update themselves with: a release, or else what is
// in the folder.
func (p *Packages) update(ctx context.Context, version string) (*agentPackage, error) {
	if !versionForm.MatchString(version) {
		return nil, fault.New(fault.Invalid, "agent_version_invalid", "this is not a version of the agent")
	}
	digest, err := p.releases.Digest(ctx, version)
	switch {
	case err != nil:
		return nil, err
	case digest == "":
		return p.compose(version)
	}
	return p.released(ctx, version, digest)
}

// released reads a release once, for all nodes that fetch it from this replica.
func (p *Packages) released(ctx context.Context, version, digest string) (*agentPackage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := "release " + digest
	if made := p.cache[key]; made != nil {
		return made, nil
	}
	content, err := p.releases.Archive(ctx, digest)
	if err != nil {
		return nil, err
	}
	return p.keep(key, &agentPackage{version: version, digest: "sha256:" + digest, content: content}), nil
}

// keep caches a package in the place of the oldest one. The caller holds the lock.
func (p *Packages) keep(key string, made *agentPackage) *agentPackage {
	if len(p.order) >= keptPackages {
		delete(p.cache, p.order[0])
		p.order = p.order[1:]
	}
	p.cache[key], p.order = made, append(p.order, key)
	return made
}

// Prepare completes the parameters of node.self_update: whoever orders an
// update names the version at most; digest, size and signature come from here.
func (p *Packages) Prepare(ctx context.Context, _ id.Node, raw json.RawMessage) (json.RawMessage, error) {
	var in agentwire.SelfUpdateParams
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); len(raw) > 0 && err != nil {
		return nil, fault.New(fault.Invalid, "node_task_params_invalid", "the parameters of %s cannot be read: %v",
			agentwire.TypeSelfUpdate, err)
	}
	if in.Digest != "" || in.SizeBytes != 0 || in.SignerVersion != "" || len(in.Signature) > 0 {
		return nil, fault.New(fault.Invalid, "node_task_params_invalid",
			"digest, size and signature of a package are filled in, not given").
			WithRemedy("give action and version only")
	}
	switch {
	case in.Action == "":
		in.Action = "update"
	case in.Action != "update":
		return encodeParams(in)
	}
	if in.Version == "" {
		current, err := p.current()
		if err != nil {
			return nil, err
		}
		in.Version = current
	}
	made, err := p.update(ctx, in.Version)
	if err != nil {
		return nil, err
	}
	in.Digest, in.SizeBytes = made.digest, int64(len(made.content))
	if in.SignerVersion, in.Signature, err = p.signer.SignPackage(ctx, in.Version, in.Digest); err != nil {
		return nil, err
	}
	return encodeParams(in)
}

func encodeParams(in agentwire.SelfUpdateParams) (json.RawMessage, error) {
	out, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode parameters of %s: %w", agentwire.TypeSelfUpdate, err)
	}
	return out, nil
}

// current is the version that nodes are bootstrapped with.
func (p *Packages) current() (string, error) {
	if p.folder == "" {
		return "", errNoFolder
	}
	if p.version != "" {
		return p.version, nil
	}
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		return "", fault.Wrap(err, fault.Unavailable, "agent_package_missing", "the folder of agent versions cannot be read").
			WithRemedy("check nodes.agent_folder")
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() && versionForm.MatchString(e.Name()) {
			found = append(found, e.Name())
		}
	}
	if len(found) != 1 {
		return "", fault.New(fault.Unavailable, "agent_version_unclear", "there are %d agent versions to choose from",
			len(found)).
			WithRemedy("set nodes.agent_version to one of the folders in nodes.agent_folder")
	}
	return found[0], nil
}

var errNoFolder = fault.New(fault.Unavailable, "agent_package_missing", "this control plane has no agent to give away").
	WithRemedy("set nodes.agent_folder")

// compose makes the package of a version, or takes it from the cache when
// neither the programs nor the other files have changed.
func (p *Packages) compose(version string, extra ...agentpackage.File) (*agentPackage, error) {
	key, err := p.key(version, extra)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if made := p.cache[key]; made != nil {
		return made, nil
	}
	files, digests := make([]agentpackage.File, 0, len(extra)+3), map[string]string{}
	for _, name := range []string{programAgent, programGPU} {
		content, err := os.ReadFile(filepath.Join(p.folder, version, name)) //nolint:gosec // a version has no separators
		if err != nil {
			return nil, unreadable(err, version, name)
		}
		files = append(files, agentpackage.File{Name: name, Mode: 0o755, Content: content})
		digests[name] = digestOf(content)
	}
	files = append(files, agentpackage.File{Name: agentfiles.UnitName, Mode: 0o644, Content: []byte(agentfiles.Unit)})
	files = append(files, extra...)
	content, err := agentpackage.Write(version, files)
	if err != nil {
		return nil, err
	}
	return p.keep(key, &agentPackage{
		version: version, digest: digestOf(content), content: content, files: digests,
	}), nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Programs returns the digests of the programs of a version by their names, or
// nil if this control plane does not have the version.
func (p *Packages) Programs(ctx context.Context, version string) (map[string]string, error) {
	if !versionForm.MatchString(version) {
		return nil, nil
	}
	released, err := p.releases.Programs(ctx, version)
	if err != nil {
		return nil, err
	}
	if released != nil {
		programs := make(map[string]string, len(released))
		for name, digest := range released {
			programs[name] = "sha256:" + digest
		}
		return programs, nil
	}
	made, err := p.compose(version)
	if err != nil {
		return nil, nil //nolint:nilerr // what is not complete here, is not there
	}
	return made.files, nil
}

// key says what a package is made of, without reading the programs.
func (p *Packages) key(version string, extra []agentpackage.File) (string, error) {
	if p.folder == "" {
		return "", errNoFolder
	}
	h := sha256.New()
	for _, name := range []string{programAgent, programGPU} {
		info, err := os.Stat(filepath.Join(p.folder, version, name)) //nolint:gosec // a version has no separators
		if err != nil || !info.Mode().IsRegular() {
			return "", unreadable(errors.Join(err, fs.ErrNotExist), version, name)
		}
		_, _ = fmt.Fprintf(h, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	for _, f := range extra {
		_, _ = fmt.Fprintf(h, "%s %d %x\n", f.Name, f.Mode, sha256.Sum256(f.Content))
	}
	return version + " " + hex.EncodeToString(h.Sum(nil)), nil
}

func unreadable(cause error, version, name string) error {
	kind := fault.Unavailable
	if errors.Is(cause, fs.ErrNotExist) {
		kind = fault.NotFound
	}
	return fault.Wrap(cause, kind, "agent_package_missing",
		"version %s of the agent is not complete here: %s is missing or cannot be read", version, name).
		WithRemedy("put gpuaas-agent and gpuaas-gpu into nodes.agent_folder/%s, on every replica", version)
}
