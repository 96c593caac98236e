// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"windhover/control"
	"windhover/engine"
	"windhover/vqf"
)

// OpenModel loads a weight file for a tool on the command line: every layout
// that this build runs, within the memory that is free. Options that the caller
// leaves at zero get their defaults; so does the passphrase of an encrypted file,
// opt.VQF.Key.
func OpenModel(path string, opt engine.Options) (*engine.Model, error) {
	if err := fill(path, &opt); err != nil {
		return nil, err
	}
	m, err := engine.Load(WeightFile(path), opt)
	if err != nil {
		return nil, notConverted(path, err)
	}
	return m, nil
}

// EstimateModel tells what OpenModel would need, and of how much memory.
func EstimateModel(path string, opt engine.Options) (need engine.Need, limit int64, err error) {
	if err := fill(path, &opt); err != nil {
		return engine.Need{}, 0, err
	}
	need, err = engine.Estimate(WeightFile(path), opt)
	return need, opt.MemoryLimit, err
}

// fill sets the options that OpenModel finds by itself.
func fill(path string, opt *engine.Options) error {
	open, err := openOptions(DefaultConfig().VQF, os.Getenv)
	if err != nil {
		return err
	}
	if open.Key = opt.VQF.Key; open.Key == nil {
		// What is wrong with the file is told when it is loaded.
		if open.Key, err = (&passphrase{getenv: os.Getenv}).keyOf(WeightFile(path)); errors.Is(err, control.PassphraseMissing) {
			return err
		}
	}
	opt.VQF = open
	if opt.MemoryLimit == 0 {
		opt.MemoryLimit = readMemory(os.DirFS("/")).budget()
	}
	opt.Pin = true
	return nil
}

// WeightFile is the weight file in a model's directory, else path itself.
func WeightFile(path string) string {
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		for _, name := range weightNames {
			if exists(filepath.Join(path, name)) {
				return filepath.Join(path, name)
			}
		}
	}
	return path
}

// notConverted says what to do about a model in another format.
func notConverted(path string, err error) error {
	fi, serr := os.Stat(path)
	switch {
	case serr == nil && fi.IsDir() && exists(filepath.Join(path, "config.json")):
		return fmt.Errorf("%s is a Hugging Face directory: convert it first: windhover convert %s", path, path)
	case serr == nil && fi.IsDir():
		return fmt.Errorf("%s is a directory without a weight file (%s)", path, strings.Join(weightNames, ", "))
	case errors.Is(err, vqf.ErrFormat) && FileMagic(path) == "GGUF":
		return fmt.Errorf("%s is a GGUF file: convert it first: windhover convert %s", path, path)
	}
	return err
}

// FileMagic is the first four bytes of a file, "" if there are none to read.
func FileMagic(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read only
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil {
		return ""
	}
	return string(magic[:])
}

// CodeOf is the protocol's code for an error of the packages below, the zero Code
// for one that has none.
func CodeOf(err error) control.Code { return coded(err, control.Code{}).Code }
