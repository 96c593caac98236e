// SPDX-License-Identifier: Apache-2.0
// What the official JavaScript client sees of a box. TestOpenAIClients runs it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const answer = process.env.ANSWER;
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: "Who are you?" }];

assert.deepEqual((await client.models.list()).data.map((m) => m.id), ["m"]);
const chat = await client.chat.completions.create({ model: "m", messages, max_tokens: 32, temperature: 0, seed: 7 });
assert.equal(chat.choices[0].message.content, answer);
assert.equal(chat.choices[0].finish_reason, "stop");
assert.equal(chat.usage.total_tokens, chat.usage.prompt_tokens + chat.usage.completion_tokens);
assert.ok((await client.chat.completions.create({ model: "m", messages, temperature: 0 })).usage.prompt_tokens_details.cached_tokens > 0);

let text = "", usage = null;
for await (const event of await client.chat.completions.create({ model: "m", messages, temperature: 0, stream: true, stream_options: { include_usage: true } })) {
	text += event.choices[0]?.delta?.content ?? "";
	usage = event.usage ?? usage;
}
assert.equal(text, answer);
assert.ok(usage.completion_tokens > 0);

const url = "data:image/png;base64," + readFileSync(process.env.PICTURE).toString("base64");
const seen = await client.chat.completions.create({
	model: "m", temperature: 0, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }, { type: "text", text: "What is it?" }] }],
});
assert.equal(seen.choices[0].message.content, answer);

assert.equal((await client.completions.create({ model: "m", prompt: "01", max_tokens: 4, temperature: 0 })).choices[0].text, "2345");

const stream = await client.chat.completions.create({ model: "m", messages, stream: true });
stream.controller.abort(); // the box has to go on serving

const refused = (status, code, call) => assert.rejects(call, (err) => err.status === status && err.code === code);
await refused(404, "model_not_found", () => client.chat.completions.create({ model: "none", messages }));
await refused(400, "bad_request", () => client.chat.completions.create({ model: "m", messages, top_p: 7 }));
await refused(400, "unsupported", () => client.embeddings.create({ model: "m", input: "text" }));
console.log("all held");
