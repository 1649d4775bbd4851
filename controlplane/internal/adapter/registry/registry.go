// Package registry reads manifests, signatures and small blobs from OCI registries that
// tenants name, with a login if it has one. It dials only what the guard permits, compares
// every answer with its digest, and bounds how much it reads and how long it waits.
package registry

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"gpuaas/controlplane/internal/adapter/guard"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// Codes of refusals.
const (
	CodeMissing        = "artifact_not_in_registry"
	CodeAddressRefused = "registry_address_refused"
	CodeRefuses        = "registry_refuses"
	CodeUnreachable    = "registry_unreachable"
	CodeWrongDigest    = "registry_wrong_digest"
	CodeTooLarge       = "registry_answer_too_large"
)

const (
	maxManifest = 1 << 20 // how much of a manifest is read
	// maxPage is how much of one page of referrers is read: as structures they need much
	// more memory than as text.
	maxPage  = 256 << 10
	maxPages = 100
	// MaxReferrers is how many referrers of an artifact are looked at.
	MaxReferrers = 10_000
	patience     = 20 * time.Second
	maxRedirects = 3
)

// Config is what may be called, and how.
type Config struct {
	Guard guard.Config
	// PlainHTTP are hosts, with their ports, that are asked without TLS.
	PlainHTTP []string
	// SendTo are hosts, with their ports, to which registries may send for tokens and bytes
	// although they are not public.
	SendTo []string
	Roots  *x509.CertPool // nil: those of the system
	Home   *Home          // nil: the platform has no registry of its own
}

// Client reads from registries. Any number of calls may run side by side.
type Client struct {
	plain  map[string]bool
	sendTo map[string]bool
	own    *http.Transport // to where the registry itself may be
	public *http.Transport // to where it sends
	home   *Home
	guard  *guard.Guard

	user     string
	password redact.Secret // none: it asks without a login
}

// New makes a client. It connects to nothing.
func New(cfg Config) *Client {
	c := &Client{plain: map[string]bool{}, sendTo: map[string]bool{}, home: cfg.Home, guard: guard.New(cfg.Guard)}
	for _, host := range cfg.PlainHTTP {
		c.plain[host] = true
	}
	for _, host := range cfg.SendTo {
		c.sendTo[host] = true
	}
	transport := func(by *guard.Guard) *http.Transport {
		return &http.Transport{ // no proxy of the environment: it would connect where nobody checks
			DialContext:         by.Dial,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.Roots},
			TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: 30 * time.Second,
		}
	}
	c.own = transport(c.guard)
	cfg.Guard.Allowed = nil
	c.public = transport(guard.New(cfg.Guard))
	return c
}

// asks is a client for one registry.
func (c *Client) asks(host string) *http.Client {
	return &http.Client{
		Timeout: patience,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return http.ErrUseLastResponse
			}
			r.Header.Del("Authorization") // a token is for the one who asked for it
			return nil
		},
		Transport: sealed{c, host},
	}
}

// sealed sends nothing without TLS, except to hosts that are named, and goes only to public
// addresses where a registry sends for a token or for bytes: networks that the platform
// allows are allowed for registries, and not for whatever they name.
type sealed struct {
	*Client

	host string
}

var errSentElsewhere = errors.New("it sends to a host that cannot be asked")

// RoundTrip implements http.RoundTripper.
func (s sealed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && (!s.plain[r.URL.Host] || r.Header.Get("Authorization") != "") {
		return nil, fmt.Errorf("%s has no TLS", r.URL.Host)
	}
	if r.URL.Host == s.host || s.sendTo[r.URL.Host] {
		return s.own.RoundTrip(r)
	}
	answer, err := s.public.RoundTrip(r)
	if err != nil && r.Context().Err() == nil { // one answer for all: it would tell of our networks
		return nil, errSentElsewhere
	}
	return answer, err
}

// repository is a repository with a memory for its anonymous tokens.
func (c *Client) repository(name string) (*remote.Repository, error) {
	r, err := remote.NewRepository(name)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "artifact_source_invalid", "%.200q names no repository", name).
			WithRemedy("write it as registry.example/team/model@sha256:…")
	}
	r.MaxMetadataBytes = maxManifest
	if c.home != nil && r.Reference.Host() == c.home.Name {
		r.Client = &http.Client{Timeout: patience, Transport: c.home, CheckRedirect: noRedirect}
		return r, nil
	}
	if !c.guard.MayName(strings.Trim(hostOf(r.Reference.Host()), "[]")) {
		return nil, c.fails(name, guard.ErrRefused)
	}
	r.PlainHTTP = c.plain[r.Reference.Host()]
	r.Client = &auth.Client{
		Client: c.asks(r.Reference.Host()), Cache: auth.NewSingleContextCache(), Credential: c.login,
		Header: http.Header{"User-Agent": {"gpuaas"}, "Accept-Encoding": {"identity"}},
	}
	return r, nil
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Manifest reads a manifest by its digest.
func (c *Client) Manifest(ctx context.Context, repository, of string) (mediaType string, body []byte, _ error) {
	r, err := c.repository(repository)
	if err != nil {
		return "", nil, err
	}
	found, stream, err := r.Manifests().FetchReference(ctx, of)
	if err != nil {
		return "", nil, c.fails(repository, err)
	}
	body, err = c.read(repository, stream, of, maxManifest)
	return found.MediaType, body, err
}

