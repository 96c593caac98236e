# SPDX-License-Identifier: Apache-2.0
"""What the official Python client makes of embeddings. TestOpenAIClients runs it, on a model that makes them."""
import math
import os

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0, timeout=60)
texts = ["pump 3 runs dry", "Who are you?", "größer als 世界"]

made = client.embeddings.create(model="m", input=texts)  # the client asks for base64
assert made.object == "list" and made.model == "m" and made.usage.total_tokens == made.usage.prompt_tokens > 0, made
assert [d.index for d in made.data] == [0, 1, 2] and all(d.object == "embedding" for d in made.data)
size = client.models.retrieve("m").embedding_dimensions
for d in made.data:
    assert len(d.embedding) == size and abs(math.sqrt(sum(x * x for x in d.embedding)) - 1) < 1e-6
assert made.data[0].embedding != made.data[1].embedding

spelt = client.embeddings.create(model="m", input=texts, encoding_format="float")
for a, b in zip(made.data, spelt.data):
    assert all(abs(x - y) < 1e-7 for x, y in zip(a.embedding, b.embedding))
assert client.embeddings.create(model="m", input=texts[0]).data[0].embedding == made.data[0].embedding

short = client.embeddings.create(model="m", input=texts[0], dimensions=8, user="me").data[0].embedding
length = math.sqrt(sum(x * x for x in made.data[0].embedding[:8]))
assert len(short) == 8 and all(abs(x - y / length) < 1e-6 for x, y in zip(short, made.data[0].embedding))

for wrong, param in (([1, 2, 3], "input"), ([[1], [2]], "input"), ("", "input"), ([], "input")):
    try:
        client.embeddings.create(model="m", input=wrong)
        raise AssertionError(wrong)
    except openai.BadRequestError as e:
        assert e.param == param and e.code == "bad_request", e
try:
    client.embeddings.create(model="m", input="a", dimensions=size + 1)
    raise AssertionError("dimensions")
except openai.BadRequestError as e:
    assert e.param == "dimensions" and str(size) in str(e), e
try:
    client.embeddings.create(model="another", input="a")
    raise AssertionError("another model")
except openai.NotFoundError as e:
    assert e.code == "model_not_found", e
print("all held")
