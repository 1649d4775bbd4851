package artifact

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/operate/policy"
)

// Kind is how an artifact is fetched.
type Kind string

// The kinds of artifacts.
const (
	OCI   Kind = "oci"          // a manifest in a registry
	HTTPS Kind = "https_signed" // a file at an address
)

var kinds = []Kind{OCI, HTTPS}

// Signature is what is known of the signature of an artifact.
type Signature string

// What can be known of signatures.
const (
	Verified Signature = "verified"
	Unsigned Signature = "unsigned"
	Refused  Signature = "refused" // there are some, and none counts
)

// Owner is whose something is: a project's, a tenant's (no project), or the
// platform's (neither).
type Owner struct {
	Org     id.Org
	Project id.Project
}

// Scope names the level of an owner.
func (o Owner) Scope() string { return string(policy.Owner(o).Scope()) }

func (o Owner) String() string { return o.Org.String() + "/" + o.Project.String() }

// Artifact is something that nodes fetch.
type Artifact struct {
	ID           id.Artifact
	Owner        Owner
	Name         string
	Kind         Kind
	Source       string
	Digest       string // sha256:…
	Size         int64
	MediaType    string
	ArtifactType string
	Layers       int32
	Platforms    []Platform
	Labels       map[string]string
	Verdict      Verdict
	CheckedAt    time.Time
	Status       Status
	StatusReason string
	Version      int64
	CreatedAt    time.Time
	CreatedBy    string
	UpdatedAt    time.Time
	UpdatedBy    string
}

// Platform is a manifest that an index names.
type Platform struct {
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	Size     int64  `json:"size"`
	Layers   int32  `json:"layers"`
}

// Verdict says what was found out about signatures.
type Verdict struct {
	Signature Signature
	Format    Format // of the one that was accepted
	Reason    string // why none was
	Key       id.ArtifactKey
	// partial says that there is more than was looked at: it replaces no verdict that counts.
	partial bool
}

// Wish is an artifact to register.
type Wish struct {
	Name   string
	Kind   Kind
	Source string
	Digest string // of a file
	Size   int64  // of a file
	Labels map[string]string
}

const (
	maxArtifacts = 2000   // of one owner that can be fetched
	maxKept      = 20_000 // of one owner in all: what was revoked or retired is kept
	maxLabels    = 32
	maxBytes     = 16 << 40
)

var (
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,98}[a-z0-9])?$`)
	labelForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	// repositoryForm is that of the step that fetches artifacts of registries.
	repositoryForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
)

// repository and digest are the parts of a source in a registry.
func parts(source string) (repository, digest string, ok bool) {
	repository, digest, ok = strings.Cut(source, "@")
	return repository, digest, ok && len(repository) <= 400 && repositoryForm.MatchString(repository) &&
		digestForm.MatchString(digest)
}

// check refuses what makes no sense, and fills in what follows from the rest.
func (w *Wish) check() error {
	var wrong []fault.Field
	refuse := func(path, why string) { wrong = append(wrong, fault.Field{Path: "body." + path, Message: why}) }
	if !nameForm.MatchString(w.Name) {
		refuse("name", "must have 1 to 100 small letters, digits and . _ - /, and begin and end with a letter or digit")
	}
	if len(w.Labels) > maxLabels {
		refuse("labels", fmt.Sprintf("must not have more than %d entries", maxLabels))
	}
	for k, v := range w.Labels {
		if !labelForm.MatchString(k) || len(v) > 200 {
			refuse("labels", "must have names of small letters, digits and . _ - / and values of 200 bytes at most")
			break
		}
	}
	switch w.Kind {
	case OCI:
		w.checkOCI(refuse)
	case HTTPS:
		w.checkFile(refuse)
	}
	if len(wrong) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "artifact_invalid", "the artifact cannot be as asked for: %s %s", wrong[0].Path,
		wrong[0].Message).WithFields(wrong...).WithRemedy("correct what is named")
}

func (w *Wish) checkOCI(refuse func(string, string)) {
	_, digest, ok := parts(w.Source)
	if !ok {
		refuse("source", "must be a repository and a digest, such as registry.example/team/model@sha256:…; a tag can be moved")
		return
	}
	if w.Digest != "" && w.Digest != digest {
		refuse("digest", "is another one than that of the source; leave it out")
	}
	if w.Size != 0 {
		refuse("size", "is read from the registry; leave it out")
	}
	w.Digest = digest
}

func (w *Wish) checkFile(refuse func(string, string)) {
	u, err := url.Parse(w.Source)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || len(w.Source) > 2000:
		refuse("source", "must be an address that begins with https://")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.ContainsAny(w.Source, " \t"):
		refuse("source", "must have no user, query or fragment: they are often secrets, and everybody of the owner reads it")
	}
	if !digestForm.MatchString(w.Digest) {
		refuse("digest", "must be sha256: and 64 hexadecimal digits: nobody could say otherwise what arrived")
	}
	if w.Size < 1 || w.Size > maxBytes {
		refuse("size", "must be between 1 byte and 16 TiB")
	}
}

func missing() error {
	return fault.New(fault.NotFound, "artifact_not_found", "there is no such artifact here").
		WithRemedy("see which there are: gpuaas artifact list")
}
