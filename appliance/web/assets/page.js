// SPDX-License-Identifier: Apache-2.0
"use strict";

// The page works without this script but for the chat, the upload and looking again.

document.documentElement.classList.add("live"); // what needs this script is shown

const $ = (id) => document.getElementById(id);
const every = 3000; // ms between two looks

// The token stays in this tab: it is gone when the tab is.
const token = () => sessionStorage.getItem("token") || "";
const headers = (more) => (token() ? { Authorization: "Bearer " + token(), ...more } : { ...more });

async function failure(response) {
	try {
		return (await response.json()).error.message;
	} catch {
		return response.status + " " + response.statusText;
	}
}

// --- what the box does now ---------------------------------------------------

let before = "";

async function look() {
	let response;
	try {
		response = await fetch("/panel", { headers: headers() });
	} catch {
		$("stale").textContent = "The box does not answer. What is shown is old.";
		return false;
	}
	if (response.status === 401) {
		lock();
		return false;
	}
	if (!response.ok) {
		$("stale").textContent = await failure(response);
		return false;
	}
	$("stale").textContent = "";
	const text = await response.text();
	if (text !== before) {
		before = text;
		$("panel").innerHTML = text; // escaped by the server; nothing in it can run
		follow();
	}
	return true;
}

// follow takes over what the panel says into the parts that stay.
function follow() {
	const box = document.querySelector("[data-device]").dataset;
	document.title = box.device + " · Windhover";
	$("where").textContent = box.where;
	local();
	const select = $("model"), chosen = select.value;
	const models = [...document.querySelectorAll("[data-model][data-state=ready]")];
	const same = models.length === select.options.length && models.every((m) => [...select.options].some((o) => o.value === m.dataset.model && ("pictures" in o.dataset) === ("pictures" in m.dataset)));
	if (!same) {
		select.replaceChildren(...models.map((m) => {
			const o = new Option(m.dataset.model, m.dataset.model);
			if ("pictures" in m.dataset) o.dataset.pictures = "";
			return o;
		}));
		if (models.some((m) => m.dataset.model === chosen)) select.value = chosen;
	}
	able();
}

// local shows times as the clock on the wall of whoever looks.
function local() {
	const today = new Date().toDateString();
	for (const e of document.querySelectorAll("time")) {
		const at = new Date(e.dateTime);
		if (isNaN(at)) continue;
		e.title = e.textContent;
		e.textContent = at.toDateString() === today ? at.toLocaleTimeString() : at.toLocaleString();
	}
}

// able offers what the chosen model can do.
function able() {
	const o = $("model").selectedOptions[0];
	$("nobody").hidden = !!o;
	$("pictures").hidden = !o || !("pictures" in o.dataset);
	$("send").disabled = !o || asking !== null;
}

function lock() {
	if (!$("unlock").hidden) return;
	for (const id of ["chat", "drop"]) $(id).hidden = true;
	$("panel").replaceChildren();
	before = "";
	$("unlock").hidden = false;
	$("token").focus();
}

$("unlock").addEventListener("submit", async (event) => {
	event.preventDefault();
	sessionStorage.setItem("token", $("token").value.trim());
	$("unlock").hidden = true;
	if (await look()) {
		for (const id of ["chat", "drop"]) $(id).hidden = false;
		$("token").value = $("unlock-state").textContent = "";
		$("text").focus();
	} else {
		$("unlock").hidden = false;
		$("unlock-state").textContent = "This token is not the one of the box.";
	}
});

// --- chat --------------------------------------------------------------------

let asking = null; // AbortController of the answer that comes
let turns = []; // what was said, as the interface has it

function turn(role, name) {
	const div = document.createElement("div");
	div.className = "turn " + role;
	const who = document.createElement("b");
	who.textContent = name;
	const text = document.createElement("span");
	div.append(who, text);
	$("log").append(div);
	end();
	return { div, text };
}

// end scrolls the conversation, and not the page, to its end.
const end = () => { $("log").scrollTop = $("log").scrollHeight; };

// atEnd says whether its end is in sight: who has scrolled back reads there.
const atEnd = () => $("log").scrollHeight - $("log").scrollTop - $("log").clientHeight < 40;

// thinking is where the thoughts of an answer go, before what it says.
function thinking(answer) {
	const details = document.createElement("details"), summary = document.createElement("summary"), text = document.createElement("span");
	summary.textContent = "Thoughts";
	details.append(summary, text);
	answer.div.insertBefore(details, answer.text);
	return text;
}

const dataURL = (file) => new Promise((resolve, reject) => {
	const reader = new FileReader();
	reader.onload = () => resolve(reader.result);
	reader.onerror = () => reject(reader.error);
	reader.readAsDataURL(file);
});

// events gives each event of a stream, comments as strings.
async function* events(body) {
	const reader = body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		if (done) return;
		const parts = (rest + value).split("\n\n");
		rest = parts.pop();
		for (const part of parts) {
			if (part.startsWith(": ")) yield part.slice(2);
			else if (part === "data: [DONE]") return;
			else if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
		}
	}
}

