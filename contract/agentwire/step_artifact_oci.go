package agentwire

import (
	"regexp"
	"strconv"
	"strings"
)

// StepArtifactPullOCI unpacks an OCI artifact into a folder.
const StepArtifactPullOCI = "artifact.pull_oci"

// PlatformRegistry is the name of the platform's own registry, the same for every node. An
// agent reaches it at the listener for nodes, below PathRegistryObjects, with its
// certificate and no token.
const (
	PlatformRegistry    = "registry.gpuaas.internal"
	PathRegistryObjects = "/v2/"
)

var _ = declareStep[ArtifactPullOCIWith, ArtifactPullOCIResult](StepKind{
	Kind: StepArtifactPullOCI, Title: "unpack an OCI artifact into a folder", Impact: ImpactMutate, Interruptible: true,
	chosen: fileChosen,
	Checks: "The manifest and every layer by digest, and afterwards every file of the folder: one that was changed is " +
		"noticed. A registry that refuses, or sends elsewhere, is asked again with what an artifact source of the control " +
		"plane gives for it. Layers that are there are not fetched again. Archives write nothing outside of the folder: names and " +
		"links that lead out, devices, and more files or bytes than allowed are refused; set-id bits are dropped. The " +
		"folder takes its place as a whole.",
	Sound: []string{
		`{"reference":"registry.example/team/model@sha256:` + emptySum + `","bytes":5368709120,"path":"/srv/models/llm",` +
			`"folders":true}`,
		`{"reference":"10.0.0.7:5000/model@sha256:` + emptySum + `","plain_http":true,"mirrors":["10.0.0.8:5000/model"],` +
			`"bytes":1,"unpacked_bytes":1,"files":1,"path":"/srv/m"}`,
		`{"reference":"registry.example/model@sha256:` + emptySum + `","bytes":1,"path":"/srv/m",` +
			`"token":"${steps.token.values.token}"}`,
	},
	Answer: `{"path":"/srv/simulated","changed":true,"digest":"sha256:` + emptySum + `","layers":1,"bytes":1,"files":1,` +
		`"unpacked_bytes":1}`,
})

// ArtifactPullOCIWith says which artifact is fetched, from where, and which folder it
// becomes.
type ArtifactPullOCIWith struct {
	// Reference is host/repository@sha256:…: a manifest, or an index, of which the
	// manifest for linux and the architecture of the node is taken.
	Reference string   `json:"reference"`
	Mirrors   []string `json:"mirrors,omitempty"`    // other host/repository that have the same digest; eight at most
	PlainHTTP bool     `json:"plain_http,omitempty"` // the registries speak no HTTPS; not with a token
	Bytes     int64    `json:"bytes"`                // that all layers together may have
	// UnpackedBytes is what the files may have together. Empty: four times bytes.
	UnpackedBytes int64 `json:"unpacked_bytes,omitempty"`
	Files         int   `json:"files,omitempty"` // how many files there may be; empty: 100000
	// Path is a folder below one of FileRoots. It is made by this step, or was by an
	// earlier run of it.
	Path string `json:"path"`
	// Folders says that missing folders above are made, for root only to write to.
	Folders bool `json:"folders,omitempty"`
	// Token is the handle of a secret that is sent as a bearer token.
	Token       Secret `json:"token,omitempty"`
	MiBASecond  int64  `json:"mib_per_second,omitempty"` // empty: no limit
	KeepFreeMiB int64  `json:"keep_free_mib,omitempty"`  // of the file system, left to others
}

// DefaultFiles is how many files an artifact may have where nothing else is said.
const DefaultFiles = 100_000

var (
	ociRepository = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
	ociReference  = regexp.MustCompile(`^([^@]{1,400})@(sha256:[0-9a-f]{64})$`)
)

// Parts are the repository of the reference and its digest.
func (w ArtifactPullOCIWith) Parts() (repository, digest string) {
	repository, digest, _ = strings.Cut(w.Reference, "@")
	return repository, digest
}

// Repositories lists the addresses of the repository and its mirrors.
func (w ArtifactPullOCIWith) Repositories() []string {
	repository, _ := w.Parts()
	all := make([]string, 0, 1+len(w.Mirrors))
	for _, r := range append([]string{repository}, w.Mirrors...) {
		host, name, _ := strings.Cut(r, "/")
		all = append(all, w.scheme()+host+"/v2/"+name)
	}
	return all
}

// Repository is the repository of one of the addresses of Repositories, as people write it.
func (w ArtifactPullOCIWith) Repository(address string) string {
	return strings.Replace(strings.TrimPrefix(address, w.scheme()), "/v2/", "/", 1)
}

func (w ArtifactPullOCIWith) scheme() string {
	if w.PlainHTTP {
		return "http://"
	}
	return "https://"
}

// Fetches implements Fetcher. Policies and definitions name repositories as people do,
// without the part of the address that every registry has.
func (w ArtifactPullOCIWith) Fetches() []Fetch {
	_, digest := w.Parts()
	all := []Fetch{{w.scheme() + w.Reference, digest, w.Bytes}}
	for _, m := range w.Mirrors {
		all = append(all, Fetch{w.scheme() + m + "@" + digest, digest, w.Bytes})
	}
	return all
}

// Validate implements StepParams.
func (w ArtifactPullOCIWith) Validate() StepProblems {
	var p StepProblems
	repository, _ := w.Parts()
	if !ociReference.MatchString(w.Reference) || !ociRepository.MatchString(repository) {
		p.add("reference", "must be a repository and a digest, such as registry.example/team/model@sha256:…; a tag can be moved")
	}
	if len(w.Mirrors) > 8 {
		p.add("mirrors", "must have eight entries at most")
	}
	for i, m := range w.Mirrors {
		if !ociRepository.MatchString(m) {
			p.add(below("mirrors", strconv.Itoa(i)), "must be a repository, such as cache.example/team/model")
		}
	}
	if w.PlainHTTP && w.Token != "" {
		p.add("plain_http", "must not be set where a token is sent")
	}
	sized(w.Bytes, 1, &p)
	if w.UnpackedBytes < 0 || w.UnpackedBytes > MaxBlobBytes {
		p.add("unpacked_bytes", "must be between 1 and %d", int64(MaxBlobBytes))
	}
	if w.Files < 0 || w.Files > 10_000_000 {
		p.add("files", "must be between 1 and 10000000")
	}
	filePath(w.Path, &p)
	paced(w.MiBASecond, w.KeepFreeMiB, &p)
	return p
}

// ArtifactPullOCIResult says what became of the folder.
type ArtifactPullOCIResult struct {
	Path          string `json:"path"`
	Changed       bool   `json:"changed"`
	Digest        string `json:"digest"` // of the manifest: of an index, the one that was chosen
	Layers        int    `json:"layers"`
	Bytes         int64  `json:"bytes"` // of all layers
	Files         int    `json:"files"`
	UnpackedBytes int64  `json:"unpacked_bytes"`
}
