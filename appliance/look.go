// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// markerKinds are the endings of the files that say what became of an entry.
var markerKinds = []string{"ready", "failed"}

// view is what one look at the drop directory saw. What is not meant as a model
// (hidden, temporary, links, anything that is no file) is passed over.
type view struct {
	Found   []candidate       // by name
	Refused map[string]string // entries that cannot be models, and why
	Orphans []string          // paths of markers whose entry is gone
	Hidden  map[string]bool   // names of models whose files are there and cannot be looked at
}

// look reads the drop directory. Of two entries for one model name the incumbent
// goes on; without one, the first in the order of the listing.
func look(drop string, incumbent func(name string) (entry string)) (view, error) {
	entries, err := os.ReadDir(drop)
	if err != nil {
		return view{}, err
	}
	// Names can be read without the right to come by them; what serves would seem gone.
	if _, err := os.Lstat(drop + "/."); err != nil {
		return view{}, err
	}
	v := view{Refused: map[string]string{}, Hidden: map[string]bool{}}
	here := make(map[string]bool, len(entries))
	for _, e := range entries {
		here[e.Name()] = true
	}
	byName := map[string][]candidate{}
	for _, e := range entries {
		if base, ok := markerOf(e); ok && !here[base] {
			v.Orphans = append(v.Orphans, filepath.Join(drop, e.Name()))
		}
		c, reason, ok := inspect(drop, e)
		switch {
		case !ok:
		case reason != "":
			v.Refused[e.Name()] = reason
			if c.hidden {
				v.Hidden[c.Name] = true
			}
		default:
			c.Skip = here[c.Entry+".skip"]
			byName[c.Name] = append(byName[c.Name], c)
		}
	}
	for name, list := range byName {
		chosen := list[0]
		for _, c := range list {
			if c.Entry == incumbent(name) {
				chosen = c
			}
		}
		for _, c := range list {
			if c.Entry != chosen.Entry {
				v.Refused[c.Entry] = fmt.Sprintf("the model name %s is taken by %s: remove or rename one of them", name, chosen.Entry)
			}
		}
		v.Found = append(v.Found, chosen)
	}
	sort.Slice(v.Found, func(i, j int) bool { return v.Found[i].Name < v.Found[j].Name })
	return v, nil
}

// markerOf reports whether a directory entry may be a marker, and of which entry.
func markerOf(e fs.DirEntry) (base string, ok bool) {
	if !e.Type().IsRegular() {
		return "", false
	}
	for _, kind := range markerKinds {
		if base, ok := strings.CutSuffix(e.Name(), "."+kind); ok {
			return base, true
		}
	}
	return "", false
}

// inspect makes a candidate of one directory entry. ok is false for what is
// not meant as a model.
func inspect(drop string, e fs.DirEntry) (c candidate, reason string, ok bool) {
	name := e.Name()
	if temporary(name) {
		return candidate{}, "", false
	}
	c = candidate{Entry: name}
	switch {
	case e.IsDir():
		c.Name = name
		if reason, ok = c.weightsIn(filepath.Join(drop, name)); reason != "" || !ok {
			return c, reason, ok
		}
	case e.Type().IsRegular() && strings.HasSuffix(name, ".vqf"):
		c.Name = strings.TrimSuffix(name, ".vqf")
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // gone since the listing
			return candidate{}, "", false
		}
		if err != nil {
			c.hidden = true
			return c, oneLine(err), true
		}
		c.Weights, c.ID = filepath.Join(drop, name), identify(fi)
		c.findSignatures()
	case e.Type().IsRegular() && sourceFormat(name) != "":
		return c, toConvert(name), true
	default:
		return candidate{}, "", false
	}
	if !validModelName(c.Name) {
		return c, "a model name has 1 to 64 of the characters A-Z a-z 0-9 . _ -: rename it", true
	}
	return c, "", true
}

// weightsIn fills in the files of a directory model. ok is false for a directory
// without weights.
func (c *candidate) weightsIn(dir string) (reason string, ok bool) {
	for _, w := range weightNames {
		fi, err := os.Lstat(filepath.Join(dir, w))
		if errors.Is(err, fs.ErrPermission) {
			c.hidden = true
			return "the daemon may not look into this directory: chmod a+rx " + c.Entry, true
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.hidden = true
			return oneLine(err), true
		}
		if err == nil && fi.Mode().IsRegular() {
			c.Weights, c.ID = filepath.Join(dir, w), identify(fi)
			break
		}
	}
	if c.Weights == "" {
		return sourcesIn(dir, c.Entry)
	}
	for _, s := range sideNames {
		if strings.HasPrefix(s, poolingDir+"/") && !realDirectory(filepath.Join(dir, poolingDir)) {
			continue
		}
		p := filepath.Join(dir, s)
		if fi, err := os.Lstat(p); err == nil && fi.Mode().IsRegular() {
			c.Side, c.SideIDs = append(c.Side, p), append(c.SideIDs, identify(fi))
		}
	}
	c.findSignatures()
	return "", true
}

// realDirectory reports whether path is a directory and no link to one.
func realDirectory(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.IsDir()
}

// sourceFormat names the format of a file that convert reads and serve does not.
func sourceFormat(name string) string {
	switch filepath.Ext(name) {
	case ".gguf":
		return "GGUF"
	case ".safetensors":
		return "safetensors"
	}
	return ""
}

// toConvert is what to do with a model of another format.
func toConvert(entry string) string {
	return fmt.Sprintf("%s is a model in another format, and only VQF is served: windhover convert %s -o NAME.vqf, or move it to import/ and run windhover job convert %s", entry, entry, entry)
}

// sourcesIn refuses a directory that holds a model of another format; any other
// directory without weights is passed over, they may be on their way.
func sourcesIn(dir, entry string) (reason string, ok bool) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if sourceFormat(e.Name()) != "" {
			return toConvert(entry), true
		}
	}
	return "", false
}
