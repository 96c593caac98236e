// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/engine/vision"
)

// inImport before a name says that the appliance has the file in import/.
const inImport = "import:"

// Room in a message for pictures: what an appliance takes by default, less what the
// rest of a request needs.
const (
	messageBytes = 64 << 10
	restBytes    = 2 << 10
)

// parts are the pictures of a question: those that lie here go with it, made smaller
// where the message has no room for them as they are.
func (p *pictureFlags) parts(cmd *cobra.Command, text int) ([]control.Part, error) {
	var list []control.Part
	var inside []*control.Picture
	var paths []string
	add := func(pic *control.Picture, path string) {
		if name, ok := strings.CutPrefix(path, inImport); ok {
			pic.File = name
			return
		}
		inside, paths = append(inside, pic), append(paths, path)
	}
	for range p.images {
		list = append(list, control.Part{Type: "image"})
	}
	for i, path := range p.images {
		add(&list[i].Picture, path)
	}
	for _, video := range p.videos {
		files, err := frameFiles(video)
		if err != nil {
			return nil, err
		}
		part := control.Part{Type: "video", Frames: make([]control.Picture, len(files)), FPS: p.fps}
		for i := range files {
			add(&part.Frames[i], files[i])
		}
		list = append(list, part)
	}
	room := messageBytes - restBytes - 2*text // text is quoted
	for i, pic := range inside {
		// Four letters carry three bytes; some are for the names around them.
		each := (room/len(inside) - 64) / 4 * 3
		data, err := pictureFor(cmd, paths[i], each)
		if err != nil {
			return nil, err
		}
		pic.Data = data
	}
	return list, nil
}

// pictureFor is a file of at most n bytes with the picture at path.
func pictureFor(cmd *cobra.Command, path string, n int) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	limits := vision.Limits{}
	if !fi.Mode().IsRegular() || fi.Size() > limits.FileBytes() {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", path, limits.FileBytes())
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) <= n {
		return data, err
	}
	img, err := vision.Decode(cmd.Context(), bytes.NewReader(data), limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	small, w, h, err := img.JPEG(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %d bytes do not fit a message: copy the file into import/ of the appliance and give --image %sNAME", path, len(data), inImport)
	}
	note(cmd, "%s: %d bytes do not fit a message: sent as a JPEG of %d x %d pixels; from import/ of the appliance (--image %sNAME) it would go as it is", path, len(data), w, h, inImport)
	return small, nil
}
