package rack

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// Names of what a rack makes in LXD. The project of a rack holds its machines,
// profile and image; pool and bridge are outside projects.
const (
	prefix        = "gpuaas-"
	projectPrefix = prefix + "rack-"
	imageAlias    = prefix + "machine"
	// powerKey stores the switch of a machine, for the next Open.
	powerKey = "user.gpuaas-power"
)

type lxdRack struct {
	client
	id      string
	options Options
	own     *daemon // nil: LXD belongs to somebody else
	address netip.Prefix
}

// openLXD uses the LXD of this system, or runs one.
func openLXD(ctx context.Context, o Options) (*lxdRack, error) {
	id := identity(o.Folder)
	r := &lxdRack{client: client{project: projectPrefix + id}, id: id, options: o}
	if !r.answers(ctx) {
		if err := sweep(ctx, homeOf(id), o.Progress); err != nil {
			return nil, err
		}
		o.Progress("starting LXD")
		own, err := startDaemon(ctx, homeOf(id))
		if err != nil {
			return nil, err
		}
		if err := own.mark(o.Throwaway); err != nil {
			own.stop(ctx)
			own.release()
			return nil, err
		}
		r.own, r.dir = own, own.home
	}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// answers says whether an LXD runs already. A private one never listens where
// lxc looks by default.
func (c client) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var server struct{ Auth string }
	return c.get(ctx, "/1.0", &server) == nil && server.Auth == "trusted"
}

func (r *lxdRack) pool() string   { return projectPrefix + r.id }
func (r *lxdRack) bridge() string { return prefix + r.id } // 15 characters, the most that Linux accepts

// prepare makes what is missing. It looks for each piece before it makes it.
func (r *lxdRack) prepare(ctx context.Context) error {
	r.options.Progress("preparing LXD")
	for _, step := range []func(context.Context) error{
		r.makeProject, r.makePool, r.makeBridge, r.makeProfile,
		r.importImage, r.powerUp,
	} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("prepare LXD: %w", err)
		}
	}
	return nil
}

func (r *lxdRack) makeProject(ctx context.Context) error {
	var project struct{ Name string }
	err := r.get(ctx, "/1.0/projects/"+r.project, &project)
	if !notFound(err) {
		return err
	}
	return r.global(ctx, "project", "create", r.project, "-c", "features.images=true", "-c", "features.profiles=true",
		"-c", "features.networks=false")
}

func (r *lxdRack) makePool(ctx context.Context) error {
	var pool struct{ Name string }
	err := r.get(ctx, "/1.0/storage-pools/"+r.pool(), &pool)
	if !notFound(err) {
		return err
	}
	return r.global(ctx, "storage", "create", r.pool(), "dir")
}

// makeBridge leaves the firewall alone: LXD does not always remove its rules,
// and there is nothing to filter between machines and this system.
func (r *lxdRack) makeBridge(ctx context.Context) error {
	var network struct{ Config map[string]string }
	err := r.get(ctx, "/1.0/networks/"+r.bridge(), &network)
	if notFound(err) {
		used, err := subnetsInUse()
		if err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(r.id))
		subnet, err := freeSubnet(sum[0], used)
		if err != nil {
			return err
		}
		r.address = netip.PrefixFrom(subnet.Addr().Next(), subnet.Bits())
		return r.global(ctx, "network", "create", r.bridge(), "ipv4.address="+r.address.String(),
			"ipv6.address=none", "ipv4.nat=false", "ipv4.firewall=false")
	}
	if err != nil {
		return err
	}
	if r.address, err = netip.ParsePrefix(network.Config["ipv4.address"]); err != nil {
		return fmt.Errorf("read address of bridge %s: %w", r.bridge(), err)
	}
	return nil
}

// profile is what all machines share. Nesting lets systemd in the machine build
// the sandboxes of its units.
func (r *lxdRack) profile() map[string]any {
	return map[string]any{
		"config": map[string]string{"security.nesting": "true", "boot.autostart": "false", "boot.host_shutdown_timeout": "5"},
		"devices": map[string]any{
			"root": map[string]string{"type": "disk", "path": "/", "pool": r.pool()},
			"eth0": map[string]string{"type": "nic", "name": "eth0", "network": r.bridge()},
		},
	}
}

func (r *lxdRack) makeProfile(ctx context.Context) error {
	content, err := json.Marshal(r.profile())
	if err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	_, err = r.run(ctx, call{args: []string{"profile", "edit", "default"}, stdin: strings.NewReader(string(content))})
	return err
}

