// SPDX-License-Identifier: Apache-2.0

package control

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"mqtts://broker.example:8883":          "mqtts://broker.example:8883",
		"mqtts://box:s3cret@broker:8883":       "mqtts://…@broker:8883",
		"mqtts://s3cret@broker":                "mqtts://…@broker",
		"mqtts://box:s3/cret@broker":           "mqtts://…@broker",
		"mqtts://box:s3?cret@broker":           "mqtts://…@broker",
		"mqtts://box:s3@cret@broker":           "mqtts://…@broker",
		"wss://broker/mqtt?token=s3cret":       "wss://broker/mqtt?…",
		"wss://broker/mqtt?token=s3cret#s3":    "wss://broker/mqtt?…",
		"wss://broker/mqtt#s3cret":             "wss://broker/mqtt#…",
		"box:s3cret@broker":                    "…@broker",
		"://box:s3cret@":                       "://…@",
		"":                                     "",
		"broker":                               "broker",
		"mqtts://[fe80::1%25eth0]:8883/a":      "mqtts://[fe80::1%25eth0]:8883/a",
		"mqtts://box:s3cret@broker/?x=s3cret2": "mqtts://…@broker/?…",
	} {
		if got := Redact(in); got != want || strings.Contains(got, "s3") {
			t.Errorf("Redact(%q): got %q, want %q", in, got, want)
		}
	}
	for _, url := range []string{"mqtts://s3cret@broker", "mqtts://a:s3cret@broker", "mqtt://a:s3cret@", "x://a:s3cret@h", "mqtt://h.example?s3cret", "mqtts://a:s3cret@h:x"} {
		if err := (Endpoint{URL: url}).Check(); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
