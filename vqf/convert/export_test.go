// SPDX-License-Identifier: Apache-2.0

package convert

import "time"

// SetCheckpoint lets a test have its journal more often than every few seconds.
func (o *Options) SetCheckpoint(every time.Duration) { o.checkpoint = every }
