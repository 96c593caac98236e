// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"windhover/appliance"
	"windhover/vqf"
	"windhover/vqf/gguf"
	"windhover/vqf/seal"
)

// comparedFile is a model file as compare sees it.
type comparedFile struct {
	format  string // as info names it
	fields  fields
	tensors []comparedTensor
	close   func() error
}

// comparedTensor is a tensor whose bytes can be read in pieces.
type comparedTensor struct {
	name  string
	kind  string // type and shape
	bytes int64
	read  func(off int64, dst []byte) error
}

// fields are what a header says, in its order.
type fields []struct{ name, value string }

func (f *fields) add(name, format string, a ...any) {
	*f = append(*f, struct{ name, value string }{name, fmt.Sprintf(format, a...)})
}

// differences are the fields that are not the same, in the order of f, then
// those that only g has. An absent one is empty.
func (f fields) differences(g fields) []fieldDifference {
	out := []fieldDifference{}
	other, seen := map[string]string{}, map[string]bool{}
	for _, x := range g {
		other[x.name] = x.value
	}
	for _, x := range f {
		seen[x.name] = true
		if other[x.name] != x.value {
			out = append(out, fieldDifference{x.name, x.value, other[x.name]})
		}
	}
	for _, x := range g {
		if !seen[x.name] {
			out = append(out, fieldDifference{x.name, "", x.value})
		}
	}
	return out
}

// openCompared opens what path is. An encrypted file is read once for its tag,
// which progress hears.
func openCompared(ctx context.Context, path string, key *seal.Key, progress func(done, total int64)) (*comparedFile, error) {
	path = appliance.WeightFile(path)
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case fi.IsDir():
		return openComparedDoc(path, inspectDir)
	case filepath.Ext(path) == ".safetensors":
		return openComparedDoc(path, inspectSafetensors)
	case appliance.FileMagic(path) == "GGUF":
		f, err := openComparedDoc(path, inspectGGUF)
		if err == nil {
			err = f.addArrays(path)
		}
		return f, err
	}
	return openComparedVQF(ctx, path, key, progress)
}

func openComparedVQF(ctx context.Context, path string, key *seal.Key, progress func(done, total int64)) (*comparedFile, error) {
	f, err := vqf.OpenContext(ctx, path, vqf.OpenOptions{Key: key, Lazy: true}, progress)
	if err != nil {
		return nil, err
	}
	c := &comparedFile{format: "vqf", close: f.Close}
	h := f.Header()
	c.fields.add("version", "%d", h.Version)
	c.fields.add("flags", "0x%03x %s", uint32(h.Flags), h.Flags)
	c.fields.add("header fields", "%d", h.Fields)
	arch := reflect.ValueOf(h.Arch)
	for i := range arch.NumField() {
		c.fields.add(arch.Type().Field(i).Tag.Get("json"), "%v", arch.Field(i).Interface())
	}
	c.fields.add("data_offset", "%d", h.DataOffset)
	c.fields.add("file_len", "%d", h.FileLen)
	if h.Flags&vqf.FlagEnc != 0 {
		c.fields.add("enc_iv", "%x", h.EncIV)
	}
	if h.Flags&vqf.FlagSigned != 0 {
		c.fields.add("signed by", "%s", seal.PublicKey(h.Sig.Pub).Fingerprint())
		c.fields.add("signed digest", "%x", h.Sig.Digest)
	}
	var order []string
	for _, t := range f.Tensors() {
		order = append(order, t.Name)
		c.tensors = append(c.tensors, comparedTensor{
			name: t.Name, kind: fmt.Sprintf("%s %dx%d", t.Type, t.Rows, t.Cols), bytes: int64(t.Bytes),
			read: func(off int64, dst []byte) error { return f.ReadTensor(t.Name, off, dst) },
		})
	}
	c.addOrder(order)
	return c, nil
}

// addOrder adds the order of the tensors, as a sum: the names are listed anyhow.
func (c *comparedFile) addOrder(names []string) {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	c.fields.add("order of tensors", "%s", hex.EncodeToString(sum[:4]))
}

// openComparedDoc opens the files that info describes by offsets.
func openComparedDoc(path string, inspect func(string) (*infoDoc, error)) (*comparedFile, error) {
	d, err := inspect(path)
	if err != nil {
		return nil, err
	}
	c := &comparedFile{format: d.Format}
	if d.Version > 0 {
		c.fields.add("version", "%d", d.Version)
	}
	for _, key := range d.metaKeys {
		c.fields.add(key, "%v", d.Metadata[key])
	}
	open := map[string]*os.File{}
	c.close = func() error {
		var errs []error
		for _, f := range open {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	var order []string
	for _, t := range d.Tensors {
		file := filepath.Join(path, t.File)
		f := open[file]
		if f == nil {
			if f, err = os.Open(file); err != nil {
				return nil, errors.Join(err, c.close())
			}
			open[file] = f
		}
		order = append(order, t.Name)
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", "x"), "[]")
		c.tensors = append(c.tensors, comparedTensor{
			name: t.Name, kind: t.Type + " " + shape, bytes: int64(t.Bytes),
			read: func(off int64, dst []byte) error {
				_, err := f.ReadAt(dst, int64(t.Offset)+off)
				if err == io.EOF {
					err = fmt.Errorf("%s: tensor %q: %w", file, t.Name, io.ErrUnexpectedEOF)
				}
				return err
			},
		})
	}
	c.addOrder(order)
	return c, nil
}

// addArrays gives the arrays of a GGUF file, of which a listing shows the size
// only, a sum of their elements.
func (c *comparedFile) addArrays(path string) (err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return errors.Join(err, c.close())
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for i := range c.fields {
		x := &c.fields[i]
		t, elem, count, err := f.Kind(x.name)
		if err != nil || t != gguf.TypeArray { // "version" is no key
			continue
		}
		h := sha256.New()
		if err := hashArray(h, f, x.name, elem); err != nil {
			return fmt.Errorf("%s: %s: %w", path, x.name, err)
		}
		x.value = fmt.Sprintf("[%d %s] sum %s", count, elem, hex.EncodeToString(h.Sum(nil)[:4]))
	}
	return nil
}

// hashArray writes the elements of an array to w so that no two arrays of a type
// give the same bytes.
func hashArray(w io.Writer, f *gguf.File, key string, elem gguf.ValueType) error {
	var v any
	var err error
	switch elem {
	case gguf.TypeString:
		v, err = f.Texts(key)
	case gguf.TypeBool:
		v, err = f.Bools(key)
	case gguf.TypeFloat32, gguf.TypeFloat64:
		v, err = f.Floats(key)
	default:
		v, err = f.Ints(key)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "%#v", v)
	}
	return err
}
