// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// EnvPrefix starts the name of every environment variable that overrides a
// configuration key: WINDHOVER_MQTT_EMBEDDED_LISTEN is mqtt.embedded.listen.
const EnvPrefix = "WINDHOVER_"

// LoadConfig merges the defaults, the file at path, the *.toml files of conf.d
// beside it in name order, and the environment (as os.Environ gives it), and
// validates the result. An empty path reads no file. A missing file is an error
// only when mustExist is set: the default path may be absent.
//
// An unknown key is an error that names file, line and column.
func LoadConfig(path string, mustExist bool, environ []string) (Config, error) {
	cfg := DefaultConfig()
	if path != "" {
		files, err := configFiles(path, mustExist)
		if err != nil {
			return Config{}, err
		}
		for _, f := range files {
			if err := mergeFile(&cfg, f); err != nil {
				return Config{}, err
			}
		}
	}
	if err := mergeEnv(&cfg, environ); err != nil {
		return Config{}, err
	}
	if err := cfg.finish(); err != nil {
		return Config{}, err
	}
	return cfg, nil
}

// configFiles is path followed by conf.d/*.toml of the same directory.
func configFiles(path string, mustExist bool) ([]string, error) {
	var files []string
	switch _, err := os.Stat(path); {
	case err == nil:
		files = append(files, path)
	case !errors.Is(err, fs.ErrNotExist) || mustExist:
		return nil, fmt.Errorf("config: %w", err)
	}
	more, err := filepath.Glob(filepath.Join(filepath.Dir(path), "conf.d", "*.toml"))
	if err != nil {
		return nil, fmt.Errorf("config: %v", err)
	}
	sort.Strings(more)
	return append(files, more...), nil
}

// mergeFile takes over what a file says. A list replaces the one before as a whole: so
// does go-toml by itself.
func mergeFile(cfg *Config, path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	dec := toml.NewDecoder(bytes.NewReader(raw)).DisallowUnknownFields()
	if err := dec.Decode(cfg); err != nil {
		return tomlError(path, err)
	}
	return nil
}

// typeMismatch is go-toml's way to say that a value has the wrong type, in terms of Go.
var typeMismatch = regexp.MustCompile(`^cannot decode TOML (\w+) into (?:struct field \S+|a Go value) of type (\S+)$`)

// tomlError turns go-toml's errors into one line with file, line and column.
func tomlError(path string, err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) && len(strict.Errors) > 0 {
		e := strict.Errors[0]
		row, col := e.Position()
		return fmt.Errorf("config: %s:%d:%d: unknown key %q", path, row, col, strings.Join(e.Key(), "."))
	}
	var dec *toml.DecodeError
	if errors.As(err, &dec) {
		row, col := dec.Position()
		text := strings.TrimPrefix(dec.Error(), "toml: ")
		if m := typeMismatch.FindStringSubmatch(text); m != nil {
			want, known := map[string]string{"string": "a string", "int": "a whole number", "bool": "true or false", "[]string": "a list of strings"}[m[2]]
			if !known {
				want = "a table"
			}
			text = "is of type " + m[1] + ", want " + want
		}
		if key := strings.Join(dec.Key(), "."); key != "" {
			text = key + " " + text
		}
		return fmt.Errorf("config: %s:%d:%d: %s", path, row, col, text)
	}
	return fmt.Errorf("config: %s: %v", path, err)
}

// mergeEnv overrides single keys. A variable with our prefix that is no key is
// left alone: the prefix is also used by tests and by scripts of users.
func mergeEnv(cfg *Config, environ []string) error {
	byName := map[string]reflect.Value{}
	envKeys(reflect.ValueOf(cfg).Elem(), strings.TrimSuffix(EnvPrefix, "_"), byName)
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		field, ok := byName[name]
		if !ok {
			continue
		}
		if err := setFromString(field, value); err != nil {
			return fmt.Errorf("config: environment variable %s: %v", name, err)
		}
	}
	return nil
}

func envKeys(v reflect.Value, prefix string, out map[string]reflect.Value) {
	t := v.Type()
	for i := range t.NumField() {
		name := prefix + "_" + strings.ToUpper(t.Field(i).Tag.Get("toml"))
		switch f := v.Field(i); f.Kind() {
		case reflect.Struct:
			envKeys(f, name, out)
		case reflect.Slice:
			if f.Type().Elem().Kind() == reflect.String {
				out[name] = f
			}
		default:
			out[name] = f
		}
	}
}

func setFromString(f reflect.Value, s string) error {
	switch f.Kind() {
	case reflect.String:
		f.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is no boolean: use true or false", s)
		}
		f.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is no whole number", s)
		}
		f.SetInt(int64(n))
	case reflect.Slice: // of strings, comma-separated
		var list []string
		for _, p := range strings.Split(s, ",") {
			if p = strings.TrimSpace(p); p != "" {
				list = append(list, p)
			}
		}
		f.Set(reflect.ValueOf(list))
	default:
		return fmt.Errorf("cannot be set by the environment")
	}
	return nil
}
