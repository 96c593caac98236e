// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

func TestDenied(t *testing.T) {
	m := newMosquitto(t, "allow_anonymous false")
	_, err := DialClient(t.Context(), ClientConfig{Endpoint: quick(m.url()), Device: "edge1"})
	if !Denied(err) {
		t.Errorf("mosquitto without anonymous users: %v", err)
	}
	m.stop()
	_, err = DialClient(t.Context(), ClientConfig{Endpoint: quick(m.url()), Device: "edge1"})
	if err == nil || Denied(err) {
		t.Errorf("no broker: %v", err)
	}
	if !Denied(fmt.Errorf("x: %w", packets.ErrorRefusedBadUsernameOrPassword)) || Denied(nil) {
		t.Error("a refusal is judged wrongly")
	}
}
