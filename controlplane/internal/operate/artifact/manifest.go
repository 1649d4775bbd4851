package artifact

import (
	"encoding/json"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

const (
	typeManifest       = "application/vnd.oci.image.manifest.v1+json"
	typeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"

	maxLayers    = 1000
	maxPlatforms = 32
)

// descriptor is what a manifest says of something that it names.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType"`
	Annotations  map[string]string `json:"annotations"`
	Platform     *struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
		Variant      string `json:"variant"`
	} `json:"platform"`
}

// manifest is a manifest or an index.
type manifest struct {
	MediaType    string       `json:"mediaType"`
	ArtifactType string       `json:"artifactType"`
	Config       descriptor   `json:"config"`
	Layers       []descriptor `json:"layers"`
	Manifests    []descriptor `json:"manifests"`
	Subject      *descriptor  `json:"subject"`
}

// parseManifest reads a manifest. Its own word about its type must be that of the
// registry: otherwise two readers could read the same bytes as different things.
func parseManifest(mediaType string, body []byte) (manifest, error) {
	var m manifest
	refuse := func(why string) (manifest, error) {
		return m, fault.New(fault.Conflict, "artifact_manifest_invalid", "the manifest cannot be used: %s", why).
			WithRemedy("push the artifact again with a usual client")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return refuse("it is not the JSON of a manifest")
	}
	mediaType, _, _ = strings.Cut(mediaType, ";")
	switch {
	case m.MediaType == "":
		m.MediaType = mediaType
	case mediaType != m.MediaType:
		return refuse("the registry says that it is of another type than it does itself")
	}
	switch {
	case m.index() && len(m.Layers) > 0, m.MediaType != typeManifest && m.MediaType != typeDockerManifest && !m.index(),
		!m.index() && len(m.Manifests) > 0:
		return refuse("it is neither a manifest nor an index")
	case len(m.Layers) > maxLayers:
		return refuse("it names too many layers")
	case len(m.Manifests) > maxPlatforms:
		return refuse("it names too many manifests")
	case m.index() && len(m.Manifests) == 0:
		return refuse("it names no manifest")
	}
	for _, d := range append(m.Layers, m.Manifests...) {
		if !digestForm.MatchString(d.Digest) || d.Size < 0 || d.Size > maxBytes {
			return refuse("it names something without a SHA-256 digest or a size")
		}
	}
	if m.bytes() > maxBytes {
		return refuse("its layers have more than 16 TiB")
	}
	return m, nil
}

func (m manifest) index() bool { return m.MediaType == typeIndex || m.MediaType == typeDockerIndex }

// bytes is what its layers have together.
func (m manifest) bytes() (sum int64) {
	for _, l := range m.Layers {
		sum += l.Size // at most a thousand times 16 TiB, which fits
	}
	return sum
}

// kind is what the artifact is: its own word, or the type of its configuration.
func (m manifest) kind() string {
	if m.ArtifactType != "" || m.index() {
		return m.ArtifactType
	}
	return m.Config.MediaType
}

// platform names the platform that an index says a manifest is for.
func (d descriptor) platform() string {
	if d.Platform == nil {
		return ""
	}
	name := d.Platform.OS + "/" + d.Platform.Architecture
	if d.Platform.Variant != "" {
		name += "/" + d.Platform.Variant
	}
	return name
}
