// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"windhover/engine"
	"windhover/vqf"
)

// weightNames are the file names that make a directory a model, in the order
// in which the first one present is taken.
var weightNames = []string{"model.vqf", "weights.vqf", "vllm.vqf"}

// sideNames are the files beside the weights of a directory model that are
// copied with it.
var sideNames = []string{
	"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
	"generation_config.json", "chat_template.jinja", "config.json", "modules.json", poolingDir + "/config.json",
}

// poolingDir has what says how a model makes embeddings, as sentence-transformers
// calls it. Of the directories in a model it is the only one that is looked into.
const poolingDir = "1_Pooling"

// fileID tells one state of one file from every other: a file that is written
// to, replaced or touched gets another one.
type fileID struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime_ns"`
	Ctime int64  `json:"ctime_ns"`
}

// content is the part of fileID that a change of owner, mode or link count
// leaves alone.
func (id fileID) content() fileID { id.Ctime = 0; return id }

func identify(fi fs.FileInfo) fileID {
	id := fileID{Size: fi.Size(), Mtime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id.Dev, id.Inode = uint64(st.Dev), st.Ino
		id.Ctime = st.Ctim.Nano()
	}
	return id
}

// candidate is one model found in the drop directory, complete or not.
type candidate struct {
	Name    string   // model name
	Entry   string   // name in the drop directory: NAME.vqf or NAME
	Weights string   // path of the weight file
	Side    []string // paths of the tokenizer files beside it, for a directory model
	ID      fileID   // of the weight file
	SideIDs []fileID
	Sigs    []detached // of the weights and of files beside them
	Skip    bool       // held back by a .skip file
	hidden  bool       // it is there, and the daemon cannot look at it
}

// signatureEnd ends the name of a detached signature: x.vqf.minisig signs x.vqf.
const signatureEnd = ".minisig"

// detached is a minisign signature beside the file that it signs. It is no part of
// the model: one that comes or goes changes what the model may be trusted with, not
// what it is.
type detached struct {
	Of string // path of the file
	ID fileID
}

func (s detached) path() string { return s.Of + signatureEnd }

// signature returns the detached signature of one of the candidate's files.
func (c candidate) signature(of string) (detached, bool) {
	for _, s := range c.Sigs {
		if s.Of == of {
			return s, true
		}
	}
	return detached{}, false
}

// findSignatures looks for the signatures of all files.
func (c *candidate) findSignatures() {
	for _, path := range append([]string{c.Weights}, c.Side...) {
		s := detached{Of: path}
		if fi, err := os.Lstat(s.path()); err == nil && fi.Mode().IsRegular() {
			s.ID = identify(fi)
			c.Sigs = append(c.Sigs, s)
		}
	}
}

// sigContents are the identities of the signatures as far as their content goes.
func (c candidate) sigContents() []fileID {
	var ids []fileID
	for _, s := range c.Sigs {
		ids = append(ids, s.ID.content())
	}
	return ids
}

// contents are the identities of the files as far as their content goes.
func (c candidate) contents() (weights fileID, side []fileID) {
	for _, id := range c.SideIDs {
		side = append(side, id.content())
	}
	return c.ID.content(), side
}

// same reports whether two looks saw the same content in the same files.
func (c candidate) same(o candidate) bool {
	w, side := c.contents()
	ow, oside := o.contents()
	return c.Entry == o.Entry && c.Weights == o.Weights && w == ow && slices.Equal(c.Side, o.Side) && slices.Equal(side, oside)
}

// untouched reports whether nothing at all happened to the files between two
// looks, a change of mode or owner included.
func (c candidate) untouched(o candidate) bool {
	return c.same(o) && c.ID == o.ID && slices.Equal(c.SideIDs, o.SideIDs)
}

// beside is the name of one of its files in the directory of the weights, with slashes.
func (c candidate) beside(path string) string {
	return strings.TrimPrefix(path, filepath.Dir(c.Weights)+"/")
}

// directory reports whether the model is a directory with its tokenizer beside it.
func (c candidate) directory() bool { return filepath.Base(c.Weights) != c.Entry }

// marker is the path of a marker file: drop/x.vqf.ready, or drop/NAME.ready
// for a directory.
func (c candidate) marker(drop, kind string) string {
	return filepath.Join(drop, c.Entry+"."+kind)
}

// findTokenizer reports the absence of a tokenizer before gigabytes are read for
// nothing. What is wrong with the file otherwise is for others to say.
func (c candidate) findTokenizer() error {
	has := func(name string) bool { return slices.Contains(c.Side, filepath.Join(filepath.Dir(c.Weights), name)) }
	if has("tokenizer.json") || has("vocab.json") && has("merges.txt") {
		return nil
	}
	info, err := vqf.Inspect(c.Weights)
	if err != nil || info.Refused != nil || slices.ContainsFunc(info.Tensors, func(t vqf.Tensor) bool { return t.Name == vqf.NameTokenizer }) {
		return nil
	}
	if c.directory() {
		return fmt.Errorf("%w in %s: copy tokenizer.json, or vocab.json and merges.txt, to the directory %s", engine.ErrNoTokenizer, filepath.Base(c.Weights), c.Entry)
	}
	return fmt.Errorf("%w in %s: add one with windhover pack, or drop a directory with model.vqf and tokenizer.json", engine.ErrNoTokenizer, c.Entry)
}

// temporary reports names that upload tools use for unfinished files.
func temporary(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	for _, s := range []string{".part", ".tmp", ".filepart"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

func validModelName(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		ch := s[i]
		if (ch < 'a' || ch > 'z') && (ch < 'A' || ch > 'Z') && (ch < '0' || ch > '9') && ch != '.' && ch != '_' && ch != '-' {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
