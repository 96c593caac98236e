// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writeFile replaces dir/name durably: temporary file, fsync, rename, fsync of the
// directory.
func writeFile(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, "."+name+".")
	if err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one that counts
		return fmt.Errorf("control: state: %w", err)
	}
	return syncDir(dir)
}

// tidyState removes what cut calls of writeFile have left in the state directory.
func tidyState(dir string) error {
	var errs []error
	for _, name := range []string{"session", "dedupe.log", retainedFile} {
		left, err := filepath.Glob(filepath.Join(dir, "."+name+".*"))
		errs = append(errs, err)
		for _, path := range left {
			errs = append(errs, os.Remove(path))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	return nil
}

// bootsKept is how many starts a device remembers: a daemon that ends again and again
// before it has a connection must still know the one whose will comes late.
const bootsKept = 8

// nextSession reads the session number of the start before, adds one and stores it with
// the name of this start. It also returns the names of the last starts before. A file that cannot be understood counts as lost: the time in seconds is above any
// number that was counted, and where no clock was set, so is the least that one shows. With an error the number is good as well, but the next
// start will not know of it: a full disk keeps no device from starting.
func nextSession(dir string, now time.Time, boot string) (last uint64, before []string, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "session"))
	if !errors.Is(err, fs.ErrNotExist) {
		var f sessionFile
		perr := json.Unmarshal(b, &f)
		before = f.Boots
		if last = f.Session; perr != nil { // before versions it was the number alone
			last, perr = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		}
		if err != nil || perr != nil || last > 1<<53 {
			last = uint64(max(now.Unix(), time.Date(firstSaneYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix()))
		}
	}
	last++
	boots := append(slices.Clone(before), boot)
	b, err = encode(sessionFile{schemaVersion, last, boots[max(0, len(boots)-bootsKept):]})
	if err != nil {
		return last, before, fmt.Errorf("control: session: %w", err)
	}
	return last, before, writeFile(dir, "session", append(b, '\n'))
}

// jobFile is a job on disk: what was asked, and the record as last published.
type jobFile struct {
	V      int             `json:"v"`
	Record JobRecord       `json:"record"`
	Params json.RawMessage `json:"params"`
	SHA256 string          `json:"sha256"` // of type and payload
}

// journal keeps jobs and the ids of commands over restarts. It is used by one
// goroutine at a time.
type journal struct {
	dir  string // jobs/ and dedupe.log are in it
	keep int    // ids remembered
	ids  map[key]string
	log  []key // as in dedupe.log, oldest first

	stamped map[key]string // names of job files that say more than what is in them
}

// openJournal reads the journal. What cannot be read or written is named in the last
// result: job files that make no sense are moved aside, ids are lost, and the device
// starts.
func openJournal(dir string, keep int) (*journal, []jobFile, []error) {
	j := &journal{dir: dir, keep: keep, ids: map[key]string{}, stamped: map[key]string{}}
	var bad []error
	if err := os.MkdirAll(j.jobs(), 0o700); err != nil {
		bad = append(bad, fmt.Errorf("control: state: %w", err))
	}
	if err := tidyState(dir); err != nil {
		bad = append(bad, err)
	}
	if err := j.readIDs(); err != nil {
		bad = append(bad, err)
	}
	files, errs := j.readJobs()
	return j, files, append(bad, errs...)
}

func (j *journal) jobs() string { return filepath.Join(j.dir, "jobs") }

// jobName is unique: neither part may hold a '~'.
func jobName(client, id string) string { return client + "~" + id + ".json" }

// before orders jobs as they were taken: ids are written down one after the other, and
// times of day say nothing of which command came first where a clock was set meanwhile.
// They have to do among those whose ids are no longer known, which are older.
func (j *journal) before() func(a, b jobFile) int {
	place := make(map[key]int, len(j.log))
	for i, k := range j.log {
		place[k] = 1 + i
	}
	of := func(f jobFile) int { return place[key{f.Record.Client, f.Record.ID}] }
	return func(a, b jobFile) int {
		return cmp.Or(cmp.Compare(of(a), of(b)), a.Record.CreatedAt.Compare(b.Record.CreatedAt))
	}
}

func (j *journal) readJobs() (files []jobFile, bad []error) {
	entries, err := os.ReadDir(j.jobs())
	if err != nil {
		return nil, []error{fmt.Errorf("control: state: %w", err)}
	}
	for _, e := range entries {
		name := filepath.Join(j.jobs(), e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			_ = os.Remove(name) // left by a cut writeFile
			continue
		}
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		var f jobFile
		b, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(b, &f)
		}
		if err == nil {
			err = errors.Join(f.unstamp(e.Name()), f.Record.check())
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("control: job file %q moved aside: %w", e.Name(), err))
			_ = os.Rename(name, name+".bad") // kept for a look; if it stays it is named again
			continue
		}
		files = j.admit(files, f, e.Name())
	}
	slices.SortStableFunc(files, j.before())
	return files, bad
}

