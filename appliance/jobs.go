// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
)

// JobTypes are the commands this appliance carries out.
func (b *backend) JobTypes() []string { return []string{"convert", "verify"} }

// RunJob carries out a command in a child process of the same binary, so that
// running out of memory or a crash in a parser ends the job, not the daemon.
func (b *backend) RunJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	b.log.Info("job starts", "job", j.ID, "type", j.Type, "client", j.Client)
	var result any
	var err error
	switch j.Type {
	case "convert":
		result, err = b.convertJob(ctx, j, report)
	case "verify":
		result, err = b.verifyJob(ctx, j, report)
	default:
		return nil, control.Errorf(control.Unsupported, "job type %q", j.Type)
	}
	if err != nil {
		b.log.Error("job failed", "job", j.ID, "type", j.Type, "reason", oneLine(err))
		return nil, coded(err, control.Internal)
	}
	b.log.Info("job done", "job", j.ID, "type", j.Type)
	return result, nil
}

// convertParams are the options of windhover convert that a job may set.
type convertParams struct {
	Source       string `json:"source"` // name in import/
	Out          string `json:"out"`    // model name; default: the source's
	Mode         string `json:"mode"`
	Q8Layout     string `json:"q8_layout"`
	Header       string `json:"header"`
	MaxSeq       int    `json:"max_seq"`
	Bare         bool   `json:"bare"`
	DeleteSource bool   `json:"delete_source"`
}

// convertJob converts import/SOURCE and drops the result, which then deploys like
// any other file.
func (b *backend) convertJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	var p convertParams
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return nil, control.Errorf(control.BadRequest, "convert: %v", err)
	}
	src, err := b.importPath(p.Source)
	if err != nil {
		return nil, err
	}
	if p.Out == "" {
		p.Out = strings.TrimSuffix(filepath.Base(p.Source), ".gguf")
	}
	p.Out = strings.TrimSuffix(p.Out, ".vqf")
	if !validModelName(p.Out) {
		return nil, control.Errorf(control.BadRequest, "convert: out %q: a model name has 1 to 64 of A-Z a-z 0-9 . _ -", p.Out)
	}
	tmp := filepath.Join(b.cfg.Paths.drop(), "."+p.Out+"."+j.ID+".part")
	defer func() { _ = remove(tmp) }() // there is only something after a failure
	args := []string{"convert", src, "-o", tmp, "--json"}
	for _, f := range []struct{ flag, value string }{{"--mode", p.Mode}, {"--q8-layout", p.Q8Layout}, {"--header", p.Header}} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if p.MaxSeq > 0 {
		args = append(args, "--max-seq", fmt.Sprint(p.MaxSeq))
	}
	if p.Bare {
		args = append(args, "--bare")
	}
	out, err := b.child(ctx, args, func(done, total int64) {
		report(control.JobProgress{Phase: "converting", Done: done, Total: total})
	})
	if err != nil {
		return nil, err
	}
	final := filepath.Join(b.cfg.Paths.drop(), p.Out+".vqf")
	if err := os.Rename(tmp, final); err != nil {
		return nil, err
	}
	if err := syncDir(b.cfg.Paths.drop()); err != nil {
		return nil, err
	}
	b.wakeDrop()
	if p.DeleteSource {
		if err := os.RemoveAll(src); err != nil {
			b.log.Warn("source of a conversion is not removed", "job", j.ID, "error", err)
		}
	}
	// The record tells where the file is, not where it was written.
	return json.RawMessage(bytes.Replace(out, fmt.Appendf(nil, "%q", tmp), fmt.Appendf(nil, "%q", final), 1)), nil
}

// verifyJob checks a file in import/ or an installed model.
func (b *backend) verifyJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	var p struct {
		Source string `json:"source"`
		Model  string `json:"model"`
	}
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return nil, control.Errorf(control.BadRequest, "verify: %v", err)
	}
	var path string
	switch {
	case (p.Source == "") == (p.Model == ""):
		return nil, control.Errorf(control.BadRequest, "verify: give source (a name in import/) or model (a name), one of them, not both")
	case p.Source != "":
		var err error
		if path, err = b.importPath(p.Source); err != nil {
			return nil, err
		}
	default:
		s, release, err := b.reg.acquire(ctx, p.Model)
		if err != nil {
			return nil, err
		}
		defer release()
		path = s.Info().Path
	}
	return b.child(ctx, []string{"verify", path, "--json"}, func(done, total int64) {
		report(control.JobProgress{Phase: "verifying", Done: done, Total: total})
	})
}

// importPath resolves a name in the import directory. Neither ".." nor a symbolic
// link leaves it.
func (b *backend) importPath(name string) (string, error) {
	if name == "" || filepath.Base(name) != name || strings.HasPrefix(name, ".") {
		return "", control.Errorf(control.BadRequest, "source %q: give the name of a file or directory in import/", name)
	}
	root, err := os.OpenRoot(b.cfg.Paths.imports())
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing was written
	fi, err := root.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", control.Errorf(control.BadRequest, "source %q is not in import/: copy it there first", name)
	}
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() && !fi.IsDir() {
		return "", control.Errorf(control.BadRequest, "source %q is neither a file nor a directory", name)
	}
	return filepath.Join(b.cfg.Paths.imports(), name), nil
}

// childGrace is how long a cancelled child may take to clean up.
const childGrace = 5 * time.Second

// child runs this program with the given arguments at low priority and returns
// the JSON it prints. Descriptor 3 of the child carries progress.
func (b *backend) child(ctx context.Context, args []string, progress func(done, total int64)) (json.RawMessage, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read only
	cmd := exec.CommandContext(ctx, b.self[0], append(append([]string{}, b.self[1:]...), append(args, "--progress-fd", "3")...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var stdout bytes.Buffer
	stderr := &tail{max: 4 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	_ = w.Close()                                                // the child has its own
	_ = unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, 10) // only politeness: the job runs without it too
	// Without it the kernel would rather end the daemon, whose mapped weights count.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0)
	read := make(chan struct{})
	go func() {
		defer close(read)
		readProgress(r, progress)
	}()
	err = cmd.Wait()
	<-read
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, childError(err, stdout.Bytes(), stderr.String())
	}
	return json.RawMessage(bytes.TrimSpace(stdout.Bytes())), nil
}

// childError says why a child failed: in its own words where it has any.
func childError(err error, stdout []byte, stderr string) error {
	var doc struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	lines := bytes.Split(bytes.TrimSpace(stdout), []byte("\n"))
	if json.Unmarshal(lines[len(lines)-1], &doc) == nil && doc.Error.Message != "" {
		return control.Errorf(control.FormatInvalid, "%s", doc.Error.Message)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 {
		return control.Errorf(control.Internal, "the child process was killed (%v), probably for lack of memory", exit)
	}
	if msg := strings.TrimSpace(stderr); msg != "" {
		return control.Errorf(control.Internal, "%s", oneLine(errors.New(msg)))
	}
	return err
}

// readProgress reads lines "DONE TOTAL" until the child closes its end.
func readProgress(r io.Reader, progress func(done, total int64)) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		var done, total int64
		if n, _ := fmt.Sscan(sc.Text(), &done, &total); n == 2 {
			progress(done, total)
		}
	}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }
