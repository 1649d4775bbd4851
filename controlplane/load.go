package controlplane

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"
)

// Setting is one key of the configuration.
type Setting struct {
	Key    string // for example postgres.max_conns
	Doc    string
	Secret bool // never taken from a flag: command lines are public
	List   bool
}

// Env returns the variable that sets it.
func (s Setting) Env() string {
	return "GPUAAS_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// Flag returns the flag that sets it.
func (s Setting) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.Key)
}

// Settings lists every key, in the order of the struct.
func Settings() []Setting { return settings(reflect.TypeFor[Config](), "") }

func settings(t reflect.Type, prefix string) []Setting {
	var out []Setting
	for f := range t.Fields() {
		key := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]() {
			out = append(out, settings(f.Type, key+".")...)
			continue
		}
		out = append(out, Setting{
			Key: key, Doc: f.Tag.Get("doc"), Secret: f.Type == reflect.TypeFor[Secret](), List: f.Type.Kind() == reflect.Slice,
		})
	}
	return out
}

// otherVariables are GPUAAS_* variables that belong to other programs.
var otherVariables = []string{
	"GPUAAS_CONFIG", "GPUAAS_CONTEXT", "GPUAAS_URL", "GPUAAS_TOKEN", "GPUAAS_CA_FILE", "GPUAAS_CACHE", "GPUAAS_SERVERS",
	"GPUAAS_REGISTRY", "GPUAAS_STATE", "GPUAAS_TEST_STACK", "GPUAAS_OUTPUT", "GPUAAS_RACK_HOME",
}

// Load puts the configuration together: defaults, then the YAML file (if
// named), then variables, then flags by key. It reports every problem.
func Load(base Config, file string, environ []string, flags map[string]string) (Config, []error) {
	k := koanf.New(".")
	var errs []error
	if file != "" {
		values, err := readYAML(file)
		if err != nil {
			return base, []error{err}
		}
		_ = k.Load(confmap.Provider(values, ""), nil) // a map cannot fail to load
	}
	fromEnv, unknown := readEnviron(environ)
	errs = append(errs, unknown...)
	_ = k.Load(confmap.Provider(fromEnv, "."), nil)
	_ = k.Load(confmap.Provider(toValues(flags), "."), nil)
	for _, key := range k.Keys() {
		if !slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Key == key }) {
			errs = append(errs, fmt.Errorf("%s: there is no such setting; see: gpuaas config show", key))
		}
	}
	cfg := base
	err := k.UnmarshalWithConf("", &cfg, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		TagName: "koanf", WeaklyTypedInput: true, ZeroFields: true, // a shorter list replaces a longer one
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			mapstructure.TextUnmarshallerHookFunc(), mapstructure.StringToTimeDurationHookFunc(),
			mapstructure.StringToWeakSliceHookFunc(",")),
	}})
	if err != nil {
		errs = append(errs, fmt.Errorf("read configuration: %w", err))
	}
	errs = append(errs, cfg.readSecretFiles()...)
	return cfg, append(errs, cfg.Validate()...)
}

func readYAML(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(b, &values); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", file, err)
	}
	return values, nil
}

func readEnviron(environ []string) (map[string]any, []error) {
	keys := map[string]Setting{}
	for _, s := range Settings() {
		keys[s.Env()] = s
	}
	out := map[string]any{}
	var errs []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, "GPUAAS_") || slices.Contains(otherVariables, name) {
			continue
		}
		if s, ok := keys[name]; ok {
			out[s.Key] = value
			continue
		}
		errs = append(errs, fmt.Errorf("%s: there is no such setting; see: gpuaas config show", name))
	}
	return out, errs
}

func toValues(flags map[string]string) map[string]any {
	out := make(map[string]any, len(flags))
	for k, v := range flags {
		out[k] = v
	}
	return out
}

func (c *Config) readSecretFiles() []error {
	var errs []error
	for _, s := range []struct {
		key, file string
		into      *Secret
	}{
		{"postgres.url_file", c.Postgres.URLFile, &c.Postgres.URL},
		{"postgres.migrate_url_file", c.Postgres.MigrateURLFile, &c.Postgres.MigrateURL},
	} {
		if s.file == "" {
			continue
		}
		b, err := os.ReadFile(s.file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.key, err))
			continue
		}
		*s.into = NewSecret(strings.TrimSpace(string(b)))
	}
	return errs
}

// Show returns the configuration as YAML with every key explained and every
// secret redacted.
func (c Config) Show() string {
	var b strings.Builder
	show(&b, reflect.ValueOf(c), "")
	return b.String()
}

func show(b *strings.Builder, v reflect.Value, indent string) {
	for f := range v.Type().Fields() {
		value := v.FieldByIndex(f.Index)
		name := indent + f.Tag.Get("koanf") + ":"
		if value.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]() {
			fmt.Fprintf(b, "%s\n", name)
			show(b, value, indent+"  ")
			continue
		}
		text := fmt.Sprintf("%v", value.Interface())
		if kind := value.Kind(); kind == reflect.Slice {
			parts := make([]string, value.Len())
			for i := range parts {
				parts[i] = fmt.Sprint(value.Index(i).Interface())
			}
			text = "[" + strings.Join(parts, ", ") + "]"
		} else if kind == reflect.String || kind == reflect.Struct {
			text = fmt.Sprintf("%q", text)
		}
		fmt.Fprintf(b, "%s# %s\n%s %s\n", indent, f.Tag.Get("doc"), name, text)
	}
}
