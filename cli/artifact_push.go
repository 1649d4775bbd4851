package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/cli/internal/listing"
	"gpuaas/cli/internal/pack"
	"gpuaas/contract/agentwire"
	"gpuaas/contract/apiclient"
)

// artifactTypeFiles is the type of artifacts that are some files and nothing else.
const artifactTypeFiles = "application/vnd.gpuaas.files.v1"

func (a *app) artifactPushCommand() *cobra.Command {
	return a.verb(verb{
		use: "push NAME PATH", short: "Push files to the platform's registry, and register them",
		args: frame.Exactly("NAME", "PATH"),
		operations: []string{
			"register-project-artifact", "register-global-artifact", "get-project", "get-tenant",
		},
		long: "PATH is a file or a folder, whose files become layers of an artifact. What the registry has already is not\n" +
			"sent again, and the same files get the same digest. Other clients of registries can push as well, to\n" +
			"TENANT/PROJECT/NAME at the address of the API, with a token as their password.",
		example: "  gpuaas artifact push llm ./llama --project acme/training",
		flags: func(cmd *cobra.Command) action {
			l := addLevelFlags(cmd)
			tag := cmd.Flags().String("tag", "latest", "a name that can be moved to what is pushed later")
			labels := cmd.Flags().StringToString("label", nil, "NAME=VALUE; may be repeated")
			return func(s *session, args []string) error {
				level, err := l.artifacts(s)
				if err != nil {
					return err
				}
				repository, err := l.repository(s, args[0])
				if err != nil {
					return err
				}
				pushed, err := s.push(repository, *tag, args[1])
				if err != nil {
					return err
				}
				s.Note("pushed as %s/%s@%s", agentwire.PlatformRegistry, repository, pushed)
				return frame.Show(s.Session, a.artifactColumns())(level.registerOnce(apiclient.ArtifactNewBody{
					Name: args[0], Kind: apiclient.ArtifactNewBodyKindOci, Labels: frame.Given(s.Session, "label", labels),
					Source: agentwire.PlatformRegistry + "/" + repository + "@" + pushed,
				}))
			}
		},
	})
}

// registerOnce registers what was pushed; what is registered already is answered as it is.
func (l artifactLevel) registerOnce(body apiclient.ArtifactNewBody) (apiclient.Answer, error) {
	made, err := l.register(body)
	var refused *apiclient.Problem
	if !errors.As(err, &refused) || refused.Code != "artifact_exists" {
		return made, err
	}
	found, there, findErr := listing.Find(func(p listing.Page) (apiclient.Answer, error) { return l.list(p, nil) },
		func(v apiclient.ArtifactView) bool {
			return v.Source == body.Source && v.Status != apiclient.ArtifactViewStatusRetired
		})
	if findErr != nil || !there {
		return made, errors.Join(err, findErr)
	}
	return l.get(found.ArtifactId)
}

// repository is what the platform's registry calls something of a project, or of the
// platform.
func (l *levelFlags) repository(s *session, name string) (string, error) {
	if l.global {
		return "platform.gpuaas/" + name, nil
	}
	if l.project == "" {
		return "", failure.Misuse(s.Cmd, "repositories are of projects: name one with --project, or the platform with --global")
	}
	at, err := s.projectID(l.scope)
	if err != nil {
		return "", err
	}
	project, err := frame.Fetch[apiclient.IdentityProjectView](s.API.GetProjectWithResponse(s.Ctx, at))
	if err != nil {
		return "", err
	}
	tenant, err := frame.Fetch[apiclient.IdentityTenantView](s.API.GetTenantWithResponse(s.Ctx, project.OrgId))
	if err != nil {
		return "", err
	}
	return tenant.Slug + "/" + project.Slug + "/" + name, nil
}

// push sends the files at a path, and answers the digest of their manifest.
func (s *session) push(repository, tag, path string) (string, error) {
	to, err := s.ownRegistry(repository)
	if err != nil {
		return "", err
	}
	s.Note("reading %s", path)
	layers, err := pack.Layers(path)
	if err != nil {
		return "", failure.New(failure.Usage, "files_unreadable", "name a file, or a folder with files", "%v", err)
	}
	var described []ocispec.Descriptor
	for i, l := range layers {
		d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.Digest(l.Digest), Size: l.Size}
		described = append(described, d)
		there, err := to.Blobs().Exists(s.Ctx, d)
		if err != nil {
			return "", notPushed(err)
		}
		if there {
			s.Note("layer %d of %d is there already", i+1, len(layers))
			continue
		}
		s.Note("pushing layer %d of %d, %.1f MB", i+1, len(layers), float64(l.Size)/1e6)
		from := l.Open()
		err = to.Blobs().Push(s.Ctx, d, from)
		if err = errors.Join(err, from.Close()); err != nil {
			return "", notPushed(err)
		}
	}
	made, err := oras.PackManifest(s.Ctx, to, oras.PackManifestVersion1_1, artifactTypeFiles, oras.PackManifestOptions{
		Layers: described,
		// Otherwise the same files would have another digest each time.
		ManifestAnnotations: map[string]string{ocispec.AnnotationCreated: "1970-01-01T00:00:00Z"},
	})
	if err == nil {
		err = to.Tag(s.Ctx, made, tag)
	}
	if err != nil {
		return "", notPushed(err)
	}
	return made.Digest.String(), nil
}

// ownRegistry is a repository of the platform's registry, which is where the API is.
func (s *session) ownRegistry(repository string) (*remote.Repository, error) {
	at, err := url.Parse(s.URL)
	if err != nil {
		return nil, fmt.Errorf("read the address of the API: %w", err)
	}
	to, err := remote.NewRepository(at.Host + "/" + repository)
	if err != nil {
		return nil, failure.New(failure.Usage, "repository_invalid",
			"use small letters, digits and . _ - / in the name", "%s names no repository", repository)
	}
	client := bearer{token: s.Token, http: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
	if s.CAFile != "" {
		roots, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is that of the standard library
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(roots)
		client.http.Transport = transport
	}
	to.PlainHTTP, to.Client = at.Scheme == "http", client
	return to, nil
}

// bearer asks with the token of the session.
type bearer struct {
	token string
	http  *http.Client
}

// Do implements remote.Client.
func (b bearer) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.http.Do(r) //nolint:gosec // its address is that of the context
}

// notPushed says in the words of the registry why it took nothing.
func notPushed(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		return failure.New(failure.Unavailable, "registry_unavailable",
			"push again: what arrived as a whole is not sent again", "the files could not be pushed: %v", err)
	}
	code, words := "registry_refuses", []string{}
	for _, one := range answer.Errors {
		words = append(words, one.Message)
		if raw, err := json.Marshal(one.Detail); err == nil {
			var detail struct{ Code string }
			if json.Unmarshal(raw, &detail) == nil && detail.Code != "" {
				code = detail.Code
			}
		}
	}
	if len(words) == 0 {
		words = []string{fmt.Sprintf("it answers with status %d", answer.StatusCode)}
	}
	exit, known := map[int]int{
		http.StatusUnauthorized: failure.Unauthenticated, http.StatusForbidden: failure.Forbidden,
		http.StatusNotFound: failure.NotFound, http.StatusTooManyRequests: failure.Unavailable,
		http.StatusServiceUnavailable: failure.Unavailable,
	}[answer.StatusCode]
	if !known {
		exit = failure.Conflict
	}
	return failure.New(exit, code, "correct what is named, and push again", "the registry did not take the files: %s",
		strings.Join(words, "; "))
}
