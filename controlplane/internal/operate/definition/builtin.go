package definition

import (
	"embed"
	"fmt"
	"io/fs"
)

//go:embed builtin/*.yaml
var shipped embed.FS

// BuiltIns are the versions that are shipped with the program, by name of file.
func BuiltIns() ([]Definition, error) {
	names, err := fs.Glob(shipped, "builtin/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list built-in definitions: %w", err)
	}
	out := make([]Definition, len(names))
	for i, name := range names {
		source, err := shipped.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if out[i], err = Parse(string(source)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}
