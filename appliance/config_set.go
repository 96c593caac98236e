// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxProblems is how many problems of one file are told. A file with more is of something
// else.
const maxProblems = 100

// tomlFile brings the values of one file into a configuration.
type tomlFile struct {
	*reader
	path  string
	spots spots
	found Problems
}

// table sets the fields of a struct from the keys of a table.
func (t *tomlFile) table(v reflect.Value, doc map[string]any, table string) {
	keys := slices.SortedFunc(maps.Keys(doc), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.spots.at[joinKey(table, a)].key, t.spots.at[joinKey(table, b)].key), cmp.Compare(a, b))
	})
	for _, k := range keys {
		if len(t.found) >= maxProblems {
			return
		}
		path := joinKey(table, k)
		f, ok := fieldOf(v, k)
		if !ok {
			text := fmt.Sprintf("unknown key %q", path)
			if near := nearKey(plainKey(path), allKeys()); near != "" {
				text += fmt.Sprintf(": did you mean %s?", near)
				t.bad[near], t.bad[joinKey(table, lastWord(near))] = true, true
			}
			t.found = append(t.found, Problem{Place: t.spots.place(t.path, t.spots.at[path].key), Key: path, Message: text})
			continue
		}
		t.value(f, doc[k], path)
	}
}

func (t *tomlFile) value(f reflect.Value, value any, path string) {
	at := t.spots.place(t.path, t.spots.at[path].value)
	if f.Kind() == reflect.Struct {
		if doc, ok := value.(map[string]any); ok {
			t.table(f, doc, path)
		} else {
			t.mismatch(path, at, value, "a table")
		}
		return
	}
	switch got := value.(type) {
	case string:
		if f.Kind() == reflect.String {
			f.SetString(got)
			t.places[path] = at
			return
		}
	case bool:
		if f.Kind() == reflect.Bool {
			f.SetBool(got)
			t.places[path] = at
			return
		}
	case int64:
		if f.Kind() == reflect.Int && !f.OverflowInt(got) {
			f.SetInt(got)
			t.places[path] = at
			return
		}
	case []any:
		if f.Kind() == reflect.Slice {
			t.list(f, got, path, at)
			return
		}
	}
	t.mismatch(path, at, value, wanted(f.Type()))
}

// list sets a list of strings or of tables.
func (t *tomlFile) list(f reflect.Value, values []any, path string, at Place) {
	t.places.replace(path, at)
	f.Set(reflect.MakeSlice(f.Type(), len(values), len(values)))
	for i, v := range values {
		if len(t.found) >= maxProblems {
			return
		}
		elem := fmt.Sprintf("%s[%d]", path, i)
		if f.Type().Elem().Kind() == reflect.Struct {
			t.places[elem] = t.spots.place(t.path, t.spots.at[elem].value)
		}
		t.value(f.Index(i), v, elem)
	}
}

func (t *tomlFile) mismatch(path string, at Place, value any, want string) {
	t.bad[path], t.bad[plainKey(path)] = true, true
	t.found = append(t.found, Problem{Place: at, Key: path, Message: fmt.Sprintf("%s is of type %s, want %s", path, typeName(value), want)})
}

// wanted is a type in words.
func wanted(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of strings"
	default:
		return "a list of tables"
	}
}

// typeName is the type of a value as TOML names it.
func typeName(value any) string {
	switch value.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "float"
	case []any:
		return "array"
	case map[string]any:
		return "table"
	default:
		return "date or time"
	}
}

// fieldOf is the field of a struct that has the key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("toml") == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// keyField is a key of the configuration and its field.
type keyField struct {
	key   string // mqtt.embedded.listen
	field reflect.Value
}

// variable is the environment variable that overrides it.
func (k keyField) variable() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.key, ".", "_"))
}

// keyFields are all keys of a configuration, in the order of its fields. A list is one key.
func keyFields(cfg *Config) []keyField {
	var list []keyField
	var walk func(v reflect.Value, table string)
	walk = func(v reflect.Value, table string) {
		for i := range v.NumField() {
			key := joinKey(table, v.Type().Field(i).Tag.Get("toml"))
			if f := v.Field(i); f.Kind() == reflect.Struct {
				walk(f, key)
			} else {
				list = append(list, keyField{key, f})
			}
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), "")
	return list
}

