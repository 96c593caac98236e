// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"windhover/control"
	"windhover/engine"
)

// pictureReader reads the pictures of a conversation for the model that serves it.
// Whatever is wrong with one is said with the place where it stands.
type pictureReader struct {
	ctx     context.Context // ended: no further one is read, and they are let go
	s       *serving
	imports string // directory of those that come by name
	room    int    // tokens for the prompt; pictures that need more are not read
	answer  int    // tokens for the answer
	places  int    // of the pictures read so far
}

// message reads the pictures of a message.
func (p *pictureReader) message(i int, m control.Message) ([]*engine.Picture, error) {
	var list []*engine.Picture
	for j := range m.Content.Parts {
		part := &m.Content.Parts[j]
		if part.Type == "text" {
			continue
		}
		if p.s.Info().Sight == nil {
			return nil, control.Errorf(control.Unsupported, "messages[%d].content[%d]: the model %q has no vision tower: it takes text only", i, j, p.s.Name)
		}
		pic, err := p.part(part)
		if err != nil {
			e := coded(err, control.BadRequest)
			e.Message = fmt.Sprintf("messages[%d].content[%d]: %s", i, j, e.Message)
			return nil, e
		}
		if p.places += pic.Places(); p.places >= p.room {
			return nil, &engine.ContextError{Prompt: p.places, MaxTokens: p.answer, Context: p.room + p.answer}
		}
		list = append(list, pic)
	}
	return list, nil
}

// part reads a picture or a video.
func (p *pictureReader) part(part *control.Part) (pic *engine.Picture, err error) {
	if part.Type == "video" {
		fps := part.FPS
		if fps == 0 {
			fps = control.DefaultFPS
		}
		return p.s.Video(p.ctx, len(part.Frames), fps, func(i int) (io.ReadCloser, error) { return p.open(part.Frames[i]) })
	}
	r, err := p.open(part.Picture)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return p.s.Picture(p.ctx, r)
}

// open opens the file of a picture, which lies in the request or in the directory.
// A name leads to a regular file of that directory, and nowhere else.
func (p *pictureReader) open(pic control.Picture) (io.ReadCloser, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	if pic.File == "" {
		return io.NopCloser(bytes.NewReader(pic.Data)), nil
	}
	if !control.ValidFile(pic.File) {
		return nil, control.Errorf(control.BadRequest, "file %.80q: give the name of a file in import/", pic.File)
	}
	f, _, err := openPlain(filepath.Join(p.imports, pic.File))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, control.Errorf(control.BadRequest, "file %q is not in import/: copy it there first", pic.File)
	case errors.Is(err, errNotRegular):
		return nil, control.Errorf(control.BadRequest, "file %q of import/ is no regular file", pic.File)
	case errors.Is(err, errUnreadable):
		return nil, control.Errorf(control.BadRequest, "file %q of import/ may not be read: chmod a+r, or chgrp to the group of the daemon", pic.File)
	case err != nil:
		return nil, err
	}
	return f, nil
}
