// SPDX-License-Identifier: Apache-2.0

package appliance

import "path"

// realm is within what a client's prefixes and pictures are used again: with the
// clients that the same pattern of engine.share_prefixes names, the first that fits,
// else alone. usage.cached and the time to the first token would tell anybody else
// what it had asked.
func (e Engine) realm(client string) string {
	for _, pattern := range e.SharePrefixes {
		if ok, err := path.Match(pattern, client); err == nil && ok { // checked when it was read
			return "shared by " + pattern
		}
	}
	return "client " + client
}
