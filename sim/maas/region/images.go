package region

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Image is a boot resource: "ubuntu/noble" when synced, a bare name when uploaded.
type Image struct {
	ID           int
	Name         string
	Synced       bool
	Title        string
	Kernel       string
	Architecture string
	BaseImage    string
	Size         int64
	Label        string
	LastDeployed time.Time
}

func (r *Region) addImage(i Image) *Image {
	i.ID = r.id("image")
	if i.Architecture == "" {
		i.Architecture = "amd64/generic"
	}
	if i.Kernel == "" {
		i.Kernel = "ga-22.04"
		for _, base := range r.state.Images {
			if base.Name == i.BaseImage {
				i.Kernel = base.Kernel
			}
		}
	}
	if i.Label == "" {
		i.Label = "20261101"
	}
	if i.Size == 0 {
		i.Size = 700 * mib
	}
	r.state.Images = append(r.state.Images, &i)
	return &i
}

// AddImage adds an uploaded image under its bare name, or a synced one as os/release.
func (r *Region) AddImage(name string) {
	r.change(func() {
		r.addImage(Image{
			Name:   strings.TrimPrefix(name, "custom/"),
			Synced: strings.Contains(strings.TrimPrefix(name, "custom/"), "/"), BaseImage: "ubuntu/jammy",
		})
	})
}

func (i *Image) system() (osystem, series string) {
	if os, rel, ok := strings.Cut(i.Name, "/"); ok {
		return os, rel
	}
	return "custom", i.Name
}

func (i *Image) kernels() []string {
	version := strings.TrimPrefix(i.Kernel, "ga-")
	return []string{i.Kernel, "hwe-" + version, "hwe-" + version + "-edge"}
}

// resolveImage finds the image that a deploy request gets. It need not be the
// named one: outside Ubuntu a name matches by prefix, and the last in order
// wins.
func (r *Region) resolveImage(want string) (*Image, error) {
	if want == "" {
		want = r.text("default_osystem") + "/" + r.text("default_distro_series")
	}
	parts := strings.Split(want, "/")
	if len(parts) > 2 {
		return nil, &RefusalError{Status: http.StatusInternalServerError, Text: "too many values to unpack (expected 2)"}
	}
	var prefixed *Image
	for _, i := range r.sortedImages() {
		os, rel := i.system()
		switch {
		case len(parts) == 1 && (rel == want || os == want):
			return i, nil
		case len(parts) == 2 && os == parts[0] && rel == parts[1]:
			return i, nil
		case len(parts) == 2 && os == parts[0] && os != "ubuntu" && strings.HasPrefix(rel, parts[1]) && prefixed == nil:
			prefixed = i
		}
	}
	if prefixed != nil {
		return prefixed, nil
	}
	choices := []string{"''"}
	for _, i := range slices.Backward(r.sortedImages()) {
		os, rel := i.system()
		choices = append(choices, "'"+os+"/"+rel+"'")
	}
	return nil, fieldError("distro_series", fmt.Sprintf("'%s' is not a valid distro_series.  It should be one of: %s.",
		want, strings.Join(choices, ", ")))
}

// sortedImages returns the lexicographically last image first.
func (r *Region) sortedImages() []*Image {
	list := slices.Clone(r.state.Images)
	slices.SortFunc(list, func(a, b *Image) int {
		aos, arel := a.system()
		bos, brel := b.system()
		return strings.Compare(bos+"/"+brel, aos+"/"+arel)
	})
	return list
}

func (r *Region) imageDoc(i *Image, whole bool) map[string]any {
	kind := "Uploaded"
	if i.Synced {
		kind = "Synced"
	}
	d := map[string]any{
		"id": i.ID, "type": kind, "name": i.Name, "architecture": i.Architecture,
		"resource_uri": "/MAAS/api/2.0/boot-resources/" + strconv.Itoa(i.ID) + "/", "last_deployed": nil, "title": i.Title,
	}
	if i.Synced {
		d["subarches"] = "generic," + strings.Join(i.kernels(), ",")
	} else {
		d["base_image"] = i.BaseImage
	}
	if !i.LastDeployed.IsZero() {
		d["last_deployed"] = stamp(i.LastDeployed)
	}
	if whole {
		file := map[string]any{
			"filename": "squashfs", "filetype": "squashfs", "size": i.Size, "complete": true,
			"sha256": strings.Repeat("0", 64),
		}
		d["sets"] = map[string]any{i.Label: map[string]any{
			"version": i.Label, "label": i.Label, "size": i.Size,
			"complete": true, "files": map[string]any{"squashfs": file},
		}}
	}
	return d
}

// Images lists boot resources of a type: all, synced, uploaded or generated.
func (r *Region) Images(kind string) (any, error) {
	if !slices.Contains([]string{"", "all", "synced", "uploaded", "generated"}, kind) {
		return nil, badRequest("'%s' is not a valid type. It should be one of: all,synced,uploaded,generated.", kind)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []map[string]any{}
	for _, i := range r.state.Images {
		if kind == "generated" || kind == "synced" && !i.Synced || kind == "uploaded" && i.Synced {
			continue
		}
		list = append(list, r.imageDoc(i, false))
	}
	return list, nil
}

// Image reads one boot resource with its files.
func (r *Region) Image(id int) (any, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, i := range r.state.Images {
		if i.ID == id {
			return r.imageDoc(i, true), nil
		}
	}
	return nil, missing("BootResource")
}

// CreateImage accepts an uploaded image. Its content is not kept.
func (r *Region) CreateImage(c Caller, f url.Values) (any, error) {
	if c.User == nil || !c.User.Admin {
		return nil, adminOnly()
	}
	errs := map[string][]string{}
	for _, name := range []string{"name", "architecture", "sha256", "size"} {
		if f.Get(name) == "" {
			errs[name] = []string{"This field is required."}
		}
	}
	if err := fieldErrors(errs); err != nil {
		return nil, err
	}
	size, err := strconv.ParseInt(f.Get("size"), 10, 64)
	if err != nil {
		return nil, fieldError("size", "Enter a whole number.")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	return r.imageDoc(r.addImage(Image{
		Name: strings.TrimPrefix(f.Get("name"), "custom/"), Title: f.Get("title"),
		Architecture: f.Get("architecture"), BaseImage: f.Get("base_image"), Size: size,
	}), true), nil
}

// DeleteImage removes a boot resource.
func (r *Region) DeleteImage(c Caller, id int) error {
	if c.User == nil || !c.User.Admin {
		return adminOnly()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.state.Images)
	r.state.Images = slices.DeleteFunc(r.state.Images, func(i *Image) bool { return i.ID == id })
	if len(r.state.Images) == before {
		return missing("BootResource")
	}
	r.changes++
	return nil
}
