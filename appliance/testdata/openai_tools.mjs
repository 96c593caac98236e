// SPDX-License-Identifier: Apache-2.0
// What the official JavaScript client makes of strict tools. TestOpenAIClients runs it, on
// a model that calls lamp with bad arguments.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: "On, please." }];
const parameters = {
	type: "object", properties: { on: { type: "boolean" }, room: { type: ["string", "null"], enum: ["hall", "attic", null] } },
	required: ["on", "room"], additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "lamp", strict: true, parameters } }];
const ask = { model: "m", messages, tools, temperature: 0, max_tokens: 300 };
const held = (message) => {
	assert.equal(message.content, "Sure.Done.");
	assert.equal(message.tool_calls.length, 1);
	const args = message.tool_calls[0].function.parsed_arguments;
	assert.deepEqual(Object.keys(args), ["on", "room"]);
	assert.equal(typeof args.on, "boolean");
	assert.ok(["hall", "attic", null].includes(args.room));
};

const made = await client.chat.completions.parse(ask);
assert.equal(made.choices[0].finish_reason, "tool_calls");
held(made.choices[0].message);
held((await client.chat.completions.stream(ask).finalChatCompletion()).choices[0].message);

// The client's own loop calls what was asked for, and hands the result back.
const called = [];
const runner = client.chat.completions.runTools({
	model: "m", messages, temperature: 0, max_tokens: 300,
	tools: [{ type: "function", function: { name: "lamp", strict: true, parameters, parse: JSON.parse, function: (args) => { called.push(args); return "done"; } } }],
}, { maxChatCompletions: 2 });
await runner.done().catch(() => {}); // it calls for ever: two turns are enough
assert.ok(called.length > 0 && called.every((args) => typeof args.on === "boolean"));
console.log("all held");
