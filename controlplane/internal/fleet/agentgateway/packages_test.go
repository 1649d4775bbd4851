package agentgateway_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	agentfiles "gpuaas/deploy/agent"
)

func unpack(t *testing.T, content []byte) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tape := tar.NewReader(zip); ; {
		h, err := tape.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) ||
			strings.Contains(h.Name, "/") {
			t.Errorf("%+v tells about this machine", h)
		}
		text, err := io.ReadAll(tape)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(text)
	}
}

func names(files map[string]string) string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestTheBootstrapPackage(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	n, token := p.newNode(t, "gpu-1")
	a := &agent{tb: t, p: p, node: n.ID, client: p.client(nil), instance: "m", session: "s"}
	bearer := []string{"Authorization", "Bearer " + token.Reveal()}
	got := a.send(http.MethodGet, agentwire.PathPackage, "", nil, bearer...).want(http.StatusOK, "")
	if got.header.Get("Gpuaas-Package-Digest") != digestOf(got.body) ||
		got.header.Get("Gpuaas-Package-Version") != version {
		t.Errorf("%v", got.header)
	}
	files := unpack(t, got.body)
	if names(files) != "agent.env control-plane-ca.pem gpuaas-agent gpuaas-gpu gpuaas-node-agent.service package.json verifiers.json" {
		t.Error(names(files))
	}
	if files["control-plane-ca.pem"] != p.trust.ServerPEM() || files[agentfiles.UnitName] != agentfiles.Unit {
		t.Error("the package holds other files than it should")
	}
	var set agentwire.VerifierSet
	if err := json.Unmarshal([]byte(files["verifiers.json"]), &set); err != nil || set.Validate() != nil {
		t.Errorf("%v %+v", err, set)
	}
	var manifest struct {
		Version string
		Files   []struct{ Name, SHA256 string }
	}
	if err := json.Unmarshal([]byte(files["package.json"]), &manifest); err != nil || manifest.Version != version ||
		len(manifest.Files) != 6 {
		t.Errorf("%v %+v", err, manifest)
	}
	for _, f := range manifest.Files {
		if "sha256:"+f.SHA256 != digestOf([]byte(files[f.Name])) {
			t.Errorf("%s is not what package.json says", f.Name)
		}
	}

	part := a.send(http.MethodGet, agentwire.PathPackage, "", nil, append(bearer, "Range", "bytes=10-19")...)
	if part.status != http.StatusPartialContent || !bytes.Equal(part.body, got.body[10:20]) {
		t.Errorf("a download cannot go on: %d", part.status)
	}
	// After a rotation the package is another one. The old one is still served
	// to scripts that name it; one that nobody knows is not.
	if _, err := p.signer.Rotate(p.ctx, "test", false); err != nil {
		t.Fatal(err)
	}
	rotated := a.send(http.MethodGet, agentwire.PathPackage, "", nil, bearer...).want(http.StatusOK, "")
	if bytes.Equal(rotated.body, got.body) {
		t.Error("the verifiers of the package are old")
	}
	old := a.send(http.MethodGet, agentwire.PathPackage, "digest="+digestOf(got.body), nil, bearer...).
		want(http.StatusOK, "")
	if !bytes.Equal(old.body, got.body) {
		t.Error("another package than the one that was named")
	}
	a.send(http.MethodGet, agentwire.PathPackage, "digest=sha256:"+strings.Repeat("0", 64), nil, bearer...).
		want(http.StatusConflict, "agent_package_changed")
}

