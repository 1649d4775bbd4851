package stack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// built is a program that tools/build-servers.sh builds from a module of its own.
type built struct {
	name, holds string // of the program, and what it holds
	variable    string // of the environment, which names one
	current     string // the link to the build that was made last
	command     string // builds it
}

var (
	serversProgram = built{
		"gpuaas-servers", "Temporal and OpenBao", "GPUAAS_SERVERS", "servers-current", "tools/build-servers.sh",
	}
	registryProgram = built{
		"gpuaas-registry", "the registry", "GPUAAS_REGISTRY", "registry-current", "tools/build-servers.sh registry",
	}
)

// findServers finds gpuaas-servers.
func findServers(named string) (string, error) { return serversProgram.find(named) }

// find finds a program: the path that the caller named, the environment, the PATH, then
// the build of tools/build-servers.sh.
func (b built) find(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if path := os.Getenv(b.variable); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath(b.name); err == nil {
		return filepath.Abs(path)
	}
	if cache := serversCache(); cache != "" {
		path := filepath.Join(cache, b.current)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %s, which holds %s: build it once with %s, or name it in %s", b.name, b.holds, b.command,
		b.variable)
}

// serversCache is the folder that tools/build-servers.sh writes to.
func serversCache() string {
	if dir := os.Getenv("GPUAAS_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "gpuaas")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".cache", "gpuaas")
	}
	return ""
}
