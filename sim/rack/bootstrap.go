package rack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gpuaas/contract/agentwire"
)

// carryOut does what cloud-init and the bootstrap script do on a real machine,
// below root. It does not run the script, which would write to this system.
func carryOut(ctx context.Context, root, agentProgram string, payload []byte) error {
	c, err := parseCloudConfig(payload)
	if err != nil {
		return err
	}
	for _, f := range c.WriteFiles {
		content, err := f.bytes()
		if err != nil {
			return err
		}
		mode, err := f.mode()
		if err != nil {
			return err
		}
		if err := writeBelow(root, f.Path, mode, content); err != nil {
			return err
		}
	}
	layers, err := c.layers()
	if err != nil {
		return err
	}
	if len(layers) > 0 {
		return c.carryOutLayers(ctx, root, layers)
	}
	b, found, err := c.bootstrap()
	switch {
	case err != nil:
		return err
	case found:
		return b.run(ctx, root)
	case agentProgram != "":
		return installAgent(root, agentProgram)
	}
	return nil
}

// installAgent installs a program of this system as the agent.
func installAgent(root, program string) error {
	version := filepath.Join(root, "opt/gpuaas/agent/rack")
	if err := os.MkdirAll(version, 0o755); err != nil { //nolint:gosec // programs are public
		return fmt.Errorf("install agent: %w", err)
	}
	return errors.Join(
		point(filepath.Join(version, "gpuaas-agent"), program),
		point(filepath.Dir(filepath.Join(root, agentCurrent)), "rack"),
	)
}

// point makes a link and replaces what a failed boot has left.
func point(link, target string) error {
	_ = os.Remove(link) // if it cannot be removed, it cannot be replaced either
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("install agent: %w", err)
	}
	return nil
}

// bootstrap is what a payload says about becoming a node.
type bootstrap struct {
	base          string // the control plane's URL for nodes
	authorization string
	ca            []byte
	secret        string // the file with the authorization
}

var scriptURL = regexp.MustCompile(`(https://[^/'"\s]+)` + regexp.QuoteMeta(agentwire.PathBootstrapScript))

// bootstrap recognises the pieces by their content, not by where the control
// plane puts them.
func (c cloudConfig) bootstrap() (bootstrap, bool, error) {
	var b bootstrap
	for _, f := range c.WriteFiles {
		content, err := f.bytes()
		if err != nil {
			return b, false, err
		}
		text := string(content)
		if url := scriptURL.FindStringSubmatch(text); url != nil {
			b.base = url[1]
		}
		if header, ok := strings.CutPrefix(text, "Authorization: "); ok {
			b.authorization, b.secret = strings.TrimSpace(header), f.Path
		}
		if strings.Contains(text, "BEGIN CERTIFICATE") {
			b.ca = content
		}
	}
	if b.base == "" {
		return b, false, nil
	}
	if b.authorization == "" || b.ca == nil {
		return b, false, errors.New("read payload of machine: it names the control plane, but token or CA are missing")
	}
	return b, true, nil
}

func (b bootstrap) run(ctx context.Context, root string) error {
	content, version, err := b.fetch(ctx)
	if err != nil {
		return err
	}
	files, err := unpack(content)
	if err != nil {
		return err
	}
	if err := b.install(root, version, files); err != nil {
		return err
	}
	if err := b.enrol(ctx, root); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(root, filepath.Clean("/"+b.secret))); err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	return nil
}

// maxPackage is larger than any agent package.
const maxPackage = 256 << 20

// fetch downloads the agent package, with the patience of a machine that boots
// before its control plane.
func (b bootstrap) fetch(ctx context.Context) (content []byte, version string, err error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b.ca) {
		return nil, "", errors.New("read CA of the control plane: there is no certificate in it")
	}
	client := &http.Client{
		Timeout:   5 * time.Minute,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
	defer client.CloseIdleConnections()
	patience, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		var again bool
		if content, version, again, err = b.ask(patience, client); err == nil || !again {
			return content, version, err
		}
		select {
		case <-patience.Done():
			return nil, "", err
		case <-time.After(time.Second):
		}
	}
}