// Tagged reads what a tag names now; its digest is that of its bytes.
func (c *Client) Tagged(ctx context.Context, repository, tag string) (mediaType string, body []byte, _ error) {
	r, err := c.repository(repository)
	if err != nil {
		return "", nil, err
	}
	found, stream, err := r.Manifests().FetchReference(ctx, tag)
	if err != nil {
		return "", nil, c.fails(repository, err)
	}
	body, err = c.read(repository, stream, "", maxManifest)
	return found.MediaType, body, err
}

// Blob reads a blob of so many bytes at most by its digest.
func (c *Client) Blob(ctx context.Context, repository, of string, most int64) ([]byte, error) {
	r, err := c.repository(repository)
	if err != nil {
		return nil, err
	}
	_, stream, err := r.Blobs().FetchReference(ctx, of)
	if err != nil {
		return nil, c.fails(repository, err)
	}
	return c.read(repository, stream, of, most)
}

// Referrers lists the digests of what refers to a manifest and is, or may be, of a type.
// A registry without the referrers API is asked for the tag that stands in for it.
func (c *Client) Referrers(ctx context.Context, repository, of, artifactType string) ([]string, error) {
	r, err := c.repository(repository)
	if err != nil {
		return nil, err
	}
	r.MaxMetadataBytes, r.ReferrerListMaxPages = maxPage, maxPages
	var out []string
	seen := 0
	err = r.Referrers(ctx, ocispec.Descriptor{Digest: digest.Digest(of)}, "", func(page []ocispec.Descriptor) error {
		for _, d := range page {
			if seen++; seen > MaxReferrers {
				return fault.New(fault.Conflict, CodeTooLarge, "more than %d artifacts refer to %s in %s", MaxReferrers, of,
					repository).WithRemedy("delete those that are old from the registry")
			}
			// Some registries say the type of the configuration, or none, instead of the artifact's.
			if d.ArtifactType == artifactType || d.ArtifactType == "" || d.ArtifactType == ocispec.MediaTypeEmptyJSON {
				out = append(out, d.Digest.String())
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return nil, c.fails(repository, err)
	}
	return out, nil
}

// read reads a body to its end, and compares it with its digest where there is one.
func (c *Client) read(repository string, from io.ReadCloser, of string, most int64) ([]byte, error) {
	defer func() { _ = from.Close() }() // what was read of it is what counts
	body, err := io.ReadAll(io.LimitReader(from, most+1))
	if err != nil {
		return nil, c.fails(repository, err)
	}
	if int64(len(body)) > most {
		return nil, fault.New(fault.Conflict, CodeTooLarge, "%s answers with more than %d bytes", repository, most).
			WithRemedy("an artifact with so much in its manifest or signature cannot be registered")
	}
	sum := sha256.Sum256(body)
	if got := "sha256:" + hex.EncodeToString(sum[:]); of != "" && got != of {
		return nil, fault.New(fault.Conflict, CodeWrongDigest, "%s answers with %s, and %s was asked for", repository,
			got, of).
			WithRemedy("nothing of it was used; ask whoever runs the registry")
	}
	return body, nil
}

// fails says what happened in words of ours. Texts of a registry are not repeated: it may
// be anybody's.
func (c *Client) fails(repository string, err error) error {
	if f, ok := fault.As(err); ok {
		return f
	}
	var answer *errcode.ErrorResponse
	switch {
	case errors.Is(err, guard.ErrRefused), errors.Is(err, errNotAsked):
		return fault.New(fault.Invalid, CodeAddressRefused, "%s leads to a network that may not be called", repository).
			WithRemedy("use a registry on the public internet; whoever runs the platform can allow a network with the " +
				"setting registries.allowed_networks")
	case errors.Is(err, errdef.ErrNotFound):
		return fault.New(fault.Conflict, CodeMissing, "%s has no such manifest or blob", repository).
			WithRemedy("push it first, and give the digest that the push printed")
	case errors.Is(err, errdef.ErrSizeExceedsLimit), errors.Is(err, errdef.ErrTooManyPages):
		return fault.New(fault.Conflict, CodeTooLarge, "%s answers with more than is read", repository).
			WithRemedy("an artifact with so much in its manifest or signature cannot be registered")
	case errors.As(err, &answer) &&
		(answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden),
		errors.Is(err, auth.ErrBasicCredentialNotFound):
		if !c.password.IsZero() {
			return loginRefused(repository)
		}
		return fault.New(fault.Conflict, CodeRefuses, "%s does not let everybody read it", repository).
			WithRemedy("add a login for it, of whoever registers the artifact: gpuaas artifact source add")
	case errors.As(err, &answer):
		return fault.New(fault.Unavailable, CodeUnreachable, "%s answers with status %d", repository, answer.StatusCode).
			WithRemedy("try again later")
	}
	return fault.Wrap(fmt.Errorf("ask registry: %w", err), fault.Unavailable, CodeUnreachable, "%s cannot be reached",
		repository).WithRemedy("check the address, and try again later")
}
