// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// writePictures puts pictures, good and bad, into the working directory of a script.
func writePictures(dir string) error {
	files := map[string][]byte{}
	add := func(name string, w, h int, noise bool) error {
		r := rand.New(rand.NewPCG(1, uint64(w)))
		img := image.NewRGBA(image.Rect(0, 0, w, h))
		for y := range h {
			for x := range w {
				c := color.RGBA{uint8(x), uint8(y), uint8(x * y), 255}
				if noise {
					c = color.RGBA{uint8(r.Uint32()), uint8(r.Uint32()), uint8(r.Uint32()), 255}
				}
				img.SetRGBA(x, y, c)
			}
		}
		var b bytes.Buffer
		err := png.Encode(&b, img)
		files[name] = b.Bytes()
		return err
	}
	for _, p := range []struct {
		name  string
		w, h  int
		noise bool
	}{
		{"a.png", 96, 64, false}, {"b.png", 40, 80, false}, {"c.png", 32, 32, false}, {"noise.png", 400, 300, true}, {"dot.png", 1, 1, false},
		{"frames/0.png", 48, 48, false}, {"frames/1.png", 48, 48, true}, {"frames/2.png", 48, 48, false}, {"frames/3.png", 48, 48, true},
	} {
		if err := add(p.name, p.w, p.h, p.noise); err != nil {
			return err
		}
	}
	lie := func(w, h uint32) []byte {
		data := bytes.Clone(files["c.png"])
		binary.BigEndian.PutUint32(data[16:], w)
		binary.BigEndian.PutUint32(data[20:], h)
		binary.BigEndian.PutUint32(data[29:], crc32.ChecksumIEEE(data[12:29]))
		return data
	}
	files["bomb.png"], files["long.png"], files["cut.png"] = lie(100000, 100000), lie(20000, 3), files["a.png"][:200]
	if err := os.Mkdir(filepath.Join(dir, "frames"), 0o700); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
