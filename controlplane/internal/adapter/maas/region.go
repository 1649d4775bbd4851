package maas

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Version is what a region says about itself. Reading it needs no API key, so
// it only proves that MAAS is there.
type Version struct {
	Version      string   `json:"version"`
	Subversion   string   `json:"subversion"`
	Capabilities []string `json:"capabilities"`
}

// Version asks the region for its version.
func (c *Client) Version(ctx context.Context) (Version, error) {
	k := call{method: http.MethodGet, path: "version/"}
	v, err := fetch[Version](ctx, c, k)
	if err != nil {
		return v, fmt.Errorf("read MAAS version: %w", err)
	}
	if v.Version == "" {
		return v, fmt.Errorf("read MAAS version: %w", invalidAnswer(k, answer{status: http.StatusOK}, nil))
	}
	return v, nil
}

// User is the owner of an API key.
type User struct {
	Username string `json:"username"`
	Email    string `json:"email"`
	Admin    bool   `json:"is_superuser"`
	Local    bool   `json:"is_local"`
}

// WhoAmI proves that the API key is valid, and says whether its owner is an
// administrator.
func (c *Client) WhoAmI(ctx context.Context) (User, error) {
	u, err := fetch[User](ctx, c, call{path: "users/", op: "whoami"})
	if err != nil {
		return u, fmt.Errorf("read MAAS user: %w", err)
	}
	return u, nil
}

// RackController is a rack controller and the services on it.
type RackController struct {
	SystemID string    `json:"system_id"`
	Hostname string    `json:"hostname"`
	Version  string    `json:"version"`
	Services []Service `json:"service_set"`

	Interfaces []Interface `json:"interface_set"`
}

// Service is one service of a controller.
type Service struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Info   string `json:"status_info"`
}

// Service finds a service by name. A missing one has the status unknown.
func (r RackController) Service(name string) Service {
	for _, s := range r.Services {
		if s.Name == name {
			return s
		}
	}
	return Service{Name: name, Status: "unknown"}
}

// Healthy reports whether the controller can serve machines.
func (r RackController) Healthy() bool { return r.Service("rackd").Status == "running" }

// RackControllers lists the rack controllers. Only administrators see any.
func (c *Client) RackControllers(ctx context.Context) ([]RackController, error) {
	racks, err := fetch[[]RackController](ctx, c, call{path: "rackcontrollers/"})
	if err != nil {
		return nil, fmt.Errorf("list rack controllers: %w", err)
	}
	return racks, nil
}

// NodeScript is a commissioning or testing script that MAAS keeps.
type NodeScript struct {
	Name    string           `json:"name"`
	Type    string           `json:"type_name"`
	History []ScriptRevision `json:"history"`
}

// ScriptRevision is one upload of a script.
type ScriptRevision struct {
	ID      int64  `json:"id"`
	Comment string `json:"comment"`
}

// Versions are what the newest revision is known by: its number, and the comment
// that it was uploaded with.
func (s NodeScript) Versions() []string {
	var newest ScriptRevision
	for _, r := range s.History {
		if r.ID > newest.ID {
			newest = r
		}
	}
	if newest.ID == 0 {
		return nil
	}
	if newest.Comment == "" {
		return []string{number(newest.ID)}
	}
	return []string{number(newest.ID), newest.Comment}
}

// Scripts lists the scripts that MAAS can run on machines.
func (c *Client) Scripts(ctx context.Context) ([]NodeScript, error) {
	list, err := fetch[[]NodeScript](ctx, c, call{path: "scripts/"})
	if err != nil {
		return nil, fmt.Errorf("list MAAS scripts: %w", err)
	}
	return list, nil
}

// Setting reads a setting of the region as text. It is empty if it is not set.
func (c *Client) Setting(ctx context.Context, name string) (string, error) {
	raw, err := fetch[json.RawMessage](ctx, c, call{path: "maas/", op: "get_config", query: url.Values{"name": {name}}})
	if err != nil {
		return "", fmt.Errorf("read MAAS setting %s: %w", name, err)
	}
	if isNull(raw) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	return string(raw), nil
}

// RunScriptsSHA256 returns the digest of the program with which deployed
// machines report their hardware, as MAAS hands it out now.
func (c *Client) RunScriptsSHA256(ctx context.Context) (string, error) {
	a, err := c.do(ctx, call{method: http.MethodGet, path: "maas-run-scripts", open: true})
	if err != nil {
		return "", fmt.Errorf("read the program that reports hardware: %w", err)
	}
	sum := sha256.Sum256(a.body)
	return hex.EncodeToString(sum[:]), nil
}

// SetSetting changes a setting of the region.
func (c *Client) SetSetting(ctx context.Context, name, value string) error {
	f := newForm().text("name", name)
	f.values.Set("value", value)
	if err := c.command(ctx, call{path: "maas/", op: "set_config", form: f}); err != nil {
		return fmt.Errorf("change MAAS setting %s: %w", name, err)
	}
	return nil
}

// Image is a boot resource. Name is bare for an uploaded image and
// system/series for one that MAAS synchronises.
type Image struct {
	ID           int64  `json:"id"`
	Type         string `json:"type"`
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
}

// Images lists the boot resources.
func (c *Client) Images(ctx context.Context) ([]Image, error) {
	images, err := fetch[[]Image](ctx, c, call{path: "boot-resources/"})
	if err != nil {
		return nil, fmt.Errorf("list MAAS images: %w", err)
	}
	return images, nil
}

// HasImage reports whether an image exists under exactly the name that a
// deployment would use.
func HasImage(images []Image, name string) bool {
	ref, err := ImageRef(name)
	if err != nil {
		return false
	}
	for _, image := range images {
		bare := strings.TrimPrefix(image.Name, customPrefix)
		switch {
		case image.Name == ref, customPrefix+bare == ref, "ubuntu/"+ref == image.Name:
			return true
		}
	}
	return false
}
