// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewLogHandler makes the daemon's log handler. format is "" or "text", or "json".
// Text that would go straight to the journal is sent to it by its own protocol.
func NewLogHandler(w io.Writer, format string) (slog.Handler, error) {
	switch format {
	case "json":
		return slog.NewJSONHandler(w, nil), nil
	case "", "text":
	default:
		return nil, fmt.Errorf("log format %q: use text or json", format)
	}
	if f, ok := w.(*os.File); ok && f == os.Stderr {
		if is, err := journal.StderrIsJournalStream(); err == nil && is {
			return newJournalHandler(w, journal.Send), nil
		}
	}
	return slog.NewTextHandler(w, nil), nil
}
