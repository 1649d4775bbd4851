package rack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// FirstBootFolder is where the first boot keeps its layers on a machine, with a
// record of each layer that was begun.
const FirstBootFolder = "/var/lib/gpuaas-firstboot"

// layer is one part of a first boot.
type layer struct {
	place, name, version, digest string
}

func (l layer) folder() string { return FirstBootFolder + "/layers/" + l.place }

// layers returns the parts of a payload, in their order. There are none if the
// payload has another form.
func (c cloudConfig) layers() ([]layer, error) {
	list, ok, err := c.file(FirstBootFolder + "/layers.list")
	if err != nil || !ok {
		return nil, err
	}
	var all []layer
	for line := range strings.Lines(list) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != path.Base(words[0]) {
			return nil, errors.New("read payload of machine: its list of layers has another form")
		}
		all = append(all, layer{words[0], words[1], words[2], words[3]})
	}
	return all, nil
}

func (c cloudConfig) file(path string) (string, bool, error) {
	for _, f := range c.WriteFiles {
		if f.Path == path {
			content, err := f.bytes()
			return string(content), err == nil, err
		}
	}
	return "", false, nil
}

// carryOutLayers does for each layer what can be done below root: it installs
// files, makes accounts, and follows the layer that makes the machine a node.
// It runs no programs, because they would work on this system.
func (c cloudConfig) carryOutLayers(ctx context.Context, root string, layers []layer) error {
	b, found, err := c.bootstrap()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if l.succeeded(root) {
			if err := l.discard(root); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		err := errors.Join(c.install(root, l), c.makeUser(root, l))
		if err == nil && found && strings.HasPrefix(b.secret, l.folder()+"/") {
			err = b.run(ctx, root)
		}
		if noted := l.record(root, began, err); err != nil || noted != nil {
			return errors.Join(err, noted)
		}
		if err := l.discard(root); err != nil {
			return err
		}
	}
	// Only the bootstrap needed the token.
	if err := os.RemoveAll(filepath.Join(root, "run/gpuaas-bootstrap")); err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	return nil
}

var installStep = regexp.MustCompile(`(?m)^install -D -m ([0-7]{4}) -o root -g root "\$1/(file-[0-9]+)" '([^']+)'$`)

// install puts the files of a layer in their places.
func (c cloudConfig) install(root string, l layer) error {
	steps, _, err := c.file(l.folder() + "/steps")
	if err != nil {
		return err
	}
	for _, step := range installStep.FindAllStringSubmatch(steps, -1) {
		content, _, err := c.file(l.folder() + "/" + step[2])
		if err != nil {
			return err
		}
		mode, err := strconv.ParseUint(step[1], 8, 12)
		if err != nil {
			return fmt.Errorf("install %s: %w", step[3], err)
		}
		if err := writeBelow(root, step[3], os.FileMode(mode), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// layerRecord is the record that the first boot leaves of a layer.
type layerRecord struct {
	Layer    string `json:"layer"`
	Version  string `json:"version"`
	Digest   string `json:"digest"`
	State    string `json:"state"`
	Started  string `json:"started_at"`
	Ended    string `json:"ended_at"`
	ExitCode int    `json:"exit_code"`
	Step     string `json:"step"`
	Reason   string `json:"reason"`
}

func (l layer) recordFile() string { return FirstBootFolder + "/" + l.place + ".json" }

func (l layer) succeeded(root string) bool {
	var r layerRecord
	content, err := os.ReadFile(filepath.Join(root, l.recordFile()))
	return err == nil && json.Unmarshal(content, &r) == nil && r.State == "succeeded" && r.Digest == l.digest
}

func (l layer) record(root string, began time.Time, problem error) error {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	r := layerRecord{
		Layer: l.name, Version: l.version, Digest: l.digest, State: "succeeded", Started: stamp(began),
		Ended: stamp(time.Now()),
	}
	if problem != nil {
		r.State, r.ExitCode, r.Step = "failed", 1, "carry out the layer"
		r.Reason = strings.Join(strings.Fields(problem.Error()), " ")
		r.Reason = r.Reason[:min(len(r.Reason), 500)]
	}
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write record of layer %s: %w", l.name, err)
	}
	return writeBelow(root, l.recordFile(), 0o600, append(content, '\n'))
}

// discard deletes the layer itself, because it holds secrets.
func (l layer) discard(root string) error {
	if err := os.RemoveAll(filepath.Join(root, l.folder())); err != nil {
		return fmt.Errorf("delete layer %s: %w", l.name, err)
	}
	return nil
}

// Bootstrap is what a payload tells a machine about becoming a node.
type Bootstrap struct {
	URL   string // of the control plane for nodes
	Token string
	CA    []byte // PEM
}

// ReadBootstrap finds the bootstrap in a payload, if there is one.
func ReadBootstrap(payload []byte) (Bootstrap, bool, error) {
	c, err := parseCloudConfig(payload)
	if err != nil {
		return Bootstrap{}, false, err
	}
	b, found, err := c.bootstrap()
	return Bootstrap{URL: b.base, Token: strings.TrimPrefix(b.authorization, "Bearer "), CA: b.ca}, found, err
}

// Disk is a machine whose disk is a folder of this system, like that of process
// machines.
type Disk interface {
	// Root is the folder.
	Root() string
}

// Root implements Disk.
func (m *agentHost) Root() string { return m.root() }
