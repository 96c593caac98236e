// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
)

// weightNames are the file names that make a directory a model, in the order
// in which the first one present is taken.
var weightNames = []string{"model.vqf", "weights.vqf", "vllm.vqf"}

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
	Side    []string // tokenizer files beside it, for a directory model
	ID      fileID   // of the weight file
	SideIDs []fileID
	Skip    bool // held back by a .skip file
}

// same reports whether two looks saw the same files.
func (c candidate) same(o candidate) bool {
	if c.Weights != o.Weights || c.ID.content() != o.ID.content() || len(c.SideIDs) != len(o.SideIDs) {
		return false
	}
	for i := range c.SideIDs {
		if c.Side[i] != o.Side[i] || c.SideIDs[i].content() != o.SideIDs[i].content() {
			return false
		}
	}
	return true
}

// sideNames are the files beside the weights of a directory model that are
// copied with it.
var sideNames = []string{
	"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "special_tokens_map.json",
	"generation_config.json", "chat_template.jinja", "config.json",
}

// look lists the models in the drop directory, sorted by name. A name that
// cannot be a model name comes back in refused, with the reason. Everything that is
// not meant as a model (hidden, temporary, markers) is passed over.
func look(drop string) (found []candidate, refused map[string]string, err error) {
	entries, err := os.ReadDir(drop)
	if err != nil {
		return nil, nil, err
	}
	refused = map[string]string{}
	skip := map[string]bool{}
	for _, e := range entries {
		if n, ok := strings.CutSuffix(e.Name(), ".skip"); ok {
			skip[n] = true
		}
	}
	byName := map[string]string{}
	for _, e := range entries {
		c, reason, ok := inspect(drop, e)
		if !ok {
			continue
		}
		if reason == "" && byName[c.Name] != "" {
			reason = "the model name " + c.Name + " is taken by " + byName[c.Name] + ": rename one of them"
		}
		if reason != "" {
			refused[e.Name()] = reason
			continue
		}
		byName[c.Name] = c.Entry
		c.Skip = skip[c.Entry]
		found = append(found, c)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Name < found[j].Name })
	return found, refused, nil
}

// inspect makes a candidate of one directory entry. ok is false for what is
// not meant as a model.
func inspect(drop string, e fs.DirEntry) (c candidate, reason string, ok bool) {
	name := e.Name()
	if temporary(name) || e.Type()&fs.ModeSymlink != 0 {
		return candidate{}, "", false
	}
	c = candidate{Entry: name}
	switch {
	case e.IsDir():
		c.Name = name
		for _, w := range weightNames {
			fi, err := os.Lstat(filepath.Join(drop, name, w))
			if err == nil && fi.Mode().IsRegular() {
				c.Weights, c.ID = filepath.Join(drop, name, w), identify(fi)
				break
			}
		}
		if c.Weights == "" {
			return candidate{}, "", false
		}
		for _, s := range sideNames {
			p := filepath.Join(drop, name, s)
			if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
				c.Side, c.SideIDs = append(c.Side, p), append(c.SideIDs, identify(fi))
			}
		}
	case e.Type().IsRegular() && strings.HasSuffix(name, ".vqf"):
		c.Name = strings.TrimSuffix(name, ".vqf")
		fi, err := e.Info()
		if err != nil { // gone since the listing
			return candidate{}, "", false
		}
		c.Weights, c.ID = filepath.Join(drop, name), identify(fi)
	default:
		return candidate{}, "", false
	}
	if !validModelName(c.Name) {
		return c, "a model name has 1 to 64 of the characters A-Z a-z 0-9 . _ -: rename it", true
	}
	return c, "", true
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

// marker is the path of a marker file: drop/x.vqf.ready, or drop/NAME.ready
// for a directory.
func (c candidate) marker(drop, kind string) string {
	return filepath.Join(drop, c.Entry+"."+kind)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
