// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
)

// What a served model shows at /metrics beside what a box does.
func TestModelMetrics(t *testing.T) {
	b := startBox(t, nil)
	data := tinyModel(t, nil)
	b.drop(t, "m.vqf", data)
	b.ready(t, "m")
	b.connected(t)
	if _, err := b.client(t, "you").Send(t.Context(), request("hello", 16), nil); err != nil {
		t.Fatal(err)
	}
	value := func(name string) float64 {
		t.Helper()
		_, body := b.ask(t, false, "GET", "/metrics", nil)
		m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
		if m == nil {
			return -1
		}
		v, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	until(t, "the answer is counted", func() bool { return value("windhover_time_per_output_token_seconds_count") == 1 })
	if s := value("windhover_time_per_output_token_seconds_sum"); s <= 0 || s > 10 {
		t.Errorf("%v seconds a token", s)
	}
	if s := value(`windhover_model_load_seconds\{name="m"\}`); s <= 0 || s > 60 {
		t.Errorf("%v seconds to load", s)
	}
	if n := value("windhover_store_bytes"); fmt.Sprint(n) != fmt.Sprint(float64(len(data))) {
		t.Errorf("the store has %v bytes, want %d", n, len(data))
	}
}
