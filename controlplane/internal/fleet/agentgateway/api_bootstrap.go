package agentgateway

import (
	"bytes"
	"net/http"
	"time"

	"gpuaas/controlplane/internal/engine/httpapi"
)

// Modes of the bootstrap script.
const (
	modeShell     = "shell"
	modeCloudInit = "cloud_init"
)

// serveCA gives the CA of this listener to every caller. The CA is public, and
// machines believe it only if its fingerprint is the one they were given.
func (g *Gateway) serveCA(w http.ResponseWriter, r *http.Request) error {
	ca, err := g.trust.serverCA(r.Context())
	if err != nil {
		return err
	}
	sendText(w, "application/x-pem-file", ca.pem)
	return nil
}

// serveScript renders the installation script for the holder of a token. The
// script contains the token. Reading the script does not use the token up.
func (g *Gateway) serveScript(w http.ResponseWriter, r *http.Request) error {
	token, grant, err := g.nodeTokenGrant(r)
	if err != nil {
		return err
	}
	mode := r.URL.Query().Get("mode")
	switch mode {
	case "", modeShell:
		current, err := g.packages.bootstrap(r.Context())
		if err != nil {
			return err
		}
		text, err := g.renderer.script(r.Context(), grant.Node, token, current)
		if err != nil {
			return err
		}
		sendText(w, "text/x-shellscript", text.Reveal())
		return nil
	case modeCloudInit:
		text, err := g.renderer.CloudInit(r.Context(), token)
		if err != nil {
			return err
		}
		sendText(w, "text/cloud-config", text.Reveal())
		return nil
	}
	return httpapi.InvalidRequest("mode must be %s or %s", modeShell, modeCloudInit)
}

func sendText(w http.ResponseWriter, media, text string) {
	w.Header().Set("Content-Type", media)
	_, _ = w.Write([]byte(text)) //nolint:gosec // no browser takes these types for a page, and sniffing is forbidden
}

// servePackage gives the agent package to the holder of a token.
func (g *Gateway) servePackage(w http.ResponseWriter, r *http.Request) error {
	_, grant, err := g.nodeTokenGrant(r)
	if err != nil {
		return err
	}
	leave, err := g.meter.download(grant.Node)
	if err != nil {
		return err
	}
	defer leave()
	p, err := g.packages.bootstrapOf(r.Context(), r.URL.Query().Get("digest"))
	if err != nil {
		return err
	}
	sendPackage(w, r, p)
	return nil
}

// serveUpdate gives the programs of one version to a node that was told to
// install it.
func (g *Gateway) serveUpdate(w http.ResponseWriter, r *http.Request, c caller) error {
	leave, err := g.meter.download(c.Node)
	if err != nil {
		return err
	}
	defer leave()
	p, err := g.packages.update(r.Context(), r.PathValue("version"))
	if err != nil {
		return err
	}
	sendPackage(w, r, p)
	return nil
}

// sendPackage also serves parts of a package, so that an agent can resume a
// download that broke off.
func sendPackage(w http.ResponseWriter, r *http.Request, p *agentPackage) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(packageTimeout))
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Gpuaas-Package-Version", p.version)
	w.Header().Set("Gpuaas-Package-Digest", p.digest)
	w.Header().Set("Etag", `"`+p.digest+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(p.content))
}
