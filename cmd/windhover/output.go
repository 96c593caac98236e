// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"windhover/appliance"
	"windhover/control"
	"windhover/engine"
	"windhover/vqf/convert"
)

// Exit codes, see docs/DESIGN.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitDenied      = 4
)

// errSilent ends a verb with exit code 1 after it has said everything itself.
var errSilent = errors.New("failed")

// shownError is an error that stands in the JSON document a verb has printed.
type shownError struct{ error }

func (e shownError) Unwrap() error { return e.error }

// refusal is an error of a kind that only programs need to know.
type refusal struct {
	kind error
	msg  string
}

func (e refusal) Error() string { return e.msg }
func (e refusal) Unwrap() error { return e.kind }

func refuse(kind error, format string, a ...any) error {
	return refusal{kind, fmt.Sprintf(format, a...)}
}

// jsonError is an error as it stands in a JSON document.
type jsonError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func newJSONError(err error) *jsonError {
	if err == nil {
		return nil
	}
	_, name := classify(err)
	return &jsonError{Code: name, Message: message(err)}
}

// reportError prints a line on stderr, for each problem of a configuration one, and with --json the error as an object
// on stdout, and returns the exit code.
func reportError(cmd *cobra.Command, err error) int {
	if errors.Is(err, errSilent) {
		return exitFailed
	}
	code, _ := classify(err)
	line := message(err)
	if ctx := cmd.Context(); ctx != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		line = "stopped"
	}
	if code == exitUsage {
		line += fmt.Sprintf(" (see %s --help)", cmd.CommandPath())
	}
	lines := []string{line}
	if problems := (appliance.Problems)(nil); errors.As(err, &problems) {
		lines = lines[:0]
		for _, p := range problems {
			lines = append(lines, oneLine(p))
		}
	}
	if cmd.Name() == "serve" && recordEnd(cmd, lines) {
		return code
	}
	for _, line := range lines {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "windhover: %s\n", line) // stderr is where failures go: no place is left to report its own
	}
	var shown shownError
	if wantJSON(cmd) && !errors.As(err, &shown) {
		if err := printJSON(cmd, map[string]*jsonError{"error": newJSONError(err)}); err != nil {
			return exitFailed
		}
	}
	return code
}

// classify gives the exit code of an error and the name it has in JSON.
func classify(err error) (exit int, name string) {
	var coded *control.Error
	switch {
	case isUsage(err), strings.HasPrefix(err.Error(), "unknown command"), errors.Is(err, convert.ErrOption), errors.Is(err, engine.ErrRequest):
		return exitUsage, "usage"
	case errors.Is(err, appliance.ErrUnreachable):
		return exitUnreachable, "unreachable"
	case errors.As(err, &coded):
		if coded.Code == control.Forbidden {
			return exitDenied, coded.Code.Name
		}
		return exitFailed, coded.Code.Name
	case errors.Is(err, convert.ErrUnsupported):
		return exitFailed, control.Unsupported.Name
	case errors.Is(err, convert.ErrSource):
		return exitFailed, control.FormatInvalid.Name
	case errors.Is(err, fs.ErrNotExist):
		return exitFailed, "not_found"
	}
	if code := appliance.CodeOf(err); code.Name != "" {
		return exitFailed, code.Name
	}
	return exitFailed, "failed"
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// message is an error as people read it.
func message(err error) string {
	line := oneLine(err)
	for _, name := range []string{"control: ", "convert: "} { // packages, of which people know nothing
		line = strings.TrimPrefix(line, name)
	}
	return line
}

// table prints rows in columns, without spaces at the ends of lines.
func table(cmd *cobra.Command, rows [][]string) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")) // into memory
	}
	_ = w.Flush() // into memory
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func wantJSON(cmd *cobra.Command) bool {
	b, err := cmd.Flags().GetBool("json")
	return err == nil && b
}

func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// note prints a line on stderr, beside the result on stdout.
func note(cmd *cobra.Command, format string, a ...any) {
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", a...) // only a remark
}

// isTerminal says whether a person is at the other end.
func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// readAll reads a text from stdin, at most limit bytes.
func readAll(cmd *cobra.Command, limit int64) (string, error) {
	data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), limit+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if int64(len(data)) > limit {
		return "", fmt.Errorf("standard input: more than %d bytes", limit)
	}
	return string(data), nil
}

// mib is a size for people.
func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
