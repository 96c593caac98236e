// SPDX-License-Identifier: Apache-2.0
// What the official JavaScript client makes of embeddings. TestOpenAIClients runs it, on a
// model that makes them.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0, timeout: 60000 });
const input = ["pump 3 runs dry", "Who are you?", "größer als 世界"];
const length = (v) => Math.sqrt(v.reduce((sum, x) => sum + x * x, 0));

const made = await client.embeddings.create({ model: "m", input }); // the client asks for base64
assert.deepEqual(made.data.map((d) => d.index), [0, 1, 2]);
assert.ok(made.usage.prompt_tokens > 0 && made.usage.total_tokens === made.usage.prompt_tokens);
const size = (await client.models.retrieve("m")).embedding_dimensions;
for (const d of made.data) {
	assert.equal(d.embedding.length, size);
	assert.ok(Math.abs(length(d.embedding) - 1) < 1e-6);
}
const spelt = await client.embeddings.create({ model: "m", input, encoding_format: "float" });
spelt.data.forEach((d, i) => d.embedding.forEach((x, k) => assert.ok(Math.abs(x - made.data[i].embedding[k]) < 1e-7)));
const short = await client.embeddings.create({ model: "m", input: input[0], dimensions: 8 });
assert.equal(short.data[0].embedding.length, 8);
assert.ok(Math.abs(length(short.data[0].embedding) - 1) < 1e-6);

await assert.rejects(client.embeddings.create({ model: "m", input: [1, 2, 3] }), (e) => e instanceof OpenAI.BadRequestError && e.param === "input");
await assert.rejects(client.embeddings.create({ model: "m", input: "a", dimensions: size + 1 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "dimensions");
console.log("all held");
