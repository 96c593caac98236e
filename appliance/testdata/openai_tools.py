# SPDX-License-Identifier: Apache-2.0
"""What the official Python client makes of strict tools. TestOpenAIClients runs it, on a model that calls lamp with bad arguments."""
import enum
import os
from typing import List, Literal, Optional

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=os.environ["BASE_URL"], api_key="none", max_retries=0, timeout=60)
question = [{"role": "user", "content": "On, please."}]


class Colour(str, enum.Enum):
    red = "red"
    green = "green"


class Step(BaseModel):
    to: Colour
    after: Optional[Literal["a second", "an hour"]]


class Lamp(BaseModel):
    """Switches a lamp."""
    on: bool
    room: Literal["hall", "attic"]
    first: Step
    then: Optional[Step] = None


tools = [openai.pydantic_function_tool(Lamp, name="lamp")]
assert tools[0]["function"]["strict"] is True, tools
loose = [{"type": "function", "function": {"name": "lamp", "parameters": tools[0]["function"]["parameters"]}}]
free = client.chat.completions.create(model="m", messages=question, tools=loose, temperature=0)
assert free.choices[0].message.tool_calls[0].function.arguments == '{"on":"perhaps"}', free

for more in ({}, {"tool_choice": "auto"}, {"parallel_tool_calls": False}, {"tool_choice": "required"}):
    made = client.chat.completions.parse(model="m", messages=question, tools=tools, temperature=0, max_tokens=600, **more)
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls" and len(choice.message.tool_calls) == 1, made
    assert isinstance(choice.message.tool_calls[0].function.parsed_arguments, Lamp), made
    said = "" if more.get("tool_choice") == "required" else "Sure." if "parallel_tool_calls" in more else "Sure.Done."
    assert (choice.message.content or "") == said, made

with client.chat.completions.stream(model="m", messages=question, tools=tools, temperature=0, max_tokens=600) as stream:
    last = stream.get_final_completion()
assert isinstance(last.choices[0].message.tool_calls[0].function.parsed_arguments, Lamp), last
assert last.choices[0].message.tool_calls[0].function.arguments == client.chat.completions.parse(
    model="m", messages=question, tools=tools, temperature=0, max_tokens=600).choices[0].message.tool_calls[0].function.arguments

call = last.choices[0].message.tool_calls[0]
again = client.chat.completions.create(model="m", temperature=0, tools=tools, messages=question + [
    {"role": "assistant", "content": "Sure.", "tool_calls": [{"id": call.id, "type": "function", "function": {"name": "lamp", "arguments": call.function.arguments}}]},
    {"role": "tool", "tool_call_id": call.id, "content": "It is on."}], max_tokens=1)
assert again.choices[0].finish_reason == "length", again

bad = {"type": "function", "function": {"name": "log", "strict": True, "parameters": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}}}}
try:
    client.chat.completions.create(model="m", messages=question, tools=[*tools, bad])
    raise AssertionError("not refused")
except openai.BadRequestError as err:
    assert err.code == "bad_request" and 'at /tools/1/properties/n: keyword "minimum" is not supported' in err.message, err
print("all held")