func TestAnUpdateIsPreparedSignedAndServed(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	a := p.active(t, "gpu-1")
	prepared, err := p.packages.Prepare(t.Context(), a.node, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := agentwire.Lookup(agentwire.TypeSelfUpdate)
	decoded, err := spec.Decode(prepared)
	if err != nil {
		t.Fatal(err)
	}
	params := decoded.(*agentwire.SelfUpdateParams)
	if err := a.issued.Verifiers.VerifyPackage(params.Version, params.Digest, params.SignerVersion,
		params.Signature); err != nil {
		t.Error(err)
	}
	// A rotation between order and download changes nothing about the package.
	if _, err := p.signer.Rotate(p.ctx, "test", false); err != nil {
		t.Fatal(err)
	}
	got := a.get(strings.Replace(agentwire.PathNodePackage, "{version}", params.Version, 1), "").want(http.StatusOK, "")
	if digestOf(got.body) != params.Digest || int64(len(got.body)) != params.SizeBytes {
		t.Errorf("%d bytes with %s, announced %+v", len(got.body), digestOf(got.body), params)
	}
	if files := unpack(t, got.body); names(files) != "gpuaas-agent gpuaas-gpu gpuaas-node-agent.service package.json" {
		t.Errorf("an update must not touch what a node trusts: %s", names(files))
	}
	a.get(strings.Replace(agentwire.PathNodePackage, "{version}", "9.9.9", 1), "").
		want(http.StatusNotFound, "agent_package_missing")
	a.get(strings.Replace(agentwire.PathNodePackage, "{version}", "-x", 1), "").
		want(http.StatusUnprocessableEntity, "agent_version_invalid")
	a.get(strings.Replace(agentwire.PathNodePackage, "{version}", "..%2f..%2fetc", 1), "").
		want(http.StatusNotFound, "not_found")
}

func TestPreparingAnUpdate(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	for raw, want := range map[string]string{
		`{"action":"update","version":"9.9.9"}`:    "agent_package_missing",
		`{"action":"update","version":"../x"}`:     "agent_version_invalid",
		`{"version":"1.2.3","digest":"sha256:00"}`: "node_task_params_invalid",
		`{"version":"1.2.3","signature":"AAAA"}`:   "node_task_params_invalid",
		`{"version":"1.2.3","surprise":1}`:         "node_task_params_invalid",
		`[]`:                                       "node_task_params_invalid",
		`{"action":"rollback"}`:                    "",
		`{"action":"update","version":"1.2.3"}`:    "",
		``:                                         "",
	} {
		_, err := p.packages.Prepare(t.Context(), id.New[id.Node](), json.RawMessage(raw))
		if got := codeOf(err); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return fault.CodeOf(err)
}

// Two replicas, on disks that were filled at different times, must offer the
// same bytes: the digest comes from one and the package from the other.
func TestPackagesAreTheSameEverywhere(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	elsewhere := agentFolder(t, version)
	for _, name := range []string{"gpuaas-agent", "gpuaas-gpu"} {
		if err := os.Chtimes(filepath.Join(elsewhere, version, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	other := p.packagesOf(elsewhere, version)
	one, err := p.packages.Prepare(t.Context(), id.New[id.Node](), nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := other.Prepare(t.Context(), id.New[id.Node](), nil)
	if err != nil || string(one) != string(two) {
		t.Errorf("%s\n%s\n%v", one, two, err)
	}
	// Another program under the same version is another package.
	if err := os.WriteFile(filepath.Join(elsewhere, version, "gpuaas-agent"), []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if three, err := other.Prepare(t.Context(), id.New[id.Node](), nil); err != nil || string(three) == string(one) {
		t.Errorf("a changed program went unnoticed: %v", err)
	}
}

func TestFoldersWithoutAnAgent(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	half := agentFolder(t, version)
	if err := os.Remove(filepath.Join(half, version, "gpuaas-gpu")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ folder, version, code string }{
		"none":            {"", "", "agent_package_missing"},
		"none, named":     {"", version, "agent_package_missing"},
		"gone":            {filepath.Join(half, "x"), "", "agent_package_missing"},
		"empty":           {t.TempDir(), "", "agent_version_unclear"},
		"two":             {agentFolder(t, "1.0", "1.1"), "", "agent_version_unclear"},
		"two, one chosen": {agentFolder(t, "1.0", "1.1"), "1.1", ""},
		"half":            {half, "", "agent_package_missing"},
	} {
		_, err := p.packagesOf(c.folder, c.version).
			Prepare(t.Context(), id.New[id.Node](), nil)
		if got := codeOf(err); got != c.code {
			t.Errorf("%s: got %v, want %q", name, err, c.code)
		}
	}
}

// A node that is told to install a release gets the archive that was uploaded, and not
// what a folder of a replica happens to hold.
func TestAReleaseIsGivenAsItWasUploaded(t *testing.T) {
	t.Parallel()
	p := newPlane(t, newEngine(t))
	archive := []byte("the archive of a release")
	p.releases.archives = map[string][]byte{"2.0.0": archive}
	raw, err := p.packages.Prepare(t.Context(), id.New[id.Node](), []byte(`{"version":"2.0.0"}`))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(archive)
	if want := `"digest":"sha256:` + hex.EncodeToString(sum[:]) + `","size_bytes":24`; !strings.Contains(string(raw), want) {
		t.Errorf("ordered %s, without %s", raw, want)
	}
	programs, err := p.packages.Programs(t.Context(), "2.0.0")
	if err != nil || programs["gpuaas-agent"] != "sha256:aa" {
		t.Errorf("its programs are %v, %v", programs, err)
	}
	_, err = p.packages.Prepare(t.Context(), id.New[id.Node](), []byte(`{"version":"6.6.6"}`))
	if got := codeOf(err); got != "agent_version_blocked" {
		t.Errorf("a blocked version: %v", err)
	}
}
