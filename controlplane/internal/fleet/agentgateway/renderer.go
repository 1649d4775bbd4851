package agentgateway

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/agentwire"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/base/redact"
)

var (
	//go:embed templates/bootstrap.sh
	scriptText string
	//go:embed templates/firstboot.sh
	firstBootText string

	templates = template.Must(template.Must(template.New("script").Parse(scriptText)).New("firstboot").
			Parse(firstBootText))
)

// Renderer writes down how a machine becomes a node: as a command to paste, as
// the script which that fetches, and as user data for cloud-init, which fetches
// the same script. No secret is on a command line of the node in any of them.
type Renderer struct {
	url   string
	trust *Trust
}

// NewRenderer makes a renderer for nodes that reach the control plane at a URL. If
// the URL is empty, every rendering fails with an error that says so.
func NewRenderer(url string, trust *Trust) *Renderer {
	return &Renderer{url: strings.TrimRight(url, "/"), trust: trust}
}

// Where the command and cloud-init put files: a folder of root alone, so that
// nobody can exchange them in between, and gone with the next boot.
const (
	caOnNode            = "/run/gpuaas-ca.pem"
	firstBootCA         = agentwire.FirstBootCredentials + "/ca.pem"
	firstBootCredential = agentwire.FirstBootCredentials + "/authorization"
	firstBootScript     = agentwire.FirstBootCredentials + "/bootstrap.sh"
)

// tokenForm matches tokens that need no quoting in a script.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,256}$`)

// fetchCA bounds how long rendering waits for the CA.
const fetchCA = 10 * time.Second

// Command is the line that an operator pastes into the machine's shell. It
// fetches the CA without verification and believes it only by the fingerprint
// that stands in the line. printf is a builtin of the shell, so the token is in
// no process list.
func (r *Renderer) Command(token redact.Secret) (redact.Secret, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchCA)
	defer cancel()
	ca, err := r.ready(ctx, token)
	if err != nil {
		return redact.Secret{}, err
	}
	return redact.New(fmt.Sprintf("curl -fsSk %[1]s%[2]s -o %[3]s && echo '%[4]s  %[3]s' | sha256sum -c - && "+
		"printf 'Authorization: Bearer %%s' %[5]s | curl -fsS --cacert %[3]s -H @- %[1]s%[6]s | sh",
		r.url, agentwire.PathCA, caOnNode, ca.fingerprint, token.Reveal(), agentwire.PathBootstrapScript)), nil
}

// CAFingerprint is the SHA-256 of the CA that nodes verify the control plane
// with; empty while that is not known.
func (r *Renderer) CAFingerprint() string {
	ctx, cancel := context.WithTimeout(context.Background(), fetchCA)
	defer cancel()
	ca, err := r.trust.serverCA(ctx)
	if err != nil {
		return ""
	}
	return ca.fingerprint
}

// CloudInit is user data that bootstraps the machine at its first boot. The
// script is fetched only then, so that it names the package of that moment.
func (r *Renderer) CloudInit(ctx context.Context, token redact.Secret) (redact.Secret, error) {
	ca, err := r.ready(ctx, token)
	if err != nil {
		return redact.Secret{}, err
	}
	var script bytes.Buffer
	if err := templates.ExecuteTemplate(&script, "firstboot", map[string]string{
		"CA": firstBootCA, "Credential": firstBootCredential, "ScriptURL": r.url + agentwire.PathBootstrapScript,
	}); err != nil {
		return redact.Secret{}, fmt.Errorf("render first boot: %w", err)
	}
	type file struct {
		Path        string `yaml:"path"`
		Owner       string `yaml:"owner"`
		Permissions string `yaml:"permissions"`
		Content     string `yaml:"content"`
	}
	text, err := yaml.Marshal(struct {
		WriteFiles []file     `yaml:"write_files"`
		RunCmd     [][]string `yaml:"runcmd"`
	}{
		WriteFiles: []file{
			{firstBootCA, "root:root", "0600", ca.pem},
			{firstBootCredential, "root:root", "0600", "Authorization: Bearer " + token.Reveal() + "\n"},
			{firstBootScript, "root:root", "0600", script.String()},
		},
		RunCmd: [][]string{{"sh", firstBootScript}},
	})
	if err != nil {
		return redact.Secret{}, fmt.Errorf("render user data: %w", err)
	}
	return redact.New("#cloud-config\n" + string(text)), nil
}

// script is the installation for one node.
func (r *Renderer) script(ctx context.Context, n id.Node, token redact.Secret, p *agentPackage) (redact.Secret, error) {
	ca, err := r.ready(ctx, token)
	if err != nil {
		return redact.Secret{}, err
	}
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, "script", map[string]string{
		"URL": r.url, "NodeID": n.String(), "AllowIPURL": strconv.FormatBool(r.byAddress()), "Version": p.version,
		"Digest":     strings.TrimPrefix(p.digest, "sha256:"),
		"PackageURL": r.url + agentwire.PathPackage + "?digest=" + p.digest,
		"CA":         strings.TrimSpace(ca.pem), "Token": token.Reveal(),
	}); err != nil {
		return redact.Secret{}, fmt.Errorf("render bootstrap script: %w", err)
	}
	return redact.New(out.String()), nil
}

// ready checks what every rendering needs.
func (r *Renderer) ready(ctx context.Context, token redact.Secret) (*bundle, error) {
	if r.url == "" {
		return nil, fault.New(fault.Unavailable, "nodes_url_missing",
			"nobody has said at which address nodes reach the control plane").
			WithRemedy("set nodes.url")
	}
	if !tokenForm.MatchString(token.Reveal()) {
		return nil, fault.New(fault.Internal, "token_not_printable", "a token has a form that cannot stand in a script")
	}
	return r.trust.serverCA(ctx)
}

// byAddress reports whether nodes are told an IP address: agents take one only
// when it is meant.
func (r *Renderer) byAddress() bool {
	u, err := url.Parse(r.url)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil
}
