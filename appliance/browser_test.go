// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"windhover/internal/testmodel"
)

// A person adds a model, asks it with a picture and by keyboard, and sees the box.
func TestPageInBrowser(t *testing.T) {
	b := startBox(t, nil)
	w := startBrowser(t, "http://"+b.cfg.HTTP.Listen+"/")
	dir := t.TempDir()
	file, img := filepath.Join(dir, "seeing.vqf"), filepath.Join(dir, "picture.png")
	writeBytes(t, file, seeingModel(t))
	writeBytes(t, img, picture(t, 320, 200))
	w.screen(1200, 900, "light")
	w.shot("empty")

	w.choose("#file", file)
	w.eval(`document.getElementById("put").click()`)
	w.until(`document.getElementById("upload-state").textContent.startsWith("seeing.vqf is there")`)
	w.until(`document.querySelector('[data-model=seeing][data-state=ready]') !== null && document.getElementById("model").value === "seeing"`)

	w.until(`document.getElementById("pictures").hidden === false`)
	w.choose("#image", img)
	w.eval(`document.getElementById("text").focus()`)
	w.call("Input.insertText", map[string]any{"text": "Who are you? <b>&"}, nil)
	w.press("Enter", 13, "\r")
	w.until(`document.querySelector(".turn.assistant span")?.textContent === ` + fmt.Sprintf("%q", testmodel.Answer))
	w.until(`document.getElementById("stop").disabled && !document.getElementById("send").disabled`)
	if got := w.eval(`document.querySelector(".turn.user span").textContent`); got != "Who are you? <b>&" {
		t.Errorf("the question reads %q", got)
	}
	if w.eval(`document.querySelector(".turn.user img").naturalWidth`) != 320.0 {
		t.Error("the picture is not shown")
	}
	// A second question knows the first.
	w.call("Input.insertText", map[string]any{"text": "And?"}, nil)
	w.press("Enter", 13, "\r")
	w.until(`document.querySelectorAll(".turn.assistant").length === 2 && document.getElementById("stop").disabled`)
	if got := w.eval(`turns.length`); got != 4.0 {
		t.Errorf("%v turns are kept", got)
	}
	b.drop(t, "broken.vqf", []byte(strings.Repeat("no model ", 100)))
	w.until(`document.querySelector("[data-model=broken][data-state=failed]") !== null`)
	w.until(`document.querySelector("#panel").textContent.includes("2 answers")`)
	w.quiet()

	for _, scheme := range []string{"light", "dark"} {
		for _, s := range []struct {
			name          string
			width, height int
		}{{"phone", 360, 740}, {"tablet", 768, 1024}, {"desktop", 1280, 900}} {
			w.screen(s.width, s.height, scheme)
			w.shot(s.name + "-" + scheme)
			if over := w.eval(`document.documentElement.scrollWidth - window.innerWidth`); over.(float64) > 0 {
				t.Errorf("%s: %v pixels stand out", s.name, over)
			}
			if low := w.eval(contrast); low != "" {
				t.Errorf("%s %s: too little contrast: %v", s.name, scheme, low)
			}
		}
		if small := w.eval(`[...document.querySelectorAll("button")].filter((e) => e.offsetParent && e.getBoundingClientRect().height < 44).map((e) => e.id).join(" ")`); small != "" {
			t.Errorf("too small for a thumb: %v", small)
		}
	}
}

// contrast names the texts that stand out from what is behind them by less than 4.5,
// as WCAG 2 counts it; "" for none.
const contrast = `(() => {
	const rgb = (s) => s.match(/[\d.]+/g).map(Number);
	const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	const low = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (!e.offsetParent || e.disabled || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
		const a = light(rgb(getComputedStyle(e).color)), b = light(behind(e));
		if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) low.add(e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 30));
	}
	return [...low].join("; ");
})()`

// By keyboard alone everything is reached, in the order of the page; for a screen
// reader everything that can be used has a name.
func TestPageKeyboardAndNames(t *testing.T) {
	b := startBox(t, nil)
	b.drop(t, "m.vqf", seeingModel(t))
	b.ready(t, "m")
	w := startBrowser(t, "http://"+b.cfg.HTTP.Listen+"/")
	w.screen(1200, 900, "light")
	var order []string
	for range 20 {
		w.press("Tab", 9, "")
		at := fmt.Sprint(w.eval(`document.activeElement.id || document.activeElement.className || document.activeElement.tagName`))
		if len(order) > 0 && at == order[0] {
			break
		}
		order = append(order, at)
		if at != "BODY" && w.eval(`getComputedStyle(document.activeElement).outlineStyle`) == "none" {
			t.Errorf("%s: no sign of the focus", at)
		}
	}
	if got, want := strings.Join(order, " "), "skip model text image send fresh file put"; !strings.Contains(got, "skip") || !inOrder(order, strings.Fields(want)) {
		t.Errorf("Tab leads to %q, want at least %q", got, want)
	}
	var tree struct {
		Nodes []struct {
			Ignored bool
			Role    struct{ Value string }
			Name    struct{ Value string }
		}
	}
	w.call("Accessibility.getFullAXTree", nil, &tree)
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		roles[n.Role.Value]++
		switch n.Role.Value {
		case "button", "textbox", "combobox", "meter", "progressbar", "region", "log", "link", "image":
			if strings.TrimSpace(n.Name.Value) == "" {
				t.Errorf("a %s has no name", n.Role.Value)
			}
		}
	}
	for _, role := range []string{"main", "banner", "region", "heading", "log", "status", "meter", "combobox"} {
		if roles[role] == 0 {
			t.Errorf("there is no %s: %v", role, roles)
		}
	}
	w.quiet()
}

func inOrder(have, want []string) bool {
	for _, h := range have {
		if len(want) > 0 && h == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// Behind a token the page shows nothing until it is given, and keeps it in the tab.
func TestPageAsksForToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "geheim\n")
	b := startBox(t, func(c *Config) { c.HTTP.TokenFile = token })
	w := startBrowser(t, "http://"+b.cfg.HTTP.Listen+"/")
	w.screen(360, 740, "dark")
	w.shot("locked")
	if w.eval(`document.body.innerText.includes("box") && document.getElementById("panel").textContent.trim() !== ""`) == true {
		t.Error("something of the box is shown")
	}
	enter := func(text string) {
		w.eval(fmt.Sprintf(`document.getElementById("token").value = %q; document.getElementById("unlock").requestSubmit()`, text))
	}
	enter("falsch")
	w.until(`document.getElementById("unlock-state").textContent !== "" && !document.getElementById("unlock").hidden`)
	enter("geheim")
	w.until(`document.getElementById("unlock").hidden && !document.getElementById("chat").hidden && document.title.startsWith("box ")`)
	w.open("http://" + b.cfg.HTTP.Listen + "/?again")
	w.until(`document.getElementById("unlock").hidden && !document.getElementById("chat").hidden`)
}
