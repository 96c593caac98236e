// SPDX-License-Identifier: Apache-2.0

package grammar_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"
)

// validate holds a value against a schema as JSON schema defines it: another way
// than the package's own, over decoded values.
func validate(root, schema, v any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		if schema == true {
			return nil
		}
		return fmt.Errorf("schema %v", schema)
	}
	if ref, ok := s["$ref"].(string); ok {
		target := root
		for _, part := range strings.Split(ref, "/")[1:] {
			target = target.(map[string]any)[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
		return validate(root, target, v)
	}
	if list, ok := s["anyOf"].([]any); ok {
		for _, alt := range list {
			if validate(root, alt, v) == nil {
				return nil
			}
		}
		return fmt.Errorf("%v is none of anyOf", v)
	}
	if err := checkType(s["type"], v); err != nil {
		return err
	}
	if c, ok := s["const"]; ok && !reflect.DeepEqual(c, v) {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if list, ok := s["enum"].([]any); ok {
		found := false
		for _, e := range list {
			found = found || reflect.DeepEqual(e, v)
		}
		if !found {
			return fmt.Errorf("%v is not in enum", v)
		}
	}
	switch v := v.(type) {
	case string:
		n := float64(utf8.RuneCountInString(v))
		if err := within(s, "minLength", "maxLength", n); err != nil {
			return err
		}
		if p, ok := s["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, p)
		}
	case []any:
		if err := within(s, "minItems", "maxItems", float64(len(v))); err != nil {
			return err
		}
		if items, ok := s["items"]; ok {
			for i := range v {
				if err := validate(root, items, v[i]); err != nil {
					return fmt.Errorf("[%d]: %w", i, err)
				}
			}
		}
	case map[string]any:
		props, _ := s["properties"].(map[string]any)
		required, _ := s["required"].([]any)
		for _, r := range required {
			if _, ok := v[r.(string)]; !ok {
				return fmt.Errorf("%q is missing", r)
			}
		}
		for key, field := range v {
			sub, declared := props[key]
			if !declared {
				if sub, declared = s["additionalProperties"]; !declared {
					continue
				}
				if sub == false {
					return fmt.Errorf("%q is not declared", key)
				}
			}
			if err := validate(root, sub, field); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

func within(s map[string]any, least, most string, n float64) error {
	if l, ok := s[least].(float64); ok && n < l {
		return fmt.Errorf("%v is below %s %v", n, least, l)
	}
	if m, ok := s[most].(float64); ok && n > m {
		return fmt.Errorf("%v is above %s %v", n, most, m)
	}
	return nil
}

func checkType(want, v any) error {
	if want == nil {
		return nil
	}
	list, ok := want.([]any)
	if !ok {
		list = []any{want}
	}
	for _, t := range list {
		switch v := v.(type) {
		case nil:
			ok = t == "null"
		case bool:
			ok = t == "boolean"
		case string:
			ok = t == "string"
		case float64:
			ok = t == "number" || t == "integer" && v == math.Trunc(v)
		case []any:
			ok = t == "array"
		default:
			ok = t == "object"
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("%v is no %v", v, want)
}

// decode reads JSON; one key twice in an object is an error.
func decode(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, err
	}
	return v, nil
}
