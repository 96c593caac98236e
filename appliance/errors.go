// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/kernels"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// TokenizerMissing is the code of a weight file that has no tokenizer in it and
// none beside it.
var TokenizerMissing = control.Code{Name: "tokenizer_missing", Status: 422}

// coded gives an error of the packages below its code of the protocol. An error
// that is none of theirs gets otherwise.
func coded(err error, otherwise control.Code) *control.Error {
	var done *control.Error
	if errors.As(err, &done) {
		return done
	}
	out := control.Errorf(otherwise, "%s", oneLine(err))
	var memory *engine.MemoryError
	var space *noSpaceError
	var fault *kernels.FaultError
	var form *engine.FormError
	var pictures *engine.PicturesError
	switch {
	case errors.As(err, &pictures):
		out.Code = control.PayloadTooLarge
	case errors.As(err, &form):
		out.Code, out.Needed, out.Available = control.InsufficientMem, form.Need, form.Limit
	case errors.As(err, &memory):
		out.Code, out.Needed, out.Available = control.InsufficientMem, memory.Need.Total(), memory.Limit
	case errors.As(err, &space):
		out.Code, out.Needed, out.Available = control.InsufficientStore, space.Need, space.Free
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		out.Code = control.InsufficientStore
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		out.Code = control.Internal // what belongs to the daemon does not
	case errors.As(err, &fault), errors.Is(err, syscall.EIO):
		out.Code = control.ModelIOError
	case errors.Is(err, engine.ErrContextOverflow):
		out.Code = control.ContextOverflow
	case errors.Is(err, engine.ErrRequest), errors.Is(err, engine.ErrPicture):
		out.Code = control.BadRequest
	case errors.Is(err, engine.ErrPicturesFull), errors.Is(err, engine.ErrFormsFull):
		out.Code, out.RetryAfter = control.QueueFull, time.Second
	case errors.Is(err, engine.ErrNoTokenizer):
		out.Code = TokenizerMissing
	case errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrClosed):
		out.Code = control.ModelNotReady
	case errors.Is(err, engine.ErrNumeric):
		out.Code = control.HealthCheckFailed
	case errors.Is(err, vqf.ErrChecksum):
		out.Code = control.DigestMismatch
	case errors.Is(err, vqf.ErrKey):
		out.Code = control.PassphraseMissing
	case errors.Is(err, vqf.ErrTag):
		out.Code = control.TagMismatch
	case errors.Is(err, vqf.ErrUnsigned):
		out.Code = control.SignatureMissing
	case errors.Is(err, vqf.ErrUntrusted):
		out.Code = control.KeyUnknown
	case errors.Is(err, vqf.ErrSignature):
		out.Code = control.SignatureInvalid
	case errors.Is(err, seal.ErrSignature): // package vqf speaks for those inside
		out.Code = control.MinisignInvalid
	case errors.Is(err, engine.ErrUnsupported), errors.Is(err, vqf.ErrUnsupported), errors.Is(err, vqf.ErrVersion), errors.Is(err, vqf.ErrLayoutMismatch):
		out.Code = control.Incompatible
	case errors.Is(err, vqf.ErrFormat):
		out.Code = control.FormatInvalid
	case errors.Is(err, context.DeadlineExceeded):
		out.Code = control.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		out.Code = control.Canceled
	}
	return out
}

// unreadable says that the daemon may not read what was dropped. That is the one
// failure that a change of mode or owner can mend.
func unreadable(entry string, err error) *control.Error {
	return control.Errorf(control.Forbidden, "%s %s: chmod a+r, or chgrp to the group of the daemon", entry, oneLine(err))
}

// inStore are the parts of a path in the store behind its own: the directory of the
// model, which may have a temporary name, and a file there.
var inStore = regexp.MustCompile(`^/[^/\s:]+(/[^/\s:]+)?`)

// inDrop puts into a message, in place of files in the store, what was dropped:
// whoever reads it knows no other names.
func (s store) inDrop(msg string, c candidate) string {
	var out strings.Builder
	for {
		i := strings.Index(msg, s.dir+"/")
		if i < 0 {
			out.WriteString(msg)
			return out.String()
		}
		out.WriteString(msg[:i])
		rest := msg[i+len(s.dir):]
		tail := inStore.FindStringSubmatch(rest)
		if tail == nil {
			tail = []string{"/", ""}
		}
		switch {
		case tail[1] == "": // the place, and no file
			out.WriteString(s.dir)
		case !c.directory():
			out.WriteString(c.Entry)
		case strings.HasPrefix(tail[1], "/"+storedName):
			out.WriteString(filepath.Join(c.Entry, filepath.Base(c.Weights)))
		default:
			out.WriteString(c.Entry + tail[1])
		}
		msg = rest[len(tail[0]):]
	}
}

// several is "1 core", "2 cores" …
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
