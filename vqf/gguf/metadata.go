// SPDX-License-Identifier: Apache-2.0

package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// value is one metadata entry. Arrays are left in the file: only their place
// and count are kept, since a vocabulary is megabytes that most callers never
// ask for.
type value struct {
	typ   ValueType
	at    int64  // file offset of the value (of the first element for arrays)
	bits  uint64 // scalar, sign-extended or IEEE bits
	text  string
	elem  ValueType // arrays
	count int64
	end   int64 // file offset past an array
}

func (f *File) readKeys(c *cursor, n int) error {
	total := int64(0)
	for i := range n {
		c.item("key", i, "")
		key, err := c.text(maxKeyLen)
		if err != nil {
			return err
		}
		if _, dup := f.values[key]; dup {
			return c.errorf("duplicate key %q", key)
		}
		c.item("key", i, key)
		t, err := c.u32()
		if err != nil {
			return err
		}
		v := value{typ: ValueType(t), at: c.pos}
		if err := v.read(c); err != nil {
			return err
		}
		if total += int64(len(v.text)); total > maxTextTotal {
			return c.errorf("strings exceed %d bytes in all", maxTextTotal)
		}
		f.keys = append(f.keys, key)
		f.values[key] = v
	}
	return nil
}

func (v *value) read(c *cursor) (err error) {
	switch v.typ {
	case TypeString:
		v.text, err = c.text(maxText)
		return err
	case TypeArray:
		return v.readArray(c)
	}
	size := v.typ.size()
	if size == 0 {
		return c.errorf("unknown %s", v.typ)
	}
	b, err := c.next(int(size))
	if err != nil {
		return err
	}
	if v.bits = scalar(v.typ, b); v.typ == TypeBool && v.bits > 1 {
		return c.errorf("bool is %d, want 0 or 1", v.bits)
	}
	return nil
}

func (v *value) readArray(c *cursor) error {
	t, err := c.u32()
	if err != nil {
		return err
	}
	v.elem = ValueType(t)
	n, err := c.u64()
	if err != nil {
		return err
	}
	if n > maxElements {
		return c.errorf("array of %d elements exceeds the limit of %d", n, maxElements)
	}
	v.count, v.at = int64(n), c.pos
	switch size := v.elem.size(); {
	case size > 0:
		err = c.skip(v.count * size) // at most 4 Mi · 8: no wrap
	case v.elem == TypeString && v.count > maxTexts-c.texts:
		err = c.errorf("over %d strings in arrays", maxTexts)
	case v.elem == TypeString:
		c.texts += v.count
		for range v.count {
			if c.pos-v.at > maxArrayText {
				return c.errorf("array of strings exceeds %d bytes", maxArrayText)
			}
			var length int64
			if length, err = c.length(maxText); err != nil {
				return err
			}
			if err = c.skip(length); err != nil {
				return err
			}
		}
	default:
		err = c.errorf("array of %s elements", v.elem)
	}
	v.end = c.pos
	return err
}

// scalar widens the value in b: integers by their sign, floats to their
// float64 bits.
func scalar(t ValueType, b []byte) uint64 {
	le := binary.LittleEndian
	switch t {
	case TypeUint8, TypeBool:
		return uint64(b[0])
	case TypeInt8:
		return uint64(int64(int8(b[0])))
	case TypeUint16:
		return uint64(le.Uint16(b))
	case TypeInt16:
		return uint64(int64(int16(le.Uint16(b))))
	case TypeUint32:
		return uint64(le.Uint32(b))
	case TypeInt32:
		return uint64(int64(int32(le.Uint32(b))))
	case TypeFloat32:
		return math.Float64bits(float64(math.Float32frombits(le.Uint32(b))))
	}
	return le.Uint64(b)
}

// Keys returns the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Has reports whether the metadata holds key.
func (f *File) Has(key string) bool {
	_, ok := f.values[key]
	return ok
}

// Kind returns the type of key's value and, for an array, the type and the
// number of its elements. The error matches ErrNoKey when there is none.
func (f *File) Kind(key string) (t, elem ValueType, count int64, err error) {
	v, err := f.lookup(key)
	return v.typ, v.elem, v.count, err
}

func (f *File) lookup(key string) (value, error) {
	v, ok := f.values[key]
	if !ok {
		return v, fmt.Errorf("gguf: %w %q", ErrNoKey, key)
	}
	return v, nil
}

func (v *value) wrongType(key, want string) error {
	t := v.typ.String()
	if v.typ == TypeArray {
		t = "array of " + v.elem.String()
	}
	return &FormatError{Field: fmt.Sprintf("key %q", key), Offset: v.at, Msg: fmt.Sprintf("is %s, want %s", t, want)}
}

func (t ValueType) integer() bool {
	switch t {
	case TypeUint8, TypeInt8, TypeUint16, TypeInt16, TypeUint32, TypeInt32, TypeUint64, TypeInt64:
		return true
	}
	return false
}

func (t ValueType) signed() bool {
	return t == TypeInt8 || t == TypeInt16 || t == TypeInt32 || t == TypeInt64
}

