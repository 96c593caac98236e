// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"bytes"
	"encoding/json"
	"slices"
	"unicode/utf8"
)

const (
	maxIndent   = 24  // spaces behind a line end
	maxDigits   = 15  // of an integer: float64 holds them exactly
	maxExponent = 2   // digits
	maxFreeKey  = 128 // characters of a key that is not declared
	unlimited   = -1
)

// character takes a character of a string as JSON writes it: as it is, or escaped.
func (b *builder) character(next int32) int32 {
	var short byteSet
	for _, c := range []byte(`"\/bfnrt`) {
		short.add(c, c)
	}
	hex := func(first, last string, next int32) int32 { // bytes in either case
		var s byteSet
		for _, c := range []byte(first + last) {
			s.add(c, c)
		}
		return b.takes(s, next)
	}
	const digits, letters = "0123456789", "abcefABCEF" // d is apart
	two := hex(digits, letters+"dD", hex(digits, letters+"dD", next))
	three := hex(digits, letters+"dD", two)
	four := b.split(hex(digits, letters, three), hex("", "dD", hex("01234567", "", two))) // no surrogate
	escaped := b.split(b.takes(short, next), b.bytes('u', 'u', four))
	return b.split(b.oneOf(plain, next), b.bytes('\\', '\\', escaped))
}

// written takes one character of a set as JSON writes it shortest; -1 when the set
// is empty.
func (b *builder) written(set runes, next int32) int32 {
	var alts []int32
	if at := b.oneOf(set.and(plain), next); at >= 0 {
		alts = append(alts, at)
	}
	for c := rune(0); c <= '\\'; c++ {
		if set.has(c) && !plain.has(c) {
			q := quote(string(c))
			alts = append(alts, b.text(q[1:len(q)-1], next))
		}
	}
	if len(alts) == 0 {
		return -1
	}
	return b.split(alts...)
}

func (b *builder) string(least, most, next int32) int32 {
	return b.bytes('"', '"', b.loop(b.char, least, most, b.bytes('"', '"', next)))
}

// spaced is next behind white space.
func (b *builder) spaced(next int32) int32 { return b.call(b.space, next) }

func (b *builder) integer(next int32) int32 {
	whole := b.split(b.bytes('0', '0', next), b.bytes('1', '9', b.loop(b.digit, 0, maxDigits-1, next)))
	return b.split(whole, b.bytes('-', '-', whole))
}

func (b *builder) number(next int32) int32 {
	var e, sign byteSet
	e.add('e', 'e')
	e.add('E', 'E')
	sign.add('+', '+')
	sign.add('-', '-')
	power := b.loop(b.digit, 1, maxExponent, next)
	tail := b.split(next, b.takes(e, b.split(power, b.takes(sign, power))))
	return b.integer(b.split(tail, b.bytes('.', '.', b.loop(b.digit, 1, maxDigits, tail))))
}

// anyValue is any JSON value.
func (b *builder) anyValue(next int32) int32 {
	value := func(next int32) (int32, error) { return b.call(b.any, next), nil }
	object, _ := b.object(nil, value, next) // value does not fail
	array, _ := b.array(value, 0, unlimited, next)
	return b.split(
		b.string(0, unlimited, next), b.number(next), object, array,
		b.text("true", next), b.text("false", next), b.text("null", next),
	)
}

// maker compiles a value before next.
type maker func(next int32) (int32, error)

// property is a declared one of an object.
type property struct {
	key      string
	required bool
	value    maker
}

// object takes the declared properties in their order, then others where there is a
// maker of their values.
func (b *builder) object(props []property, other maker, next int32) (int32, error) {
	end := b.bytes('}', '}', next)
	first, more := end, b.spaced(end) // before the first property, and behind one
	if other != nil {
		again := b.add(node{kind: splits})
		value, err := other(again)
		if err != nil {
			return 0, err
		}
		key := b.bytes('"', '"', b.otherKey(props, b.text(`":`, b.spaced(value))))
		first = b.split(key, end)
		if !b.full {
			b.nodes[again].alts = []int32{b.bytes(',', ',', b.spaced(key)), more}
		}
		more = again
	}
	for _, p := range slices.Backward(props) {
		value, err := p.value(more)
		if err != nil {
			return 0, err
		}
		key := b.text(quote(p.key)+":", b.spaced(value))
		behind := b.bytes(',', ',', b.spaced(key))
		if p.required {
			first, more = key, behind
		} else {
			first, more = b.split(key, first), b.split(behind, more)
		}
	}
	return b.bytes('{', '{', b.spaced(first)), nil
}

// otherKey takes a key, without its quotation marks, that is none of the declared
// ones. It has no escapes, so that it can be told from them by its bytes.
func (b *builder) otherKey(props []property, next int32) int32 {
	var keys []string
	for _, p := range props {
		keys = append(keys, p.key)
	}
	slices.Sort(keys)
	free := b.oneOf(plain, b.ret)
	return b.unlike(keys, 0, free, next)
}

// unlike takes the rest of a key that has n bytes in common with all of keys, which
// are sorted, and is none of them.
func (b *builder) unlike(keys []string, n int, free, next int32) int32 {
	var alts []int32
	var chars []rune
	taken := false // what was read so far is a key itself
	for len(keys) > 0 {
		if len(keys[0]) == n {
			taken, keys = true, keys[1:]
			continue
		}
		r, size := utf8.DecodeRuneInString(keys[0][n:])
		same := 1
		for same < len(keys) {
			if other, _ := utf8.DecodeRuneInString(keys[same][n:]); other != r {
				break
			}
			same++
		}
		if plain.has(r) {
			chars = append(chars, r)
			alts = append(alts, b.text(string(r), b.unlike(keys[:same], n+size, free, next)))
		}
		keys = keys[same:]
	}
	if other := b.oneOf(plain.without(chars), b.loop(free, 0, maxFreeKey, next)); other >= 0 {
		alts = append(alts, other)
	}
	if !taken && n > 0 {
		alts = append(alts, next)
	}
	return b.split(alts...)
}

// array takes least to most values.
func (b *builder) array(value maker, least, most, next int32) (int32, error) {
	end := b.bytes(']', ']', next)
	if most == 0 {
		return b.bytes('[', '[', b.spaced(end)), nil
	}
	item := b.rule() // it goes on at two places
	var err error
	if b.rules[item], err = value(b.ret); err != nil {
		return 0, err
	}
	left := most
	if most > 0 {
		left--
	}
	rest := b.loop(b.bytes(',', ',', b.spaced(b.rules[item])), max(least-1, 0), left, b.spaced(end))
	first := b.call(item, rest)
	if least == 0 {
		first = b.split(first, end)
	}
	return b.bytes('[', '[', b.spaced(first)), nil
}

// quote writes a string as JSON does, shortest.
func quote(s string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("grammar: internal error: " + err.Error())
	}
	return string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}
