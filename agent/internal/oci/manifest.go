// Package oci brings an OCI artifact to the machine: the manifest by its digest, the
// layers by theirs, and their files into a folder that they cannot leave.
//
// It trusts nothing but digests. The manifest names its layers with digest and size, so
// whoever knows its digest knows all bytes.
package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"gpuaas/agent/internal/blob"
)

// Want says which artifact is meant.
type Want struct {
	// Sources are repositories, such as https://registry.example/v2/team/model.
	Sources      []string
	Digest       string // of an index or a manifest: sha256:…
	Architecture string // which manifest of an index is meant, with linux
	Token        string
	Door         *blob.Door // gets access to repositories that do not let everybody in; nil: nobody does
	MostBytes    int64      // of all layers
}

// Artifact is a manifest whose digest was compared.
type Artifact struct {
	Digest string // of the manifest itself
	Layers []Layer
	Bytes  int64
}

// Layer is a blob of an artifact.
type Layer struct {
	SHA256 string
	Bytes  int64
	Type   string // its media type
	Title  string // the name of the file, where a layer is a file
}

// Refused is an artifact that is not what this package brings to a machine.
type Refused struct{ why string } //nolint:errname // a word of people

func (r *Refused) Error() string { return r.why }

func refuse(format string, args ...any) error { return &Refused{fmt.Sprintf(format, args...)} }

// Bounds of an artifact.
const (
	mostManifest = 4 << 20
	mostLayers   = 500
)

// accept lists the documents that are understood.
const accept = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  *struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	} `json:"platform"`
	Annotations map[string]string `json:"annotations"`
}

type document struct {
	SchemaVersion int          `json:"schemaVersion"`
	Manifests     []descriptor `json:"manifests"`
	Layers        []descriptor `json:"layers"`
}

// Resolve reads the manifest and says which layers there are.
func Resolve(ctx context.Context, f blob.Fetcher, w Want) (Artifact, error) {
	digest := w.Digest
	for range 2 { // an index, and the manifest that it names
		d, err := read(ctx, f, w, digest)
		if err != nil {
			return Artifact{}, err
		}
		if len(d.Manifests) == 0 {
			return d.artifact(digest, w.MostBytes)
		}
		if digest, err = d.choose(w.Architecture); err != nil {
			return Artifact{}, err
		}
	}
	return Artifact{}, refuse("an index names another index, which is not followed")
}

func read(ctx context.Context, f blob.Fetcher, w Want, digest string) (document, error) {
	var d document
	if !digestForm.MatchString(digest) {
		return d, refuse("%q is no digest with SHA-256", digest)
	}
	ask := blob.Want{SHA256: strings.TrimPrefix(digest, "sha256:"), Token: w.Token, Door: w.Door}
	for _, s := range w.Sources {
		ask.Sources = append(ask.Sources, s+"/manifests/"+digest)
	}
	raw, err := f.Small(ctx, ask, accept, mostManifest)
	if err != nil {
		return d, fmt.Errorf("read the manifest: %w", err)
	}
	if err := json.Unmarshal(raw, &d); err != nil || d.SchemaVersion != 2 {
		return d, refuse("what has the digest %s is no manifest of version 2", digest)
	}
	return d, nil
}

func (d document) choose(architecture string) (string, error) {
	for _, m := range d.Manifests {
		if m.Platform != nil && m.Platform.OS == "linux" && m.Platform.Architecture == architecture {
			return m.Digest, nil
		}
	}
	return "", refuse("the index has nothing for linux on %s", architecture)
}

func (d document) artifact(digest string, most int64) (Artifact, error) {
	a := Artifact{Digest: digest}
	if len(d.Layers) == 0 || len(d.Layers) > mostLayers {
		return a, refuse("it has %d layers, and 1 to %d are brought", len(d.Layers), mostLayers)
	}
	for _, l := range d.Layers {
		if !digestForm.MatchString(l.Digest) || l.Size < 1 || l.Size > most-a.Bytes {
			return a, refuse("the layer %q with %d bytes has no digest with SHA-256 or no bytes, or all layers together "+
				"have more than %d bytes", l.Digest, l.Size, most)
		}
		a.Bytes += l.Size
		a.Layers = append(a.Layers, Layer{
			SHA256: strings.TrimPrefix(l.Digest, "sha256:"), Bytes: l.Size, Type: l.MediaType,
			Title: l.Annotations["org.opencontainers.image.title"],
		})
	}
	return a, nil
}