// Uint returns an integer value of any width that is not negative. The error
// matches ErrNoKey when the key is absent, ErrFormat when it is something else.
func (f *File) Uint(key string) (uint64, error) {
	v, err := f.lookup(key)
	if err != nil {
		return 0, err
	}
	if !v.typ.integer() || v.typ.signed() && int64(v.bits) < 0 {
		return 0, v.wrongType(key, "an integer from 0")
	}
	return v.bits, nil
}

// Float returns a float32 or float64 value; errors as Uint.
func (f *File) Float(key string) (float64, error) {
	v, err := f.lookup(key)
	if err != nil {
		return 0, err
	}
	if v.typ != TypeFloat32 && v.typ != TypeFloat64 {
		return 0, v.wrongType(key, "a float")
	}
	return math.Float64frombits(v.bits), nil
}

// Bool returns a bool value; errors as Uint.
func (f *File) Bool(key string) (bool, error) {
	v, err := f.lookup(key)
	if err != nil {
		return false, err
	}
	if v.typ != TypeBool {
		return false, v.wrongType(key, "a bool")
	}
	return v.bits == 1, nil
}

// Text returns a string value; errors as Uint. The bytes are as in the file
// and need not be UTF-8.
func (f *File) Text(key string) (string, error) {
	v, err := f.lookup(key)
	if err != nil {
		return "", err
	}
	if v.typ != TypeString {
		return "", v.wrongType(key, "a string")
	}
	return v.text, nil
}

// Texts returns an array of strings; errors as Uint. It is read from the
// file anew with each call.
func (f *File) Texts(key string) ([]string, error) {
	v, err := f.lookup(key)
	if err != nil {
		return nil, err
	}
	if v.typ != TypeArray || v.elem != TypeString {
		return nil, v.wrongType(key, "an array of strings")
	}
	c := newCursor(f.r, v.end)
	c.pos = v.at
	c.item("key", 0, key)
	out := make([]string, 0, v.count) // the count was walked when opening
	for range v.count {
		s, err := c.text(maxText)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// Ints returns an array of integers of any width; errors as Uint, and for a
// uint64 element past the range of int64.
func (f *File) Ints(key string) ([]int64, error) {
	v, err := f.lookup(key)
	if err != nil {
		return nil, err
	}
	if v.typ != TypeArray || !v.elem.integer() {
		return nil, v.wrongType(key, "an array of integers")
	}
	out := make([]int64, 0, v.count)
	err = f.elements(key, &v, func(c *cursor, bits uint64) error {
		if v.elem == TypeUint64 && bits > math.MaxInt64 {
			return c.errorf("element %d exceeds 63 bits", len(out))
		}
		out = append(out, int64(bits))
		return nil
	})
	return out, err
}

// Floats returns an array of floats of either width; errors as Uint.
func (f *File) Floats(key string) ([]float64, error) {
	v, err := f.lookup(key)
	if err != nil {
		return nil, err
	}
	if v.typ != TypeArray || v.elem != TypeFloat32 && v.elem != TypeFloat64 {
		return nil, v.wrongType(key, "an array of floats")
	}
	out := make([]float64, 0, v.count)
	err = f.elements(key, &v, func(_ *cursor, bits uint64) error {
		out = append(out, math.Float64frombits(bits))
		return nil
	})
	return out, err
}

// Bools returns an array of bools; errors as Uint.
func (f *File) Bools(key string) ([]bool, error) {
	v, err := f.lookup(key)
	if err != nil {
		return nil, err
	}
	if v.typ != TypeArray || v.elem != TypeBool {
		return nil, v.wrongType(key, "an array of bools")
	}
	out := make([]bool, 0, v.count)
	err = f.elements(key, &v, func(c *cursor, bits uint64) error {
		if bits > 1 {
			return c.errorf("element %d is %d, want 0 or 1", len(out), bits)
		}
		out = append(out, bits == 1)
		return nil
	})
	return out, err
}

// elements walks an array of scalars; each gets an element as scalar widens it.
func (f *File) elements(key string, v *value, each func(c *cursor, bits uint64) error) error {
	c := newCursor(f.r, v.end)
	c.pos = v.at
	c.item("key", 0, key)
	for range v.count {
		b, err := c.next(int(v.elem.size()))
		if err != nil {
			return err
		}
		if err := each(c, scalar(v.elem, b)); err != nil {
			return err
		}
	}
	return nil
}

// Scalar returns a printable form of a value that is no array, for listings;
// arrays give a short description.
func (f *File) Scalar(key string) (string, error) {
	v, err := f.lookup(key)
	if err != nil {
		return "", err
	}
	switch {
	case v.typ == TypeString:
		return v.text, nil
	case v.typ == TypeArray:
		return fmt.Sprintf("[%d] %s", v.count, v.elem), nil
	case v.typ == TypeBool:
		return fmt.Sprint(v.bits == 1), nil
	case v.typ == TypeFloat32:
		return fmt.Sprint(float32(math.Float64frombits(v.bits))), nil
	case v.typ == TypeFloat64:
		return fmt.Sprint(math.Float64frombits(v.bits)), nil
	case v.typ.signed():
		return fmt.Sprint(int64(v.bits)), nil
	}
	return fmt.Sprint(v.bits), nil
}