// allKeys are the names of all keys, and of those of a policy.
func allKeys() []string {
	var list []string
	for _, k := range keyFields(new(Config)) {
		list = append(list, k.key)
	}
	return append(list, "policy.client", "policy.allow")
}

// plainKey is a path without the numbers of elements.
func plainKey(path string) string {
	for {
		i := strings.IndexByte(path, '[')
		j := strings.IndexByte(path, ']')
		if i < 0 || j < i {
			return path
		}
		path = path[:i] + path[j+1:]
	}
}

// nearKey is the key that somebody may have meant by one that is none, "" where nothing
// is near: another spelling, or the last word in another table.
func nearKey(key string, keys []string) string {
	best, bestAt, elsewhere := "", 3+len(key)/12, ""
	for _, k := range keys {
		w := lastWord(key)
		if d := editDistance(strings.ToLower(key), strings.ToLower(k)); d < bestAt && d < max(len(w), len(lastWord(k))) {
			best, bestAt = k, d
		}
		if elsewhere == "" && len(w) > 2 && w == lastWord(k) {
			elsewhere = k
		}
	}
	return cmp.Or(best, elsewhere)
}

func lastWord(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// editDistance is how many bytes to insert, remove, replace or swap with their neighbour
// make one of the other.
func editDistance(a, b string) int {
	var before, last, row []int // of a's first i-2, i-1, i bytes
	for i := range len(a) + 1 {
		before, last, row = last, row, make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
			case a[i-1] == b[j-1]:
				row[j] = last[j-1]
			default:
				row[j] = 1 + min(last[j-1], last[j], row[j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// EnvPrefix starts the name of every environment variable that overrides a
// configuration key: WINDHOVER_MQTT_EMBEDDED_LISTEN is mqtt.embedded.listen.
const EnvPrefix = "WINDHOVER_"

// environment overrides single keys. A variable that begins like those of a section and
// is no key is warned of; others with our prefix are left alone: tests and scripts of
// users have it too.
func (r *reader) environment(environ []string) {
	byName, names := map[string]keyField{}, []string(nil)
	for _, k := range keyFields(&r.cfg) {
		byName[k.variable()] = k
		names = append(names, strings.TrimPrefix(k.variable(), EnvPrefix))
	}
	said := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			said[name] = value // of two of one name the last counts
		}
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		at := Place{Variable: name}
		k, ok := byName[name]
		switch {
		case !ok && inSection(name):
			text := "is no key"
			if near := nearKey(strings.TrimPrefix(name, EnvPrefix), names); near != "" {
				text += ": did you mean " + EnvPrefix + near + "?"
			}
			r.warnings = append(r.warnings, Problem{Place: at, Message: text})
		case !ok:
		case k.field.Kind() == reflect.Slice && k.field.Type().Elem().Kind() == reflect.Struct:
			r.warnings = append(r.warnings, Problem{Place: at, Key: k.key, Message: k.key + " cannot be set by the environment: write it into a file"})
		default:
			if err := setFromString(k.field, said[name]); err != nil {
				r.bad[k.key] = true
				r.problems = append(r.problems, Problem{Place: at, Key: k.key, Message: fmt.Sprintf("%s %v", k.key, err)})
				continue
			}
			delete(r.bad, k.key) // whatever the files say
			r.places.replace(k.key, at)
		}
	}
}

// inSection says whether a variable begins with the name of a section.
func inSection(name string) bool {
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		if k := t.Field(i).Type.Kind(); k != reflect.Struct && k != reflect.Slice {
			continue
		}
		section := EnvPrefix + strings.ToUpper(t.Field(i).Tag.Get("toml"))
		if name == section || strings.HasPrefix(name, section+"_") {
			return true
		}
	}
	return false
}

func setFromString(f reflect.Value, s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%q is not UTF-8", s)
	}
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
		list := []string{}
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
