# SPDX-License-Identifier: Apache-2.0
"""What the official Python client sees of a box. TestOpenAIClients runs it."""
import base64
import os

import openai

answer = os.environ["ANSWER"]
client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0, timeout=60)
question = [{"role": "user", "content": "Who are you?"}]

models = client.models.list().data
assert [m.id for m in models] == ["m"], models
assert client.models.retrieve("m").id == "m"

chat = client.chat.completions.create(model="m", messages=question, max_tokens=32, temperature=0, seed=7, top_p=0.9)
assert chat.choices[0].message.content == answer and chat.choices[0].finish_reason == "stop", chat
assert chat.object == "chat.completion" and chat.model == "m" and chat.id.startswith("chatcmpl-"), chat
assert chat.usage.total_tokens == chat.usage.prompt_tokens + chat.usage.completion_tokens > 0, chat
again = client.chat.completions.create(model="default", messages=question, max_completion_tokens=32, temperature=0)
assert again.usage.prompt_tokens_details.cached_tokens > 0, again
assert again.choices[0].message.content == answer, again

cut = client.chat.completions.create(model="m", messages=question, max_tokens=4, temperature=0)
assert cut.choices[0].message.content == answer[:4] and cut.choices[0].finish_reason == "length", cut
stopped = client.chat.completions.create(model="m", messages=question, temperature=0, stop=["model"])
assert stopped.choices[0].message.content == answer.split("model")[0], stopped

text, usage, finish = "", None, None
for event in client.chat.completions.create(model="m", messages=question, temperature=0, stream=True, stream_options={"include_usage": True}):
    if event.choices:
        text += event.choices[0].delta.content or ""
        finish = event.choices[0].finish_reason or finish
    usage = event.usage or usage
assert text == answer and finish == "stop" and usage.completion_tokens > 0, (text, finish, usage)

with client.chat.completions.create(model="m", messages=question, stream=True) as stream:
    next(iter(stream))  # and goes: the box has to go on serving

with open(os.environ["PICTURE"], "rb") as f:
    url = "data:image/png;base64," + base64.b64encode(f.read()).decode()
seen = client.chat.completions.create(model="m", temperature=0, messages=[{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]}])
assert seen.choices[0].message.content == answer, seen

plain = client.completions.create(model="m", prompt="01", max_tokens=4, temperature=0)
assert plain.choices[0].text == "2345" and plain.object == "text_completion", plain
text = "".join(e.choices[0].text for e in client.completions.create(model="m", prompt="01", max_tokens=4, temperature=0, stream=True))
assert text == "2345", text


def refused(kind, code, call):
    try:
        call()
    except kind as err:
        assert err.code == code, (err.code, err.message)
        return
    raise AssertionError("not refused: " + code)


refused(openai.NotFoundError, "model_not_found", lambda: client.chat.completions.create(model="none", messages=question))
refused(openai.BadRequestError, "bad_request", lambda: client.chat.completions.create(model="m", messages=question, temperature=1000))
refused(openai.BadRequestError, "context_length_exceeded", lambda: client.chat.completions.create(model="m", messages=question, max_tokens=100000))
refused(openai.BadRequestError, "unsupported", lambda: client.chat.completions.create(model="m", messages=question, n=2))
refused(openai.BadRequestError, "unsupported", lambda: client.embeddings.create(model="m", input="text"))
refused(openai.BadRequestError, "bad_request", lambda: client.chat.completions.create(model="m", messages=[{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}}]}]))
print("all held")
