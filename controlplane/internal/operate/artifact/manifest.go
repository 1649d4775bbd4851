package artifact

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

const (
	typeManifest       = "application/vnd.oci.image.manifest.v1+json"
	typeIndex          = "application/vnd.oci.image.index.v1+json"
	typeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	typeDockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"

	maxLayers    = 500 // as many as a node brings
	maxPlatforms = 32
)

// wordForm is that of types and platforms: what a registry says is kept and shown.
var wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&^_.+;= /-]{0,254}$`)

func word(s string, most int) bool { return s == "" || len(s) <= most && wordForm.MatchString(s) }

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

// descriptors are read one by one, and no more than are used: a few bytes of JSON would
// otherwise become much memory.
type descriptors []descriptor

var errTooMany = errors.New("there are too many")

// UnmarshalJSON implements json.Unmarshaler.
func (d *descriptors) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	if t, err := in.Token(); err != nil || t != json.Delim('[') {
		return errors.New("it is no list")
	}
	for in.More() {
		if len(*d) == maxLayers {
			return errTooMany
		}
		var one descriptor
		if err := in.Decode(&one); err != nil {
			return err
		}
		*d = append(*d, one)
	}
	return nil
}

// manifest is a manifest or an index.
type manifest struct {
	SchemaVersion int         `json:"schemaVersion"`
	MediaType     string      `json:"mediaType"`
	ArtifactType  string      `json:"artifactType"`
	Config        descriptor  `json:"config"`
	Layers        descriptors `json:"layers"`
	Manifests     descriptors `json:"manifests"`
	Subject       *descriptor `json:"subject"`
}

// parseManifest reads a manifest. Its own word about its type must be that of the
// registry: otherwise two readers could read the same bytes as different things.
func parseManifest(mediaType string, body []byte) (manifest, error) {
	var m manifest
	refuse := func(why string) (manifest, error) {
		return m, fault.New(fault.Conflict, "artifact_manifest_invalid", "the manifest cannot be used: %s", why).
			WithRemedy("push the artifact again with a usual client")
	}
	switch err := json.Unmarshal(body, &m); {
	case errors.Is(err, errTooMany):
		return refuse("it names too many layers or manifests")
	case err != nil:
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
	case len(m.Manifests) > maxPlatforms:
		return refuse("it names too many manifests")
	case !word(m.ArtifactType, 255) || !word(m.Config.MediaType, 255):
		return refuse("the type that it says it has is none")
	case m.index() && len(m.Manifests) == 0:
		return refuse("it names no manifest")
	}
	for _, d := range append(m.Layers, m.Manifests...) {
		if !digestForm.MatchString(d.Digest) || d.Size < 0 || d.Size > maxBytes {
			return refuse("it names something without a SHA-256 digest or a size")
		}
		if !word(d.platform(), 100) {
			return refuse("it names a platform that is none")
		}
	}
	if m.bytes() > maxBytes {
		return refuse("its layers have more than 16 TiB")
	}
	return m, nil
}

// fetchable refuses what no node would fetch.
func (m manifest) fetchable() error {
	linux := !m.index()
	for _, d := range m.Manifests {
		linux = linux || d.Platform != nil && d.Platform.OS == "linux"
	}
	why := ""
	switch {
	case m.SchemaVersion != 2:
		why = "it is of another version than 2"
	case !linux:
		why = "it names nothing for linux"
	case !m.index() && len(m.Layers) == 0:
		why = "it has no layer"
	}
	for _, l := range m.Layers {
		if l.Size < 1 {
			why = "it names a layer without bytes"
		}
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.Conflict, "artifact_manifest_invalid", "no node could fetch it: %s", why).
		WithRemedy("push the artifact again with a usual client")
}

func (m manifest) index() bool { return m.MediaType == typeIndex || m.MediaType == typeDockerIndex }

// bytes is what its layers have together.
func (m manifest) bytes() (sum int64) {
	for _, l := range m.Layers {
		sum += l.Size // at most 500 times 16 TiB, which fits
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