async function ask() {
	const text = $("text").value.trim(), file = $("pictures").hidden ? null : $("image").files[0];
	if (!text || asking) return;
	if (file && file.size > Number($("image").dataset.most)) {
		$("chat-state").textContent = "The picture is too large.";
		return;
	}
	asking = new AbortController();
	able();
	$("stop").disabled = false;
	const question = turn("user", "You");
	question.text.textContent = text;
	const message = { role: "user", content: text };
	turns.push(message);
	const mine = turns; // a new conversation may begin meanwhile
	let answer = null, said = "", thoughts = null;
	try {
		if (file) {
			const url = await dataURL(file);
			message.content = [{ type: "image_url", image_url: { url } }, { type: "text", text }];
			const img = document.createElement("img");
			img.src = url;
			img.alt = file.name;
			question.div.append(img);
		}
		$("text").value = $("image").value = "";
		$("chat-state").textContent = "waiting";
		const response = await fetch("/v1/chat/completions", {
			method: "POST", signal: asking.signal, headers: headers({ "Content-Type": "application/json" }),
			body: JSON.stringify({ model: $("model").value, messages: mine, stream: true }),
		});
		if (!response.ok) throw new Error(await failure(response));
		answer = turn("assistant", $("model").value);
		answer.div.setAttribute("aria-busy", "true"); // read out whole, not word by word
		$("chat-state").textContent = "waiting";
		for await (const event of events(response.body)) {
			if (typeof event === "string") {
				$("chat-state").textContent = event === "waiting" ? event : event.replace("prefill", "reading") + " tokens";
				continue;
			}
			if (event.error) throw new Error(event.error.message);
			const choice = event.choices[0];
			if (!choice) continue;
			const follow = atEnd(), thought = choice.delta.reasoning_content, piece = choice.delta.content;
			if (thought) {
				thoughts ||= thinking(answer);
				thoughts.append(thought);
				$("chat-state").textContent = "thinking";
			}
			if (piece) {
				said += piece;
				answer.text.append(piece);
				$("chat-state").textContent = "answering";
			}
			if (choice.finish_reason) told(choice.finish_reason, event.timing);
			if (follow) end();
		}
	} catch (err) {
		$("chat-state").textContent = err.name === "AbortError" ? "stopped" : err.message;
	} finally {
		if (answer) {
			answer.div.removeAttribute("aria-busy");
			if (!said) answer.text.textContent = "(no answer)";
		}
		if (said) mine.push({ role: "assistant", content: said });
		else mine.pop(); // not answered: as if not asked
		asking = null;
		$("stop").disabled = true;
		able();
		$("text").focus();
	}
}

function told(reason, timing) {
	let text = reason === "length" ? "cut off: the answer is as long as it may be" : "";
	if (timing && timing.decode_tps) text += (text ? " · " : "") + timing.decode_tps.toFixed(1) + " tokens a second";
	$("chat-state").textContent = text;
}

$("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
$("text").addEventListener("keydown", (event) => {
	if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
	event.preventDefault();
	ask();
});
$("model").addEventListener("change", able);
$("stop").addEventListener("click", () => asking && asking.abort());
$("fresh").addEventListener("click", () => {
	if (asking) asking.abort();
	turns = [];
	$("log").replaceChildren();
	$("chat-state").textContent = "";
	$("text").focus();
});

// --- upload ------------------------------------------------------------------

let sending = null; // XMLHttpRequest: fetch does not tell how far an upload is

function upload() {
	const file = $("file").files[0];
	if (!file || sending) return;
	const say = (text) => { $("upload-state").textContent = text; };
	const mib = (n) => Math.round(n / 1048576);
	const end = (text) => {
		say(text);
		sending = null;
		$("put").disabled = false;
		$("cancel").disabled = true;
		$("bar").hidden = true;
		look();
	};
	let told = -10;
	sending = new XMLHttpRequest();
	sending.open("PUT", "/v1/drop/" + encodeURIComponent(file.name));
	for (const [name, value] of Object.entries(headers())) sending.setRequestHeader(name, value);
	sending.upload.onprogress = (event) => {
		const pct = Math.floor((event.loaded / event.total) * 100);
		$("bar").value = pct;
		if (pct < told + 10 && pct !== 100) return; // a screen reader reads each change
		told = pct;
		say(`${pct} % of ${mib(event.total)} MiB`);
	};
	sending.onload = () => {
		if (sending.status === 201) {
			$("upload").reset();
			end(`${file.name} is there. It is checked now; the list of models shows how it goes.`);
			return;
		}
		let message = sending.status + " " + sending.statusText;
		try { message = JSON.parse(sending.responseText).error.message; } catch { /* no JSON: the status has to do */ }
		end("Not taken: " + message);
	};
	sending.onerror = () => end("The connection broke. Nothing of it was kept.");
	sending.onabort = () => end("Cancelled. Nothing of it was kept.");
	$("put").disabled = true;
	$("cancel").disabled = false;
	$("bar").hidden = false;
	$("bar").value = 0;
	sending.send(file);
}

$("upload").addEventListener("submit", (event) => { event.preventDefault(); upload(); });
$("cancel").addEventListener("click", () => sending && sending.abort());
for (const kind of ["dragover", "dragleave", "drop"]) {
	$("zone").addEventListener(kind, (event) => {
		event.preventDefault();
		$("zone").classList.toggle("over", kind === "dragover");
		if (kind === "drop" && event.dataTransfer.files.length) $("file").files = event.dataTransfer.files;
	});
}

// --- start -------------------------------------------------------------------

if (document.body.classList.contains("locked")) {
	if (token()) $("token").value = token(), $("unlock").requestSubmit();
	else $("token").focus();
} else {
	local();
	able();
}
setInterval(() => {
	if (!document.hidden && $("unlock").hidden) look();
}, every);
