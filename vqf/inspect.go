// SPDX-License-Identifier: Apache-2.0

package vqf

// Info is what can be read of a file without its data, refused or not.
type Info struct {
	Path    string
	Size    int64
	Header  Header   // as far as it could be read
	Tensors []Tensor // as far as they could be read
	Refused error    // why Open would refuse the file; nil if it would not, given the passphrase of an encrypted one
}

// Inspect reads header and directory, also of files that Open refuses. The
// error is only that the file cannot be read at all.
func Inspect(path string) (*Info, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	p, err := parse(f, size)
	return &Info{Path: path, Size: size, Header: p.header, Tensors: p.tensors, Refused: withPath(err, path)}, nil
}
