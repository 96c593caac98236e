// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/pelletier/go-toml/v2"

	"windhover/control"
)

// TOML is the configuration in force as a file would say it; a comment behind a value
// says where it stands, unless it is a default. Secrets are in the files that it names;
// what may hide one in a URL is left out.
func (l Loaded) TOML() ([]byte, error) {
	w := configWriter{places: l.places}
	cfg := l.Config
	if err := w.table(reflect.ValueOf(&cfg).Elem(), ""); err != nil {
		return nil, fmt.Errorf("config: %v", err)
	}
	return bytes.TrimPrefix(w.Bytes(), []byte("\n")), nil
}

// TOML is the configuration without where its values stand.
func (c Config) TOML() ([]byte, error) { return Loaded{Config: c}.TOML() }

// Origins are the places of the values that are no defaults, by key.
func (l Loaded) Origins() map[string]Place {
	out := map[string]Place{}
	for _, k := range keyFields(new(Config)) {
		if p := l.places.of(k.key); p != (Place{}) {
			out[k.key] = p
		}
	}
	return out
}

// configWriter writes a configuration.
type configWriter struct {
	bytes.Buffer
	places origins
}

// table writes the keys of a table, then the tables in it.
func (w *configWriter) table(v reflect.Value, path string) error {
	var tables []int
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Tag.Get("toml")
		if f.Kind() == reflect.Struct || f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
			tables = append(tables, i)
			continue
		}
		line, err := toml.Marshal(map[string]any{name: shown(f)})
		if err != nil {
			return err
		}
		w.line(strings.TrimSuffix(string(line), "\n"), w.places.of(joinKey(path, name)))
	}
	for _, i := range tables {
		f, key := v.Field(i), joinKey(path, v.Type().Field(i).Tag.Get("toml"))
		if f.Kind() == reflect.Struct {
			fmt.Fprintf(w, "\n[%s]\n", key)
			if err := w.table(f, key); err != nil {
				return err
			}
			continue
		}
		for n := range f.Len() {
			elem := fmt.Sprintf("%s[%d]", key, n)
			w.WriteByte('\n')
			w.line("[["+key+"]]", w.places.of(elem))
			if err := w.table(f.Index(n), elem); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *configWriter) line(text string, at Place) {
	w.WriteString(text)
	switch {
	case at.Variable != "":
		w.WriteString(" # " + at.String())
	case at.File != "":
		fmt.Fprintf(w, " # %s:%d", printable(at.File), at.Line)
	}
	w.WriteByte('\n')
}

// printable is a name that ends no comment.
func printable(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '?'
	}, name)
}

// shown is a value without what may be a secret.
func shown(f reflect.Value) any {
	mask := func(s string) string {
		if strings.Contains(s, "://") {
			return control.Redact(s)
		}
		return s
	}
	switch f.Kind() {
	case reflect.String:
		return mask(f.String())
	case reflect.Slice:
		list := []string{}
		for i := range f.Len() {
			list = append(list, mask(f.Index(i).String()))
		}
		return list
	default:
		return f.Interface()
	}
}
