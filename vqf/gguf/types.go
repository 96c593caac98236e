// SPDX-License-Identifier: Apache-2.0

package gguf

import "fmt"

// Type is the element type of a tensor, numbered as in the file.
type Type uint32

// The types whose values can be read (docs/FORMAT.md section 8.3).
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q2K  Type = 10
	Q3K  Type = 11
	Q4K  Type = 12
	Q5K  Type = 13
	Q6K  Type = 14
	Q8K  Type = 15
	BF16 Type = 30
)

// typeInfo is what the directory check needs of a type: its name and the
// size of one block. decode is nil for types that are known but not read.
type typeInfo struct {
	name     string
	elements uint64 // values a block
	bytes    uint64 // bytes a block
	decode   func(dst []float32, src []byte)
}

// info returns the row of the type table, ok = false for a number no writer
// is known to use. Types that are not decoded stay in the table so that a
// file holding them can still be listed and its bounds checked.
func (t Type) info() (typeInfo, bool) {
	switch t {
	case F32:
		return typeInfo{"F32", 1, 4, decodeF32}, true
	case F16:
		return typeInfo{"F16", 1, 2, decodeF16}, true
	case BF16:
		return typeInfo{"BF16", 1, 2, decodeBF16}, true
	case Q4_0:
		return typeInfo{"Q4_0", 32, 18, decodeQ4_0}, true
	case Q4_1:
		return typeInfo{"Q4_1", 32, 20, decodeQ4_1}, true
	case Q5_0:
		return typeInfo{"Q5_0", 32, 22, decodeQ5_0}, true
	case Q5_1:
		return typeInfo{"Q5_1", 32, 24, decodeQ5_1}, true
	case Q8_0:
		return typeInfo{"Q8_0", 32, 34, decodeQ8_0}, true
	case Q2K:
		return typeInfo{"Q2_K", 256, 84, decodeQ2K}, true
	case Q3K:
		return typeInfo{"Q3_K", 256, 110, decodeQ3K}, true
	case Q4K:
		return typeInfo{"Q4_K", 256, 144, decodeQ4K}, true
	case Q5K:
		return typeInfo{"Q5_K", 256, 176, decodeQ5K}, true
	case Q6K:
		return typeInfo{"Q6_K", 256, 210, decodeQ6K}, true
	case Q8K:
		return typeInfo{"Q8_K", 256, 292, decodeQ8K}, true
	}
	for _, u := range undecoded {
		if u.id == t {
			return typeInfo{u.name, u.elements, u.bytes, nil}, true
		}
	}
	return typeInfo{}, false
}

var undecoded = [...]struct {
	id              Type
	name            string
	elements, bytes uint64
}{
	{4, "Q4_2", 16, 10}, // removed from ggml in 2023
	{5, "Q4_3", 16, 12},
	{9, "Q8_1", 32, 36},
	{16, "IQ2_XXS", 256, 66},
	{17, "IQ2_XS", 256, 74},
	{18, "IQ3_XXS", 256, 98},
	{19, "IQ1_S", 256, 50},
	{20, "IQ4_NL", 32, 18},
	{21, "IQ3_S", 256, 110},
	{22, "IQ2_S", 256, 82},
	{23, "IQ4_XS", 256, 136},
	{24, "I8", 1, 1},
	{25, "I16", 1, 2},
	{26, "I32", 1, 4},
	{27, "I64", 1, 8},
	{28, "F64", 1, 8},
	{29, "IQ1_M", 256, 56},
	{31, "Q4_0_4_4", 32, 18}, // removed: repacked at load instead
	{32, "Q4_0_4_8", 32, 18},
	{33, "Q4_0_8_8", 32, 18},
	{34, "TQ1_0", 256, 54},
	{35, "TQ2_0", 256, 66},
	{36, "IQ4_NL_4_4", 32, 18},
	{37, "IQ4_NL_4_8", 32, 18},
	{38, "IQ4_NL_8_8", 32, 18},
	{39, "MXFP4", 32, 17},
	{40, "NVFP4", 64, 36},
}

// String returns ggml's name of the type, or "type N" for an unknown number.
func (t Type) String() string {
	if i, ok := t.info(); ok {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// Block returns the number of values in one block and its size in bytes;
// both are 0 for an unknown type.
func (t Type) Block() (elements, bytes int) {
	i, _ := t.info()
	return int(i.elements), int(i.bytes)
}

// Readable reports whether Dequantize knows the type.
func (t Type) Readable() bool {
	i, ok := t.info()
	return ok && i.decode != nil
}

// ValueType is the type of a metadata value, numbered as in the file.
type ValueType uint32

// Metadata value types.
const (
	TypeUint8   ValueType = 0
	TypeInt8    ValueType = 1
	TypeUint16  ValueType = 2
	TypeInt16   ValueType = 3
	TypeUint32  ValueType = 4
	TypeInt32   ValueType = 5
	TypeFloat32 ValueType = 6
	TypeBool    ValueType = 7
	TypeString  ValueType = 8
	TypeArray   ValueType = 9
	TypeUint64  ValueType = 10
	TypeInt64   ValueType = 11
	TypeFloat64 ValueType = 12
)

// size is the number of bytes of a scalar in the file, 0 for string, array
// and unknown types.
func (t ValueType) size() int64 {
	switch t {
	case TypeUint8, TypeInt8, TypeBool:
		return 1
	case TypeUint16, TypeInt16:
		return 2
	case TypeUint32, TypeInt32, TypeFloat32:
		return 4
	case TypeUint64, TypeInt64, TypeFloat64:
		return 8
	}
	return 0
}

// String returns the name of the value type.
func (t ValueType) String() string {
	names := [...]string{"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64"}
	if int64(t) < int64(len(names)) {
		return names[t]
	}
	return fmt.Sprintf("value type %d", uint32(t))
}