// importImage imports the image into LXD and replaces one of another recipe.
func (r *lxdRack) importImage(ctx context.Context) error {
	alias := imageAlias + "-" + recipeDigest()
	var image struct{ Target string }
	if err := r.get(ctx, r.with("/1.0/images/aliases/"+alias), &image); !notFound(err) {
		return err
	}
	archive, err := imageArchive(ctx, r.options.Progress)
	if err != nil {
		return err
	}
	if err := r.dropImages(ctx); err != nil {
		return err
	}
	r.options.Progress("importing the image of the machines")
	return r.do(ctx, "image", "import", archive, "--alias", alias)
}

func (r *lxdRack) dropImages(ctx context.Context) error {
	var images []string
	if err := r.get(ctx, r.with("/1.0/images"), &images); err != nil {
		return err
	}
	for _, path := range images {
		if err := r.do(ctx, "image", "delete", lastPart(path)); err != nil && !notFound(err) {
			return err
		}
	}
	return nil
}

// powerUp starts the machines that ran when the rack was closed.
func (r *lxdRack) powerUp(ctx context.Context) error {
	return r.each(ctx, func(m *container) error {
		var instance struct{ Config map[string]string }
		if err := r.get(ctx, r.with("/1.0/instances/"+m.instance()), &instance); err != nil {
			return err
		}
		if instance.Config[powerKey] != "on" {
			return nil
		}
		return m.powerOn(ctx)
	})
}

func (r *lxdRack) Kind() Kind          { return LXD }
func (r *lxdRack) HostAddress() string { return r.address.Addr().String() }

func (r *lxdRack) Machines(ctx context.Context) ([]Machine, error) {
	var machines []Machine
	err := r.each(ctx, func(m *container) error {
		machines = append(machines, m)
		return nil
	})
	return machines, err
}

// each calls f for the machines in the order of their names.
func (r *lxdRack) each(ctx context.Context, f func(*container) error) error {
	var paths []string
	if err := r.get(ctx, r.with("/1.0/instances"), &paths); err != nil {
		return err
	}
	slices.Sort(paths)
	for _, path := range paths {
		if err := f(&container{rack: r, name: strings.TrimPrefix(lastPart(path), prefix)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *lxdRack) Find(ctx context.Context, name string) (Machine, error) {
	var instance struct{ Name string }
	err := r.get(ctx, r.with("/1.0/instances/"+prefix+name), &instance)
	if notFound(err) {
		return nil, fmt.Errorf("find machine %s: %w", name, ErrNoMachine)
	}
	if err != nil {
		return nil, err
	}
	return &container{rack: r, name: name}, nil
}

// Close stops the machines. Our own LXD does that as it ends.
func (r *lxdRack) Close(ctx context.Context) error {
	if r.own != nil {
		r.own.stop(ctx)
		r.own.release()
		return nil
	}
	return r.each(ctx, func(m *container) error { return m.halt(ctx, false) })
}

func (r *lxdRack) Remove(ctx context.Context) error {
	err := r.removeContent(ctx)
	if r.own != nil {
		r.own.stop(ctx)
		if err == nil {
			err = removeHome(r.own.home)
		}
		r.own.release()
	}
	return errors.Join(err, removeFolder(r.options.Folder))
}

// removeFolder deletes the folder of a rack, if it is known.
func removeFolder(path string) error {
	if path == "" {
		return nil
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("delete folder of rack: %w", err)
	}
	return nil
}

// removeContent deletes everything of the rack in LXD. It is no failure if
// something is gone already.
func (r *lxdRack) removeContent(ctx context.Context) error {
	var project struct{ Name string }
	err := r.get(ctx, "/1.0/projects/"+r.project, &project)
	if err == nil {
		err = errors.Join(
			r.each(ctx, func(m *container) error { return m.Delete(ctx) }),
			r.dropImages(ctx),
		)
		if err == nil {
			err = r.global(ctx, "project", "delete", r.project)
		}
	}
	err = unless(notFound(err), err)
	for _, piece := range [][2]string{{"network", r.bridge()}, {"storage", r.pool()}} {
		gone := r.global(ctx, piece[0], "delete", piece[1])
		err = errors.Join(err, unless(notFound(gone), gone))
	}
	return err
}

// removeHome deletes the state of a private LXD that has ended.
func removeHome(home string) error {
	if err := os.RemoveAll(home); err != nil {
		return fmt.Errorf("delete state of LXD: %w", err)
	}
	_ = os.Remove(homes()) // succeeds only for the last rack
	return nil
}

// lastPart returns the name at the end of a path of LXD's interface.
func lastPart(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return path[strings.LastIndex(path, "/")+1:]
}
