package objects

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Codes of refusals.
const (
	CodeAddressRefused = "hub_address_refused"
	CodeMissing        = "hub_has_no_such_file"
	CodeNoFile         = "hub_address_names_no_file"
	CodeOtherFile      = "hub_has_another_file"
	CodeNoAddress      = "hub_gives_no_address"
	CodeRefuses        = "hub_refuses"
	CodeUnreachable    = "hub_unreachable"
)

// hubAddress is the form of the address of a file at a commit of a repository.
var hubAddress = regexp.MustCompile(
	`^https://[a-z0-9.:-]+/(datasets/|spaces/)?[A-Za-z0-9._-]+/[A-Za-z0-9._-]+/resolve/[0-9a-f]{40}/[A-Za-z0-9._/-]+$`)

// Hub asks hubs that speak as that of Hugging Face does.
type Hub struct {
	client *http.Client
	guard  *guard.Guard
}

const hubPatience = 20 * time.Second

// NewHub makes one that calls what the guard permits. Roots nil: those of the system.
func NewHub(g guard.Config, roots *x509.CertPool) *Hub {
	by := guard.New(g)
	return &Hub{guard: by, client: &http.Client{
		Timeout:       hubPatience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{ // no proxy of the environment: it would connect where nobody checks
			DialContext: by.Dial, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
			TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 30 * time.Second,
		},
	}}
}

// maxMoves is how often a hub may say that a repository has another name.
const maxMoves = 2

// Resolve asks where the bytes of a file are, with a token if there is one. The address
// that it answers is good for as long as the hub says; the token is shown to the hub only.
func (h *Hub) Resolve(ctx context.Context, address, digest string, token redact.Secret) (redact.Secret, error) {
	for range maxMoves + 1 {
		answer, err := h.ask(ctx, address, token)
		if err != nil {
			return redact.Secret{}, err
		}
		switch {
		case answer.to == nil:
			return redact.Secret{}, refused(address, answer.status)
		case answer.to.Host == answer.by: // the repository was renamed
			address = answer.to.String()
			continue
		}
		return where(address, digest, answer.sum, answer.to)
	}
	return redact.Secret{}, noAddress(address)
}

// said is what a hub answers about a file.
type said struct {
	by     string // the host
	status int
	to     *url.URL // where it sends; nil: nowhere
	sum    string   // SHA-256 of the file; empty: it does not say it
}

func (h *Hub) ask(ctx context.Context, address string, token redact.Secret) (said, error) {
	u, err := url.Parse(address)
	if err == nil && !hubAddress.MatchString(address) {
		return said{}, fault.New(fault.Invalid, CodeNoFile, "%s is no file at a commit of a repository", address).
			WithRemedy("register it as https://huggingface.co/acme/llm/resolve/COMMIT/model.safetensors, with the 40 digits of the " +
				"commit: a branch can be moved")
	}
	if err != nil || u.Scheme != "https" || !h.guard.MayName(u.Hostname()) {
		return said{}, notAllowed(address)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, address, nil)
	if err != nil {
		return said{}, notAllowed(address)
	}
	request.Header.Set("Accept-Encoding", "identity")
	if !token.IsZero() {
		request.Header.Set("Authorization", "Bearer "+token.Reveal())
	}
	answer, err := h.client.Do(request)
	switch {
	case errors.Is(err, guard.ErrRefused):
		return said{}, notAllowed(address)
	case err != nil:
		return said{}, fault.Wrap(err, fault.Unavailable, CodeUnreachable, "%s cannot be reached", u.Host).
			WithRemedy("check the address, and try again later")
	}
	_ = answer.Body.Close() // it has none
	out := said{by: u.Host, status: answer.StatusCode, sum: strings.Trim(answer.Header.Get("X-Linked-Etag"), `"`)}
	if to, err := answer.Location(); err == nil {
		out.to = to
	}
	return out, nil
}

// where answers an address with the bytes that are meant.
func where(address, digest, sum string, to *url.URL) (redact.Secret, error) {
	switch {
	case "sha256:"+sum != digest:
		return redact.Secret{}, fault.New(fault.Conflict, CodeOtherFile, "%s is a file with the SHA-256 %.64q, and %s is "+
			"registered", address, sum, digest).WithRemedy("compare digest and commit with those of the file")
	case to.Scheme != "https" || to.User != nil:
		return redact.Secret{}, noAddress(address)
	}
	return redact.New(to.String()), nil
}

func notAllowed(address string) error {
	return fault.New(fault.Invalid, CodeAddressRefused, "%s is not at a host that may be called", address).
		WithRemedy("use a hub on the public internet; whoever runs the platform can allow a network with the setting " +
			"registries.allowed_networks")
}

func noAddress(address string) error {
	return fault.New(fault.Conflict, CodeNoAddress, "the hub keeps %s itself, and gives no address that reads it alone",
		address).WithRemedy("files that the hub keeps as large ones (LFS, Xet) can be fetched; push small ones to the " +
		"platform's own registry: gpuaas artifact push")
}

func refused(address string, status int) error {
	switch status {
	case http.StatusOK:
		return noAddress(address)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Conflict, CodeRefuses, "the hub does not let the token of the artifact source read %s", address).
			WithRemedy("accept the terms of the model with that account, or replace the token: gpuaas artifact source rotate SOURCE")
	case http.StatusNotFound:
		return fault.New(fault.Conflict, CodeMissing, "the hub has no %s", address).
			WithRemedy("check repository, commit and path")
	default:
		return fault.New(fault.Unavailable, CodeUnreachable, "the hub answers with status %d about %s", status, address).
			WithRemedy("try again later")
	}
}
