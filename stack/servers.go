package stack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// findServers finds gpuaas-servers: the path that the caller named, the
// environment, the PATH, then the build of tools/build-servers.sh.
func findServers(named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if path := os.Getenv("GPUAAS_SERVERS"); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("gpuaas-servers"); err == nil {
		return filepath.Abs(path)
	}
	if cache := serversCache(); cache != "" {
		path := filepath.Join(cache, "servers-current")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("find gpuaas-servers, which holds Temporal and OpenBao: build it once with " +
		"tools/build-servers.sh, or name it in GPUAAS_SERVERS")
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
