// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/control"
)

// TestMain lets this test binary play the child process of a job.
func TestMain(m *testing.M) {
	if how := os.Getenv("WINDHOVER_TEST_CHILD"); how != "" {
		os.Exit(playChild(how, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// playChild does what `windhover convert` and `windhover verify` do as far as a
// job can see.
func playChild(how string, args []string) int {
	progress := os.NewFile(3, "progress")
	switch how {
	case "good":
		if at := slices.Index(args, "-o"); at > 0 {
			if err := os.WriteFile(args[at+1], []byte("converted from "+args[1]), 0o640); err != nil {
				return 1
			}
		}
		for i := range 3 {
			if _, err := fmt.Fprintf(progress, "%d 2\n", i); err != nil {
				return 1
			}
		}
		doc, err := json.Marshal(map[string]any{"args": args})
		if err != nil {
			return 1
		}
		fmt.Println(string(doc))
		return 0
	case "refuses":
		fmt.Println(`{"error":{"code":"failed","message":"tensor blk.0.attn_q.weight: type IQ4_NL is not supported"}}`)
		return 1
	case "mute":
		fmt.Fprintln(os.Stderr, "something broke")
		return 1
	case "killed":
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return 1
		}
	}
	if at := slices.Index(args, "-o"); how == "writes" && at > 0 {
		if err := os.WriteFile(args[at+1]+".X.tmp", []byte("half"), 0o640); err != nil {
			return 1
		}
	}
	// "endless" and "writes": until somebody ends it. The total is who it is.
	fmt.Fprintln(progress, "1", os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin) // ends at once: standard input is empty
	select {}
}

func jobBackend(t *testing.T, how string) *backend {
	t.Helper()
	p := Paths{State: t.TempDir()}
	if err := makeState(p); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WINDHOVER_TEST_CHILD", how)
	return &backend{who: newAuthority(Config{Paths: p}, os.Getenv, slog.New(slog.DiscardHandler)), cfg: Config{Paths: p}, log: slog.New(slog.DiscardHandler), self: []string{self}, wake: make(chan struct{}, 1), reg: newRegistry(nil)}
}

func TestConvertJob_P127(t *testing.T) {
	b := jobBackend(t, "good")
	write(t, filepath.Join(b.cfg.Paths.imports(), "m.gguf"), "source")
	var seen []control.JobProgress
	out, err := b.RunJob(context.Background(), control.Job{ID: "j1", Client: "you", Type: "convert",
		Params: []byte(`{"source":"m.gguf","mode":"q4","q8_layout":"4x4","max_seq":512,"delete_source":true}`)},
		func(p control.JobProgress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(b.cfg.Paths.drop(), "m.vqf")); err != nil || !strings.HasPrefix(string(got), "converted") {
		t.Errorf("in drop: %q, %v", got, err)
	}
	if len(seen) != 3 || seen[2] != (control.JobProgress{Phase: "converting", Done: 2, Total: 2}) {
		t.Errorf("progress: %v", seen)
	}
	raw, ok := out.(json.RawMessage)
	if !ok || !strings.Contains(string(raw), `"--mode","q4","--q8-layout","4x4","--max-seq","512","--progress-fd","3"`) {
		t.Errorf("result: %s", raw)
	}
	if exists(filepath.Join(b.cfg.Paths.imports(), "m.gguf")) {
		t.Error("delete_source leaves the source")
	}
	if len(b.wake) != 1 {
		t.Error("the drop directory is not looked at")
	}
}

// What a command may set reaches the child as the options of windhover convert.
func TestConvertJobOptions(t *testing.T) {
	b := jobBackend(t, "good")
	b.cfg.VQF.KeyFile = "/run/credentials/vqf-key"
	for _, name := range []string{"m.gguf", "tower.gguf"} {
		write(t, filepath.Join(b.cfg.Paths.imports(), name), "source")
	}
	out, err := b.RunJob(context.Background(), control.Job{ID: "j", Client: "you", Type: "convert",
		Params: []byte(`{"source":"m.gguf","header":"45","optimize":true,"encrypt":true,"mmproj":"tower.gguf","bare":true,"sign":false}`)}, func(control.JobProgress) {})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := out.(json.RawMessage)
	want := fmt.Sprintf(`"--header","45","--bare","--optimize","--encrypt","--key-file","/run/credentials/vqf-key","--mmproj",%q,"--progress-fd","3"`, filepath.Join(b.cfg.Paths.imports(), "tower.gguf"))
	if !strings.Contains(string(raw), want) {
		t.Errorf("result %s lacks %s", raw, want)
	}
}

func TestJobFailures(t *testing.T) {
	tests := []struct{ child, typ, params, code, says string }{
		{"good", "convert", `{"source":"none.gguf"}`, "bad_request", "not in import/"},
		{"good", "convert", `{"source":"../drop/x.vqf"}`, "bad_request", "name of a file"},
		{"good", "convert", `{"source":"link.gguf"}`, "bad_request", "neither a file"},
		{"good", "convert", `{"source":".hidden"}`, "bad_request", "name of a file"},
		{"good", "convert", `{"source":"m.gguf","out":"../x"}`, "bad_request", "model name"},
		{"good", "convert", `{"source":7}`, "bad_request", "convert"},
		{"good", "convert", `{"source":"m.gguf","mmproj":"../m.gguf"}`, "bad_request", "name of a file"},
		{"good", "convert", `{"source":"m.gguf","sign":"works.key"}`, "unsupported", "private key"},
		{"good", "verify", `{"source":"m.gguf","model":"x"}`, "bad_request", "not both"},
		{"good", "verify", `{"file":"m.gguf"}`, "bad_request", "one of them"},
		{"good", "verify", `{"model":"x"}`, "unknown_model", "no model"},
		{"good", "frobnicate", `{}`, "unsupported", "frobnicate"},
		{"refuses", "convert", `{"source":"m.gguf"}`, "format_invalid", "IQ4_NL"},
		{"mute", "verify", `{"source":"m.gguf"}`, "internal", "something broke"},
		{"killed", "convert", `{"source":"m.gguf"}`, "internal", "killed"},
	}
	for _, tt := range tests {
		t.Run(tt.child+" "+tt.typ+" "+tt.params, func(t *testing.T) {
			b := jobBackend(t, tt.child)
			write(t, filepath.Join(b.cfg.Paths.imports(), "m.gguf"), "source")
			write(t, filepath.Join(b.cfg.Paths.State, "outside.gguf"), "secret")
			if err := os.Symlink("../outside.gguf", filepath.Join(b.cfg.Paths.imports(), "link.gguf")); err != nil {
				t.Fatal(err)
			}
			_, err := b.RunJob(context.Background(), control.Job{ID: "j", Client: "c", Type: tt.typ, Params: []byte(tt.params)}, func(control.JobProgress) {})
			var e *control.Error
			if !errors.As(err, &e) || e.Code.Name != tt.code || !strings.Contains(e.Message, tt.says) {
				t.Errorf("got %v, want %s that says %q", err, tt.code, tt.says)
			}
			if left, _ := filepath.Glob(filepath.Join(b.cfg.Paths.drop(), ".*")); len(left) != 0 {
				t.Errorf("left in drop: %v", left)
			}
		})
	}
}

func TestJobCancel(t *testing.T) {
	b := jobBackend(t, "endless")
	write(t, filepath.Join(b.cfg.Paths.imports(), "m.gguf"), "source")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.RunJob(ctx, control.Job{ID: "j", Type: "convert", Params: []byte(`{"source":"m.gguf"}`)}, func(control.JobProgress) { cancel() })
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, control.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	case <-time.After(waitFor):
		t.Fatal("a cancelled job does not end")
	}
}

// A verify job takes the passphrase and the keys of the box along, by name, and asks
// for a trusted signature where there is one or the policy wants one.
func TestVerifyJobKeys_P128(t *testing.T) {
	key := newSM2(t)
	ours, theirs := newMinisign(t), newMinisign(t)
	plain := tinyModel(t, nil)
	for _, c := range []struct {
		name, file       string
		require, trusted bool
		strict           string // VLLM_VQF_VERIFY
		judged           bool
	}{
		{"plain", "plain.vqf", false, true, "", false},
		{"plain, required", "plain.vqf", true, true, "", true},
		{"plain, required, no keys", "plain.vqf", true, false, "", false},
		{"signed", "signed.vqf", false, true, "", true},
		{"signed, key unknown", "signed.vqf", false, false, "", false},
		{"signed by others", "foreign.vqf", false, true, "", false},
		{"signed by others, to be verified", "foreign.vqf", false, true, "1", true},
		{"signed beside", "beside.vqf", false, true, "", true},
		{"signed beside by others", "other.vqf", false, true, "", false},
		{"signed directory", "dir", false, true, "", true},
	} {
		b := jobBackend(t, "good")
		imports := b.cfg.Paths.imports()
		for _, name := range []string{"plain", "beside", "other"} {
			writeBytes(t, filepath.Join(imports, name+".vqf"), plain)
		}
		writeBytes(t, filepath.Join(imports, "beside.vqf.minisig"), minisig(t, ours, plain))
		writeBytes(t, filepath.Join(imports, "other.vqf.minisig"), minisig(t, theirs, plain))
		writeBytes(t, filepath.Join(imports, "signed.vqf"), sealedModel(t, sealing{signer: key}, nil))
		writeBytes(t, filepath.Join(imports, "foreign.vqf"), sealedModel(t, sealing{signer: newSM2(t)}, nil))
		writeBytes(t, filepath.Join(imports, "dir", "model.vqf"), sealedModel(t, sealing{signer: key}, nil))
		b.cfg.VQF.KeyFile = "/etc/windhover/credentials/vqf-key"
		b.who.require, b.who.dir = c.require, filepath.Join(b.cfg.Paths.State, "trust.d")
		b.who.getenv = func(name string) string { return map[string]string{"VLLM_VQF_VERIFY": c.strict}[name] }
		if c.trusted {
			writeBytes(t, filepath.Join(b.who.dir, "maker.sm2.pub"), []byte(key.Public().String()))
			writeBytes(t, filepath.Join(b.who.dir, "maker.minisign.pub"), ours.Public().File())
		}
		b.who.refresh()
		out, err := b.RunJob(context.Background(), control.Job{ID: "j", Client: "you", Type: "verify", Params: fmt.Appendf(nil, `{"source":%q}`, c.file)}, func(control.JobProgress) {})
		if err != nil {
			t.Fatal(err)
		}
		raw, ok := out.(json.RawMessage)
		if !ok || !strings.Contains(string(raw), `"--key-file","/etc/windhover/credentials/vqf-key"`) || strings.Contains(string(raw), `"--trust"`) != c.judged {
			t.Errorf("%s: %s", c.name, raw)
		}
	}
	// Of a model that serves the job says what it is trusted with.
	r := newRig(t, t.TempDir())
	r.trustMinisignKey(t, "maker", ours.Public())
	r.put(t, "m.vqf", plain)
	r.put(t, "m.vqf.minisig", minisig(t, ours, plain))
	r.put(t, "mine.vqf", plain)
	r.scan(context.Background())
	b := jobBackend(t, "good")
	b.reg = r.reg
	for name, want := range map[string]string{"m": "minisign", "mine": "local"} {
		out, err := b.RunJob(context.Background(), control.Job{ID: "j", Client: "you", Type: "verify", Params: fmt.Appendf(nil, `{"model":%q}`, name)}, func(control.JobProgress) {})
		doc, err2 := json.Marshal(out)
		if err != nil || err2 != nil || !strings.Contains(string(doc), fmt.Sprintf(`"trust":%q`, want)) {
			t.Errorf("model %s: %s, %v, %v; want trust %s", name, doc, err, err2, want)
		}
	}
}

// What a child found out about a file keeps its name.
func TestVerdicts(t *testing.T) {
	for name, want := range map[string]control.Code{
		"tag_mismatch": control.TagMismatch, "key_unknown": control.KeyUnknown, "signature_missing": control.SignatureMissing,
		"digest_mismatch": control.DigestMismatch, "failed": control.FormatInvalid, "": control.FormatInvalid, "forbidden": control.FormatInvalid,
	} {
		err := childError(errors.New("exit status 1"), fmt.Appendf(nil, `{"error":{"code":%q,"message":"m"}}`, name), "")
		if got := coded(err, control.Internal).Code; got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func TestResultSaysTrust(t *testing.T) {
	doc, err := withTrust(json.RawMessage(`{"ok":true,"size":12345678901234567}`), "minisign")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil || string(text) != `{"ok":true,"size":12345678901234567,"trust":"minisign"}` {
		t.Errorf("%s, %v", text, err)
	}
}
