package agentgateway

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	agentfiles "gpuaas/deploy/agent"
)

// Names of the files of a package besides those of agentfiles.
const (
	programAgent  = "gpuaas-agent"
	programGPU    = "gpuaas-gpu"
	fileCA        = "control-plane-ca.pem"
	fileVerifiers = "verifiers.json"
	fileManifest  = "package.json"
)

// Packages makes agent packages out of a folder of programs. The same input
// gives the same bytes in every replica, so a digest means the same everywhere.
//
// There are two kinds. The one for the bootstrap of a node holds everything,
// what it is to trust included. The one for updates holds programs and unit
// only: an update must not replace what a node trusts, and its digest must not
// change between the order and the download because a signer was rotated.
type Packages struct {
	folder, version string
	trust           *Trust
	signer          Signer

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

// NewPackages makes a store. New nodes get this version; if it is empty, they get
// the only version in the folder.
func NewPackages(folder, version string, trust *Trust, signer Signer) *Packages {
	return &Packages{folder: folder, version: version, trust: trust, signer: signer, cache: map[string]*agentPackage{}}
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
		packageFile{agentfiles.EnvName, 0o644, []byte(agentfiles.Env)},
		packageFile{fileCA, 0o644, []byte(ca.pem)},
		packageFile{fileVerifiers, 0o644, append(verifiers, '\n')})
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

// update is the package that nodes update themselves with.
func (p *Packages) update(_ context.Context, version string) (*agentPackage, error) {
	if !versionForm.MatchString(version) {
		return nil, fault.New(fault.Invalid, "agent_version_invalid", "this is not a version of the agent")
	}
	return p.compose(version)
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

// packageFile is one file of a package.
type packageFile struct {
	name    string
	mode    int64
	content []byte
}

// compose makes the package of a version, or takes it from the cache when
// neither the programs nor the other files have changed.
func (p *Packages) compose(version string, extra ...packageFile) (*agentPackage, error) {
	key, err := p.key(version, extra)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if made := p.cache[key]; made != nil {
		return made, nil
	}
	files, digests := make([]packageFile, 0, len(extra)+4), map[string]string{}
	for _, name := range []string{programAgent, programGPU} {
		content, err := os.ReadFile(filepath.Join(p.folder, version, name)) //nolint:gosec // a version has no separators
		if err != nil {
			return nil, unreadable(err, version, name)
		}
		files = append(files, packageFile{name, 0o755, content})
		digests[name] = digestOf(content)
	}
	files = append(files, packageFile{agentfiles.UnitName, 0o644, []byte(agentfiles.Unit)})
	files = append(files, extra...)
	content, err := archive(version, files)
	if err != nil {
		return nil, err
	}
	made := &agentPackage{version: version, digest: digestOf(content), content: content, files: digests}
	if len(p.order) >= keptPackages {
		delete(p.cache, p.order[0])
		p.order = p.order[1:]
	}
	p.cache[key], p.order = made, append(p.order, key)
	return made, nil
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Programs returns the digests of the programs of a version by their names, or
// nil if this control plane does not have the version.
func (p *Packages) Programs(version string) map[string]string {
	if !versionForm.MatchString(version) {
		return nil
	}
	made, err := p.compose(version)
	if err != nil {
		return nil
	}
	return made.files
}

// key says what a package is made of, without reading the programs.
func (p *Packages) key(version string, extra []packageFile) (string, error) {
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
		_, _ = fmt.Fprintf(h, "%s %d %x\n", f.name, f.mode, sha256.Sum256(f.content))
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

// manifest is the content of package.json.
type manifest struct {
	Package string         `json:"package"`
	Version string         `json:"version"`
	Files   []manifestFile `json:"files"`
}

type manifestFile struct {
	Name      string `json:"name"`
	SizeBytes int    `json:"size_bytes"`
	SHA256    string `json:"sha256"`
}

// archive writes the files without times, owners or names of this machine, so
// that the same files give the same bytes.
func archive(version string, files []packageFile) ([]byte, error) {
	m := manifest{Package: "gpuaas-agent", Version: version}
	for _, f := range files {
		sum := sha256.Sum256(f.content)
		m.Files = append(m.Files, manifestFile{Name: f.name, SizeBytes: len(f.content), SHA256: hex.EncodeToString(sum[:])})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode manifest of agent %s: %w", version, err)
	}
	files = append(files, packageFile{fileManifest, 0o644, append(text, '\n')})
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tape := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if err := tape.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s of agent %s: %w", f.name, version, err)
		}
		if _, err := tape.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s of agent %s: %w", f.name, version, err)
		}
	}
	if err := errors.Join(tape.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("pack agent %s: %w", version, err)
	}
	return out.Bytes(), nil
}
