package maas

import (
	"strings"

	"gpuaas/controlplane/internal/base/fault"
)

const customPrefix = "custom/"

// ImageRef returns the name under which an image is deployed. Images of this
// product are uploaded; MAAS files them under the system "custom".
func ImageRef(name string) (string, error) {
	ref := name
	if strings.HasPrefix(name, "gpuaas-") {
		ref = customPrefix + name
	}
	bad := strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r > '~' })
	if ref == "" || bad || strings.Count(ref, "/") > 1 || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") {
		return "", fault.New(fault.Invalid, CodeImageInvalid, "the name of the image is not of the form name or system/name").
			WithRemedy("list the images of the site and use one of their names")
	}
	return ref, nil
}

// Runs reports whether MAAS installs or has installed exactly this image. If
// MAAS does not have a name, it takes the last one that begins with it, so v1
// can become v10 without an error.
func (m Machine) Runs(image string) bool {
	ref, err := ImageRef(image)
	switch {
	case err != nil:
		return false
	case strings.Contains(ref, "/"):
		return m.Image() == ref
	default:
		return m.DistroSeries == ref
	}
}