// ask makes one attempt. again says that another one may succeed.
func (b bootstrap) ask(ctx context.Context, client *http.Client) (
	content []byte, version string, again bool, err error,
) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+agentwire.PathPackage, nil)
	if err != nil {
		return nil, "", false, fmt.Errorf("fetch agent package: %w", err)
	}
	request.Header.Set("Authorization", b.authorization)
	response, err := client.Do(request)
	if err != nil {
		return nil, "", true, fmt.Errorf("fetch agent package: %w", err)
	}
	defer response.Body.Close()
	content, err = io.ReadAll(io.LimitReader(response.Body, maxPackage))
	if err != nil {
		return nil, "", true, fmt.Errorf("fetch agent package: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, "", response.StatusCode >= 500 || response.StatusCode == http.StatusTooManyRequests,
			fmt.Errorf("fetch agent package: %s: %.500s", response.Status, content)
	}
	sum := sha256.Sum256(content)
	if want := response.Header.Get("Gpuaas-Package-Digest"); want != "sha256:"+hex.EncodeToString(sum[:]) {
		return nil, "", true, fmt.Errorf("fetch agent package: its digest is not %q", want)
	}
	return content, response.Header.Get("Gpuaas-Package-Version"), false, nil
}

// unpack reads the files of a package. It has no folders.
func unpack(content []byte) (map[string][]byte, error) {
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("unpack agent package: %w", err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("unpack agent package: %w", err)
		}
		file, err := io.ReadAll(io.LimitReader(archive, maxPackage))
		if err != nil {
			return nil, fmt.Errorf("unpack agent package: %w", err)
		}
		files[header.Name] = file
	}
}

// install puts everything where the bootstrap script puts it.
func (b bootstrap) install(root, version string, files map[string][]byte) error {
	if version == "" || version != filepath.Base(version) {
		return fmt.Errorf("install agent: %q is no version", version)
	}
	base, err := url.Parse(b.base)
	if err != nil {
		return fmt.Errorf("install agent: %w", err)
	}
	_, literal := netip.ParseAddr(base.Hostname())
	settings := strings.NewReplacer("@API_URL@", b.base, "@NODE_ID@", "", "@ALLOW_IP_URL@",
		strconv.FormatBool(literal == nil)).Replace(string(files["agent.env"]))
	programs := "/opt/gpuaas/agent/" + version
	for _, f := range []struct {
		path    string
		mode    os.FileMode
		content []byte
	}{
		{programs + "/gpuaas-agent", 0o755, files["gpuaas-agent"]},
		{programs + "/gpuaas-gpu", 0o755, files["gpuaas-gpu"]},
		{"/etc/gpuaas/agent.env", 0o644, []byte(settings)},
		{"/etc/gpuaas/control-plane-ca.pem", 0o644, b.ca},
		{"/var/lib/gpuaas/verifiers.json", 0o600, files["verifiers.json"]},
		{"/etc/systemd/system/" + agentUnit, 0o644, files[agentUnit]},
		{"/etc/systemd/system/multi-user.target.wants/" + agentUnit, 0o644, files[agentUnit]},
	} {
		if len(f.content) == 0 {
			return fmt.Errorf("install agent: %s is not in the package", filepath.Base(f.path))
		}
		if err := writeBelow(root, f.path, f.mode, f.content); err != nil {
			return err
		}
	}
	return point(filepath.Dir(filepath.Join(root, agentCurrent)), version)
}

// enrol gives the token to the agent, through a file that is deleted at once.
func (b bootstrap) enrol(ctx context.Context, root string) error {
	token := filepath.Join(root, "run/gpuaas-token")
	if err := os.WriteFile(token, []byte(strings.TrimPrefix(b.authorization, "Bearer ")+"\n"), 0o600); err != nil {
		return fmt.Errorf("hand over token: %w", err)
	}
	defer os.Remove(token)
	agent := filepath.Join(root, agentCurrent)
	var said []byte
	var err error
	for range 20 {
		said, err = program(ctx, root, []string{agent, "enroll", "--host-root", root, "--token-file", token}).CombinedOutput()
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		// If a child of another machine was forked while the program was being
		// written, it holds the program open until it has started its own.
		select {
		case <-ctx.Done():
			return fmt.Errorf("enrol machine: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err != nil {
		return fmt.Errorf("enrol machine: %w: %s", err, strings.TrimSpace(string(said)))
	}
	return nil
}
