// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const port = "http://127.0.0.1:8417"

var httpClient = &http.Client{Timeout: patience}

// get is a page of the daemon.
func get(path string) (string, error) {
	resp, err := httpClient.Get(port + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, resp.Status)
	}
	return string(data), err
}

// complete asks the way OpenAI's clients do.
func complete(prompt string) (string, error) {
	resp, err := post(map[string]any{"model": "tiny", "temperature": 0, "max_tokens": 3, "messages": message(prompt)})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if len(answer.Choices) != 1 {
		return "", fmt.Errorf("%d choices", len(answer.Choices))
	}
	return answer.Choices[0].Message.Content, nil
}

// walkAway begins to read a long answer and leaves.
func walkAway() error {
	resp, err := post(map[string]any{"model": "tiny", "stream": true, "max_tokens": 60, "messages": message("a long story")})
	if err != nil {
		return err
	}
	_, err = io.ReadFull(resp.Body, make([]byte, 64))
	_ = resp.Body.Close() // that is the point
	return err
}

func post(question map[string]any) (*http.Response, error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, err
	}
	resp, err := httpClient.Post(port+"/v1/chat/completions", "application/json", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		_ = resp.Body.Close() // the status is the error
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, nil
}

func message(text string) []map[string]string {
	return []map[string]string{{"role": "user", "content": text}}
}

// figures are what /metrics says, of all labels together.
func figures() (map[string]int64, error) {
	text, err := get("/metrics")
	if err != nil {
		return nil, err
	}
	list := map[string]int64{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if v, err := strconv.ParseFloat(line[i+1:], 64); i > 0 && err == nil && line[0] != '#' {
			name, _, _ := strings.Cut(line[:i], "{")
			list[name] += int64(v)
		}
	}
	return list, nil
}

// serveReleases is the web server of the fleet.
func serveReleases(dir string) *http.Server {
	s := &http.Server{Addr: "127.0.0.1:8000", Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	go s.ListenAndServe() // a release that cannot be fetched is told of
	return s
}
