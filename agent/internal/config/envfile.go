package config

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
)

var settingName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// parse reads NAME=value lines. It accepts the part of systemd's
// EnvironmentFile format that has only one meaning: one setting a line,
// comments on their own lines, an optional pair of quotes.
func parse(r io.Reader) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(r, maxEnvFile+1))
	lines.Buffer(nil, maxEnvFile)
	for n, read := 1, 0; lines.Scan(); n++ {
		if read += len(lines.Bytes()) + 1; read > maxEnvFile {
			return nil, fmt.Errorf("the file is larger than %d bytes", maxEnvFile)
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, err := setting(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("line %d: %s is set twice", n, name)
		}
		values[name] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return values, nil
}

func setting(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, "=")
	if !found || !settingName.MatchString(name) {
		return "", "", fmt.Errorf("not of the form NAME=value")
	}
	if strings.HasPrefix(name, "GPUAAS_") && !settings[name] {
		return "", "", fmt.Errorf("there is no setting %s", name)
	}
	if len(value) >= 2 && (value[0] == '"' || value[0] == '\'') {
		if value[len(value)-1] != value[0] {
			return "", "", fmt.Errorf("the quote of %s is not closed", name)
		}
		value = value[1 : len(value)-1]
	}
	if strings.ContainsAny(value, "\"'\\\x00$`") {
		return "", "", fmt.Errorf("the value of %s holds a quote, a backslash or another character with a special meaning",
			name)
	}
	return name, value, nil
}
