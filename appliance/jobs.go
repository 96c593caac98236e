// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"windhover/appliance/update"
	"windhover/control"
)

// JobTypes are the commands this appliance carries out.
func (b *backend) JobTypes() []string {
	types := []string{"convert", "verify"}
	if b.updates != nil {
		types = append(types, update.JobTypes...)
	}
	return append(types, slices.Sorted(maps.Keys(b.duties))...)
}

// RunJob carries out a command in a child process of the same binary, so that
// running out of memory or a crash in a parser ends the job, not the daemon.
func (b *backend) RunJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	if err := b.audit.refuses(); err != nil {
		return nil, err
	}
	b.log.Info("job starts", "job", j.ID, "type", j.Type, "client", j.Client)
	var result any
	var err error
	if b.built != nil {
		select {
		case <-b.built: // a job of the run before may come early
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	duty := b.duties[j.Type]
	switch j.Type {
	case "convert":
		result, err = b.convertJob(ctx, j, report)
	case "verify":
		result, err = b.verifyJob(ctx, j, report)
	case "model_install", "model_activate", "model_remove", "model_rollback":
		if b.updates == nil {
			return nil, b.gone(j.Type)
		}
		result, err = b.updateJob(ctx, j, report)
	default:
		if duty == nil {
			return nil, control.Errorf(control.Unsupported, "job type %q", j.Type)
		}
		result, err = duty(ctx)
	}
	if err != nil {
		b.jobEnds(ctx, j, err)
		return result, coded(err, control.Internal)
	}
	b.log.Info("job done", "job", j.ID, "type", j.Type)
	return result, nil
}

// jobEnds tells of a job that came to nothing: as an error where the box is at fault, as
// a warning where the command is. That somebody, or a stop, has ended it is no failure of
// the job, whatever it says itself.
func (b *backend) jobEnds(ctx context.Context, j control.Job, err error) {
	if cause := context.Cause(ctx); cause != nil {
		b.log.Info("job ended before its end", "job", j.ID, "type", j.Type, "cause", strings.TrimPrefix(oneLine(cause), "control: "), "error", oneLine(err))
		return
	}
	level, e := slog.LevelWarn, coded(err, control.Internal)
	if e.Code.Status >= 500 {
		level = slog.LevelError
	}
	b.log.Log(ctx, level, "job failed", "job", j.ID, "type", j.Type, "code", e.Code.Name, "error", e.Message)
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
	Optimize     bool   `json:"optimize"`
	Mmproj       string `json:"mmproj"`  // name in import/: the vision tower of a GGUF model
	Encrypt      bool   `json:"encrypt"` // with the passphrase of this device
	DeleteSource bool   `json:"delete_source"`

	Sign json.RawMessage `json:"sign"` // refused
}

// args are the options as those of windhover convert. No secret is among them.
func (p *convertParams) args(b *backend) ([]string, error) {
	var args []string
	for _, f := range []struct{ flag, value string }{{"--mode", p.Mode}, {"--q8-layout", p.Q8Layout}, {"--header", p.Header}} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if p.MaxSeq > 0 {
		args = append(args, "--max-seq", fmt.Sprint(p.MaxSeq))
	}
	for _, f := range []struct {
		flag string
		set  bool
	}{{"--bare", p.Bare}, {"--optimize", p.Optimize}, {"--encrypt", p.Encrypt}} {
		if f.set {
			args = append(args, f.flag)
		}
	}
	if p.Encrypt && b.cfg.VQF.KeyFile != "" {
		args = append(args, "--key-file", b.cfg.VQF.KeyFile)
	}
	if p.Mmproj != "" {
		tower, err := b.importPath(p.Mmproj)
		if err != nil {
			return nil, err
		}
		args = append(args, "--mmproj", tower)
	}
	return args, nil
}

// converting begins the names of directories that conversions work in.
const converting = "convert-"

// tidyIncoming removes what jobs that were cut off left.
func tidyIncoming(p Paths) error {
	entries, err := os.ReadDir(p.incoming())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), converting) {
			errs = append(errs, os.RemoveAll(filepath.Join(p.incoming(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

// convertJob converts import/SOURCE and drops the result, which then deploys like
// any other file.
func (b *backend) convertJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	var p convertParams
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return nil, control.Errorf(control.BadRequest, "convert: %s", control.JSONProblem(err))
	}
	if len(p.Sign) > 0 && string(p.Sign) != "false" && string(p.Sign) != "null" {
		return nil, control.Errorf(control.Unsupported, "convert: no private key belongs on a device: sign the result elsewhere, and put the .minisig beside it")
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
	dir, err := os.MkdirTemp(b.cfg.Paths.incoming(), converting+"*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start does it as well
	tmp := filepath.Join(dir, "model.vqf")
	opts, err := p.args(b)
	if err != nil {
		return nil, err
	}
	args := append([]string{"convert", src, "-o", tmp, "--json"}, opts...)
	out, err := b.child(ctx, args, func(done, total int64) {
		report(control.JobProgress{Phase: "converting", Done: done, Total: total})
	})
	if err != nil {
		return nil, err
	}
	final := filepath.Join(b.cfg.Paths.drop(), p.Out+".vqf")
	if err := moveFile(ctx, tmp, final); err != nil {
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

// verifyJob checks a file in import/ or an installed model, with the passphrase and
// the trusted keys of this box, and by the rules of the drop directory: a signature
// has to be by a trusted key where the policy says so. An installed model was let in
// by it; its result says what it is trusted with.
func (b *backend) verifyJob(ctx context.Context, j control.Job, report func(control.JobProgress)) (any, error) {
	var p struct {
		Source string `json:"source"`
		Model  string `json:"model"`
	}
	if err := json.Unmarshal(j.Params, &p); err != nil {
		return nil, control.Errorf(control.BadRequest, "verify: %s", control.JSONProblem(err))
	}
	verifying := func(done, total int64) {
		report(control.JobProgress{Phase: "verifying", Done: done, Total: total})
	}
	switch {
	case (p.Source == "") == (p.Model == ""):
		return nil, control.Errorf(control.BadRequest, "verify: give source (a name in import/) or model (a name), one of them, not both")
	case p.Source != "":
		path, err := b.importPath(p.Source)
		if err != nil {
			return nil, err
		}
		path = WeightFile(path)
		judge := b.who.policy().require || b.who.knowsSigner(path) || b.who.strict() && (inside(path) || exists(path+signatureEnd))
		return b.child(ctx, b.verifyArgs(path, judge), verifying)
	}
	s, release, err := b.awaitModel(ctx, p.Model)
	if err != nil {
		return nil, err
	}
	defer release()
	path := s.Info().Path
	out, err := b.child(ctx, b.verifyArgs(path, b.who.knowsSigner(path)), verifying)
	if err != nil {
		return nil, err
	}
	return withTrust(out, b.reg.trustOf(s.Name))
}

// awaitModel is acquire that waits for a model on its way: a job that was queued when the
// daemon went down begins before the models are back.
func (b *backend) awaitModel(ctx context.Context, name string) (*serving, func(), error) {
	look := time.NewTicker(lookForModel)
	defer look.Stop()
	for {
		s, release, err := b.reg.acquire(ctx, name)
		if !errors.Is(err, control.ModelNotReady) {
			return s, release, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// lookForModel is how often that is looked for.
const lookForModel = 200 * time.Millisecond

// verifyArgs is how a child verifies a file. judge: it has to be signed by a trusted
// key. No secret is among the arguments, which others can see.
func (b *backend) verifyArgs(path string, judge bool) []string {
	args := []string{"verify", path, "--json"}
	if b.cfg.VQF.KeyFile != "" {
		args = append(args, "--key-file", b.cfg.VQF.KeyFile)
	}
	if dir := b.who.policy().dir; judge && exists(dir) {
		args = append(args, "--trust", dir)
	}
	return args
}

// withTrust adds to the result of a job what a model is trusted with.
func withTrust(out json.RawMessage, trust string) (any, error) {
	doc := map[string]json.RawMessage{}
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, err
	}
	var err error
	doc["trust"], err = json.Marshal(trust)
	return doc, err
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
