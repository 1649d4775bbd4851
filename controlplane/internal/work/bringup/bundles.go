package bringup

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
)

// BundleFolder reads bundles of sites from a folder: the bundle name@version is
// the file name/version in it. Whoever may write there decides what machines
// run as root at their first boot.
type BundleFolder string

// bundleForm is deliberately narrow: what it admits can lead nowhere else.
var bundleForm = regexp.MustCompile(`^([a-z0-9][a-z0-9._-]{0,62})@([A-Za-z0-9][A-Za-z0-9._+-]{0,63})$`)

// maxBundle is more than a first boot accepts, so that the refusal comes from
// there and says how much is accepted.
const maxBundle = 2 << 20

// Read implements Bundles.
func (f BundleFolder) Read(ref string) (program []byte, version string, err error) {
	parts := bundleForm.FindStringSubmatch(ref)
	if parts == nil {
		return nil, "", codeBundleRefInvalid.Failed("%.100q is no reference of a bundle", ref).ForGood()
	}
	name, version := parts[1], parts[2]
	program, err = f.read(path.Join(name, version))
	if errors.Is(err, fs.ErrNotExist) || f == "" {
		return nil, "", codeBundleMissing.Failed("there is no bundle %s", ref).
			With("put the program into the folder of bundles as %s/%s, or change site_bootstrap_bundle_ref of the profile", name,
				version).ForGood().Because(err)
	}
	if err != nil {
		return nil, "", codeBundleUnreadable.Failed("the bundle %s cannot be read", ref).
			With("look at the file %s/%s in the folder of bundles and who may read it", name, version).ForGood().Because(err)
	}
	return program, version, nil
}

// read follows no link out of the folder.
func (f BundleFolder) read(name string) ([]byte, error) {
	if f == "" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, maxBundle))
}
