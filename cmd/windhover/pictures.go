// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/engine"
)

// pictureFlags are those of the verbs that show pictures to a model.
type pictureFlags struct {
	images, videos []string
	fps            float64
}

func (p *pictureFlags) add(cmd *cobra.Command, what string) {
	f := cmd.Flags()
	f.StringArrayVar(&p.images, "image", nil, "picture "+what+" (PNG, JPEG, WebP, GIF, BMP; repeatable)")
	f.StringArrayVar(&p.videos, "video", nil, "video "+what+": a directory of pictures, or their files with commas between (repeatable)")
	f.Float64Var(&p.fps, "fps", control.DefaultFPS, "pictures a second of --video")
}

func (p *pictureFlags) given() bool { return len(p.images)+len(p.videos) > 0 }

func (p *pictureFlags) check(cmd *cobra.Command) error {
	if !(p.fps > 0 && p.fps <= 1000) {
		return usagef(cmd, "--fps %v: above 0, at most 1000", p.fps)
	}
	return nil
}

// load reads the pictures for a model, then the videos.
func (p *pictureFlags) load(ctx context.Context, m *engine.Model) ([]*engine.Picture, error) {
	if p.given() && m.Info().Sight == nil {
		return nil, control.Errorf(control.Unsupported, "%s has no vision tower: it takes text only, leave --image and --video out", m.Info().Path)
	}
	var list []*engine.Picture
	for _, path := range p.images {
		pic, err := loadPicture(ctx, m, path)
		if err != nil {
			return nil, err
		}
		list = append(list, pic)
	}
	for _, video := range p.videos {
		files, err := frameFiles(video)
		if err != nil {
			return nil, err
		}
		pic, err := m.Video(ctx, len(files), p.fps, func(i int) (io.ReadCloser, error) { return os.Open(files[i]) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", video, err)
		}
		list = append(list, pic)
	}
	return list, nil
}

func loadPicture(ctx context.Context, m *engine.Model, path string) (pic *engine.Picture, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if pic, err = m.Picture(ctx, f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pic, nil
}

// frameFiles are the files of a video: those of a directory by name, or those that
// are listed.
func frameFiles(video string) ([]string, error) {
	if fi, err := os.Stat(video); err != nil || !fi.IsDir() {
		return strings.Split(video, ","), nil // what is not there is told when it is opened
	}
	entries, err := os.ReadDir(video)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(video, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no pictures in this directory", video)
	}
	slices.Sort(files)
	return files, nil
}
