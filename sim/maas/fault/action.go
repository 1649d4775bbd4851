package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"go.yaml.in/yaml/v3"
)

// Action is what happens to one request.
type Action struct {
	Kind        Kind
	Delay       time.Duration
	Status      int
	Body        string
	ContentType string
	RetryAfter  string
	set         map[string]any
	machine     string
}

// Bend changes an answer into a lie or cuts it short.
func (a Action) Bend(body []byte) ([]byte, error) {
	switch a.Kind {
	case Truncate:
		return body[:len(body)/2], nil
	case Lie, Ignored:
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("read answer to lie about: %w", err)
		}
		b, err := json.MarshalIndent(a.lie(v), "", "    ")
		if err != nil {
			return nil, fmt.Errorf("write lie: %w", err)
		}
		return b, nil
	default:
		return body, nil
	}
}

func (a Action) lie(v any) any {
	switch v := v.(type) {
	case map[string]any:
		maps.Copy(v, a.set)
	case []any:
		for _, e := range v {
			m, ok := e.(map[string]any)
			if ok && (a.machine == "" || m["system_id"] == a.machine) {
				maps.Copy(m, a.set)
			}
		}
	}
	return v
}

// Duration is a length of time in the form "1m30s".
type Duration time.Duration

// UnmarshalText reads it.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("read duration: %w", err)
	}
	*d = Duration(v)
	return nil
}

// MarshalText writes it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Happening is something that happens to a machine without a request to MAAS.
type Happening struct {
	After   Duration `json:"after,omitempty" yaml:"after"`
	Machine string   `json:"machine" yaml:"machine"`
	Do      string   `json:"do" yaml:"do"`
}

// Scenario is the content of a scenario file: what goes wrong.
type Scenario struct {
	Faults     []Rule      `json:"faults" yaml:"faults"`
	Happenings []Happening `json:"happenings" yaml:"happenings"`
}

// ReadScenario reads a scenario and checks all its rules.
func ReadScenario(b []byte) (*Scenario, error) {
	var s Scenario
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	for n := range s.Faults {
		if err := s.Faults[n].Check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", n+1, err)
		}
	}
	return &s, nil
}
