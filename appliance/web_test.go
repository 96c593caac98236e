// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// ask sends a request to a box, by its port or, with socket, by the local socket.
func (b *box) ask(t *testing.T, socket bool, method, path string, body io.Reader, headers ...string) (int, []byte) {
	t.Helper()
	client, at := http.DefaultClient, b.cfg.HTTP.Listen
	if socket {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialSocket(ctx, b.cfg.Paths.Socket)
		}}}
		at = "windhover"
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+at+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it is read to its end
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, data
}

// A model comes by upload, answers over port and socket with the tokens that MQTT
// gets, sees a picture, and is on the page.
func TestWebServes(t *testing.T) {
	b := startBox(t, nil)
	model := seeingModel(t)
	if code, body := b.ask(t, false, "PUT", "/v1/drop/m.vqf", bytes.NewReader(model)); code != 201 {
		t.Fatalf("upload: %d %s", code, body)
	}
	b.ready(t, "m")
	question := `{"model":"m","temperature":0,"max_tokens":32,"messages":[{"role":"user","content":"Who are you?"}]}`
	var answer struct {
		Choices []struct {
			Message struct{ Content string }
			Finish  string `json:"finish_reason"`
		}
		Usage struct {
			Prompt  int `json:"prompt_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	// What prompts have in common is known again to the client that asked, and to no other.
	for i, socket := range []bool{false, true, false} {
		code, body := b.ask(t, socket, "POST", "/v1/chat/completions", strings.NewReader(question))
		if err := json.Unmarshal(body, &answer); err != nil || code != 200 {
			t.Fatalf("socket %v: %d %s", socket, code, body)
		}
		if c := answer.Choices[0]; c.Message.Content != testmodel.Answer || c.Finish != "stop" {
			t.Errorf("socket %v: %s", socket, body)
		}
		if cached := answer.Usage.Details.Cached; (i == 2) != (cached > 0) || answer.Usage.Prompt == 0 {
			t.Errorf("answer %d: usage %+v", i, answer.Usage)
		}
	}
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(picture(t, 64, 64))
	code, body := b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(strings.Replace(question, `"Who are you?"`,
		`[{"type":"image_url","image_url":{"url":"`+url+`"}},{"type":"text","text":"What is it?"}]`, 1)))
	if code != 200 || !bytes.Contains(body, []byte(testmodel.Answer)) {
		t.Errorf("with a picture: %d %s", code, body)
	}
	if code, body = b.ask(t, false, "POST", "/v1/chat/completions", strings.NewReader(strings.Replace(question, "32", "100000", 1))); code != 400 || !bytes.Contains(body, []byte("context_length_exceeded")) {
		t.Errorf("an answer longer than the context: %d %s", code, body)
	}
	checkTextOffsets(t, b)
	if code, body = b.ask(t, true, "PUT", "/v1/drop/torn.vqf", bytes.NewReader(model[:len(model)/2])); code != 400 || !bytes.Contains(body, []byte(fmt.Sprintf("declares %d", len(model)))) {
		t.Errorf("half a model: %d %s", code, body)
	}
	until(t, "the page tells of the model", func() bool { // what happened is told a moment after the model serves
		code, body = b.ask(t, false, "GET", "/", nil)
		return code == 200 && bytes.Contains(body, []byte(`data-model="m" data-state="ready"`)) && bytes.Contains(body, []byte("model_ready"))
	})
	if code, body = b.ask(t, false, "GET", "/v1/status", nil); code != 404 {
		t.Errorf("the state of the appliance on the port: %d %s", code, body)
	}
	if code, _ = b.ask(t, true, "GET", "/v1/status", nil); code != 200 {
		t.Errorf("on the socket: %d", code)
	}
}

// checkTextOffsets holds the offsets of a continued text against the text: at each the
// token stands that has it.
func checkTextOffsets(t *testing.T, b *box) {
	t.Helper()
	code, body := b.ask(t, false, "POST", "/v1/completions", strings.NewReader(`{"model":"m","prompt":"größer als 世","max_tokens":24,"temperature":2,"seed":7,"logprobs":1}`))
	var answer struct {
		Choices []struct {
			Text     string
			Logprobs struct {
				Tokens  []string
				Offsets []int `json:"text_offset"`
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || code != 200 {
		t.Fatalf("a continued text: %d %s (%v)", code, body, err)
	}
	c := answer.Choices[0]
	text, whole := []rune(c.Text), 0
	for i, token := range c.Logprobs.Tokens {
		if strings.Contains(token, "\uFFFD") {
			continue // a part of a character, which stands in the text otherwise
		}
		whole++
		if at := c.Logprobs.Offsets[i]; at > len(text) || !strings.HasPrefix(string(text[at:]), token) {
			t.Errorf("token %d, %q, at %d of %q", i, token, at, c.Text)
		}
	}
	if len(c.Logprobs.Offsets) != len(c.Logprobs.Tokens) || whole == 0 {
		t.Errorf("%d offsets, %d tokens, %d of them whole: %s", len(c.Logprobs.Offsets), len(c.Logprobs.Tokens), whole, body)
	}
}

// Who has shown nothing uploads no model where a broker elsewhere decides who may
// what; the socket and the token let in.
func TestWebUploadRights_P179(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "geheim\n")
	for name, tt := range map[string]struct {
		change  func(*Config)
		socket  bool
		headers []string
		want    int
	}{
		"broker elsewhere":         {func(c *Config) { c.MQTT.URL = "mqtt://127.0.0.1:1" }, false, nil, 403},
		"allowed to anybody":       {func(c *Config) { c.MQTT.URL, c.Anonymous.Allow = "mqtt://127.0.0.1:1", []string{"drop"} }, false, nil, 201},
		"socket":                   {func(c *Config) { c.MQTT.URL = "mqtt://127.0.0.1:1" }, true, nil, 201},
		"without the token":        {func(c *Config) { c.HTTP.TokenFile = token }, false, nil, 401},
		"with the token":           {func(c *Config) { c.HTTP.TokenFile = token }, false, []string{"Authorization", "Bearer geheim"}, 201},
		"another site":             {nil, false, []string{"Origin", "https://evil.example"}, 403},
		"loopback, nothing to ask": {nil, false, nil, 201},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBox(t, tt.change)
			if code, body := b.ask(t, tt.socket, "PUT", "/v1/drop/m.vqf", strings.NewReader("no model"), tt.headers...); code != tt.want {
				t.Errorf("got %d %s, want %d", code, body, tt.want)
			}
			_, err := os.Stat(filepath.Join(b.cfg.Paths.drop(), "m.vqf"))
			if (err == nil) != (tt.want == 201) {
				t.Errorf("the drop directory: %v", err)
			}
		})
	}
}

// The official clients, where the environment says that they are installed: ./check
// does that.
func TestOpenAIClients(t *testing.T) {
	python, modules := os.Getenv("WINDHOVER_OPENAI_PYTHON"), os.Getenv("WINDHOVER_OPENAI_JS")
	if python == "" && modules == "" {
		t.Skip("WINDHOVER_OPENAI_PYTHON and WINDHOVER_OPENAI_JS name no client: ./check clients installs them")
	}
	img := filepath.Join(t.TempDir(), "picture.png")
	writeBytes(t, img, picture(t, 64, 64))
	run := func(b *box, name string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env = append(os.Environ(), "BASE_URL=http://"+b.cfg.HTTP.Listen+"/v1", "PICTURE="+img, "ANSWER="+testmodel.Answer)
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("all held")) {
			t.Errorf("%s: %v\n%s", args[0], err, out)
		}
	}
	calling := tinyModel(t, func(c *testmodel.Config) { *c = testmodel.Caller("lamp", `{"on": "perhaps"}`) })
	embedding := tinyModel(t, func(c *testmodel.Config) { c.Embeds = true })
	for name, model := range map[string][]byte{"openai_client": seeingModel(t), "openai_tools": calling, "openai_embeddings": embedding} {
		b := startBox(t, nil)
		b.drop(t, "m.vqf", model)
		b.ready(t, "m")
		if python != "" {
			run(b, python, filepath.Join("testdata", name+".py"))
		}
		if modules == "" {
			continue
		}
		script, err := os.ReadFile(filepath.Join("testdata", name+".mjs"))
		if err != nil {
			t.Fatal(err)
		}
		// Node looks for modules beside the script.
		at := filepath.Join(modules, name+".mjs")
		writeBytes(t, at, script)
		run(b, "node", at)
	}
}