// put stores a job durably. On a disk that is full its file, if it has one, is told by
// its name how far the job is.
func (j *journal) put(f jobFile) error {
	f.V = schemaVersion
	b, err := encode(f)
	if err != nil {
		return fmt.Errorf("control: job %q: %w", f.Record.ID, err)
	}
	if err := writeFile(j.jobs(), jobName(f.Record.Client, f.Record.ID), b); err != nil {
		return errors.Join(err, j.stamp(f.Record))
	}
	return j.drop(key{f.Record.Client, f.Record.ID}) // which says less by now
}

func (j *journal) remove(client, id string) error {
	err := os.Remove(filepath.Join(j.jobs(), jobName(client, id)))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, j.drop(key{client, id})); err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	return nil
}

// dedupeHead is the first line of dedupe.log.
func dedupeHead() []byte { return fmt.Appendf(nil, "{\"v\":%d}\n", schemaVersion) }

// dedupeLine is a line of dedupe.log.
type dedupeLine struct {
	Client string `json:"client"`
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
}

func (j *journal) readIDs() error {
	f, err := os.Open(filepath.Join(j.dir, "dedupe.log"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var l dedupeLine
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.ID != "" { // the first is the version; a cut last line is no id yet
			j.note(key{l.Client, l.ID}, l.SHA256)
		}
	}
	err = lines.Err()
	if err != nil {
		err = fmt.Errorf("control: dedupe.log: %w", err)
	}
	return errors.Join(err, j.rewriteIDs())
}

func (j *journal) note(k key, hash string) {
	if _, ok := j.ids[k]; !ok {
		j.log = append(j.log, k)
	}
	j.ids[k] = hash
	for len(j.log) > j.keep {
		delete(j.ids, j.log[0])
		j.log = j.log[1:]
	}
}

func (j *journal) rewriteIDs() error {
	b := bytes.NewBuffer(dedupeHead())
	for _, k := range j.log {
		line, err := encode(dedupeLine{k.client, k.id, j.ids[k]})
		if err != nil {
			return fmt.Errorf("control: dedupe.log: %w", err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return writeFile(j.dir, "dedupe.log", b.Bytes())
}

// seen returns the hash of the command that k named, "" when it named none.
func (j *journal) seen(k key) string { return j.ids[k] }

// remember stores the id of a command durably, so that it never runs twice. An id
// that cannot be stored is not remembered.
func (j *journal) remember(k key, hash string) error {
	j.note(k, hash)
	err := j.append(k, hash)
	if err != nil {
		delete(j.ids, k)
		j.log = slices.DeleteFunc(j.log, func(l key) bool { return l == k })
	}
	return err
}

func (j *journal) append(k key, hash string) error {
	name := filepath.Join(j.dir, "dedupe.log")
	if st, err := os.Stat(name); err == nil && st.Size() > int64(j.keep)*400 {
		return j.rewriteIDs()
	}
	line, err := encode(dedupeLine{k.client, k.id, hash})
	if err != nil {
		return fmt.Errorf("control: dedupe.log: %w", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	if st, serr := f.Stat(); serr == nil && st.Size() == 0 {
		line = append(dedupeHead(), line...)
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("control: state: %w", err)
	}
	return nil
}

func jobHash(typ string, params []byte) string {
	sum := sha256.Sum256(append([]byte(typ+"\x00"), params...))
	return hex.EncodeToString(sum[:])
}
