package site

import (
	"regexp"
	"time"

	"gpuaas/controlplane/internal/adapter/firstboot"
	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/blob"
)

// Bundle is a version of a program that machines of a site run as root at their
// first boot. Its content never changes.
type Bundle struct {
	ID            id.SiteBundle
	Site          id.Site
	Name, Version string
	Digest        string // SHA-256 of the program
	Size          int64
	AddedBy       string
	CreatedAt     time.Time
	UsedBy        []string // names of profiles
}

// Ref is what profiles name a bundle by.
func (b Bundle) Ref() string { return b.Name + "@" + b.Version }

func (b Bundle) owner() blob.Owner { return blob.Owner{Kind: "site_bundle", ID: b.ID.String()} }

// NewBundle is a bundle that somebody wants to upload.
type NewBundle struct {
	Name, Version string
	Digest        string
	Size          int64
}

func (n NewBundle) ref() string { return n.Name + "@" + n.Version }

// purpose tells uploads of bundles of a site from all others.
func purpose(site id.Site, ref string) string { return "site_bundle " + site.String() + " " + ref }

// bundleRefForm is deliberately narrow: what it admits names no path.
var bundleRefForm = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,62})@([A-Za-z0-9][A-Za-z0-9._+-]{0,63})$`)

func parseBundleRef(ref string) (name, version string, err error) {
	parts := bundleRefForm.FindStringSubmatch(ref)
	if parts == nil {
		return "", "", fault.New(fault.Invalid, "site_bundle_ref_invalid", "%.100q is no reference of a bundle", ref).
			WithRemedy("use NAME@VERSION: a name of lower-case letters, digits, dots, hyphens and underscores, " +
				"a version of letters, digits and . _ + -; neither begins with a sign")
	}
	return parts[1], parts[2], nil
}

// checkProgram refuses what no machine could run.
func checkProgram(program []byte, version string) error {
	if _, err := firstboot.SiteBundle(program, version); err != nil {
		f, _ := fault.As(err)
		if f == nil {
			return err
		}
		return fault.New(fault.Invalid, "site_bundle_unusable", "the file cannot be the bundle of a site: %s", f.Message).
			WithRemedy("give one program: a script that begins with #!/, or an executable of at most %d bytes; "+
				"archives are not unpacked", firstboot.MaxSiteBundle)
	}
	return nil
}

func bundleMissing(ref, siteName string) *fault.Error {
	return fault.New(fault.Conflict, "site_bundle_missing", "the site %s has no bundle %s", siteName, ref).
		WithRemedy("upload it: gpuaas site bundle upload %s %s FILE; or name another one", siteName, ref)
}

// matches says whether a bundle is the one that a profile was pinned to.
func (p Profile) matches(b Bundle, siteName string) error {
	if p.BundleDigest == b.Digest {
		return nil
	}
	pinned := "is pinned to no digest"
	if p.BundleDigest != "" {
		pinned = "is pinned to the SHA-256 " + p.BundleDigest
	}
	return fault.New(fault.Conflict, "site_bundle_digest_mismatch",
		"the profile %s %s, but the bundle %s has %s", p.Name, pinned, b.Ref(), b.Digest).
		WithRemedy("look who changed the profile, then decide which bundle machines shall run: gpuaas site bundle use %s %s %s",
			siteName, p.Name, b.Ref())
}
