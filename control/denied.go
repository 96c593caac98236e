// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// Denied says whether a connection failed because the broker did not accept who
// asked, and not because it could not be reached.
func Denied(err error) bool {
	return errors.Is(err, packets.ErrorRefusedBadUsernameOrPassword) || errors.Is(err, packets.ErrorRefusedNotAuthorised)
}
