// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"slices"
	"strconv"
)

func (c *compiler) stringOf(v *value, at string, next int32) (int32, error) {
	least, most, err := limits(v, "minLength", "maxLength", maxLength, at)
	if err != nil {
		return 0, err
	}
	pattern, ok := v.fields["pattern"]
	if !ok {
		return c.string(least, most, next), nil
	}
	if hasKey(v, "minLength") || hasKey(v, "maxLength") {
		return 0, problem(at, "pattern together with minLength or maxLength is not supported: say the length in the pattern")
	}
	if pattern.kind != "string" {
		return 0, problem(at+"/pattern", "%s where a string belongs", article(pattern.kind))
	}
	inside, err := c.pattern(pattern.text, at+"/pattern", c.bytes('"', '"', next))
	return c.bytes('"', '"', inside), err
}

func (c *compiler) arrayOf(v *value, at string, next int32) (int32, error) {
	least, most, err := limits(v, "minItems", "maxItems", maxItems, at)
	if err != nil {
		return 0, err
	}
	items, ok := v.fields["items"]
	if !ok {
		items = value{kind: "boolean", truth: true}
	}
	item := func(next int32) (int32, error) { return c.value(&items, at+"/items", next) }
	return c.array(item, least, most, next)
}

func (c *compiler) objectOf(v *value, at string, next int32) (int32, error) {
	declared, others := v.fields["properties"], v.fields["additionalProperties"]
	if hasKey(v, "properties") && declared.kind != "object" {
		return 0, problem(at+"/properties", "%s where an object belongs", article(declared.kind))
	}
	if len(declared.keys) > maxProperties {
		return 0, problem(at+"/properties", "%d properties, at most %d", len(declared.keys), maxProperties)
	}
	open := others.kind != "boolean" || others.truth // other properties are allowed
	if !hasKey(v, "additionalProperties") {
		others = value{kind: "boolean", truth: true}
	}
	other := func(next int32) (int32, error) { return c.value(&others, at+"/additionalProperties", next) }
	var props []property
	for _, key := range declared.keys {
		if len(key) > maxKeyBytes {
			return 0, problem(at+"/properties", "the name %.40q… has %d bytes, at most %d", key, len(key), maxKeyBytes)
		}
		field := declared.fields[key]
		props = append(props, property{key: key, value: func(next int32) (int32, error) {
			return c.value(&field, at+"/properties/"+escape(key), next)
		}})
	}
	required := v.fields["required"]
	if hasKey(v, "required") && required.kind != "array" {
		return 0, problem(at+"/required", "%s where an array belongs", article(required.kind))
	}
	for i, r := range required.items {
		if r.kind != "string" || len(r.text) > maxKeyBytes {
			return 0, problem(at+"/required/"+strconv.Itoa(i), "want the name of a property, of at most %d bytes", maxKeyBytes)
		}
		p := slices.IndexFunc(props, func(p property) bool { return p.key == r.text })
		if p < 0 && !open {
			return 0, problem(at+"/required", "%.80q is no property, and there are no others", r.text)
		}
		if p < 0 {
			p = len(props)
			props = append(props, property{key: r.text, value: other})
		}
		props[p].required = true
	}
	// Where properties are listed, others come only if that is said.
	if !open || len(props) > 0 && !hasKey(v, "additionalProperties") {
		return c.object(props, nil, next)
	}
	return c.object(props, other, next)
}

// limits reads a pair of keywords; most is unlimited where none is named.
func limits(v *value, min, max string, bound int, at string) (least, most int32, err error) {
	most = unlimited
	for _, l := range []struct {
		key string
		dst *int32
	}{{min, &least}, {max, &most}} {
		f, ok := v.fields[l.key]
		if !ok {
			continue
		}
		n, err := strconv.Atoi(f.text)
		if f.kind != "number" || err != nil || n < 0 || n > bound {
			return 0, 0, problem(at+"/"+l.key, "want a whole number from 0 to %d", bound)
		}
		*l.dst = int32(n)
	}
	if most >= 0 && least > most {
		return 0, 0, problem(at, "%s %d is above %s %d", min, least, max, most)
	}
	return least, most, nil
}
