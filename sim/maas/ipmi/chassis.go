package ipmi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Chassis does what ipmi_sim asks of a chassis: "DIR get power" or "DIR set
// power 1". The folder holds one file for each value, so that the power state
// outlives the program.
func Chassis(args []string, out io.Writer) error {
	if len(args) < 3 {
		return errors.New("want FOLDER get NAME or FOLDER set NAME VALUE")
	}
	dir, verb, name := args[0], args[1], args[2]
	switch {
	case verb == "get" && len(args) == 3 && (name == "power" || name == "boot"):
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("read %s of chassis: %w", name, err)
		}
		if _, err := fmt.Fprintf(out, "%s:%s\n", name, b); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
		return nil
	case verb == "set" && name == "power" && len(args) == 4 && (args[3] == "0" || args[3] == "1"):
		return keep(dir, name, args[3])
	case verb == "set" && name == "boot" && len(args) == 4:
		return keep(dir, name, args[3])
	case verb == "set" && name == "shutdown":
		return keep(dir, "power", "0")
	case verb == "set" && (name == "reset" || name == "identify"):
		return nil // neither changes what a chassis can be asked for
	}
	return fmt.Errorf("a chassis has no %q", strings.Join(args[1:], " "))
}

// keep replaces a value in one step: a reader sees the old or the new one.
func keep(dir, name, value string) error {
	next := filepath.Join(dir, name+".next")
	if err := os.WriteFile(next, []byte(value), 0o600); err != nil {
		return fmt.Errorf("write %s of chassis: %w", name, err)
	}
	if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
		return fmt.Errorf("replace %s of chassis: %w", name, err)
	}
	return nil
}
