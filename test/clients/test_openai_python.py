"""What the official Python client makes of our answers. Names are sentences about behaviour."""

import asyncio
import json
import time

import openai
import pytest

HI = [{"role": "user", "content": "hi"}]
GREETING = "Grüße from loopback 🌍."
# 1000 tokens in and 500 out at 1 and 4 USD a million.
COST_USD = 0.003
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "temperature",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]


def asking(content):
    return [{"role": "user", "content": content}]


def record_of(client, run_id):
    return client.get(f"/orchestra/runs/{run_id}", cast_to=object)


class TestAnswers:
    def test_a_whole_answer_has_text_cost_and_report(self, client):
        answer = client.chat.completions.create(model="orchestra", messages=HI)
        assert answer.choices[0].message.content == GREETING
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
        assert answer.usage.cost == pytest.approx(COST_USD, abs=1e-12)
        assert answer.x_orchestra["status"] == "completed"
        assert answer.x_orchestra["cost"]["total"] == pytest.approx(COST_USD, abs=1e-12)

    def test_preferences_travel_in_extra_body(self, client):
        answer = client.chat.completions.create(
            model="orchestra",
            messages=HI,
            extra_body={"preferences": {"tools": {"deny": ["slot:answer-1", "role:search"]}, "explain": "full"}},
        )
        assert answer.x_orchestra["turns"][0]["slot"] == "answer-2"
        assert [limit["limit"] for limit in answer.x_orchestra["limits_applied"]] == ["tools"]

    def test_preferences_travel_in_a_header_too(self, client):
        answer = client.chat.completions.create(
            model="orchestra",
            messages=HI,
            extra_headers={"x-orchestra-preferences": json.dumps({"optimize": "cheap"})},
        )
        assert answer.x_orchestra["preferences"]["optimize"] == "cheap"

    def test_a_profile_is_a_model_name(self, client):
        answer = client.chat.completions.create(model="orchestra:cheap", messages=HI)
        assert answer.model == "orchestra:cheap"
        assert answer.x_orchestra["preferences"]["optimize"] == "cheap"

    def test_raw_responses_show_run_cost_and_request_id(self, client):
        raw = client.chat.completions.with_raw_response.create(model="orchestra", messages=HI)
        assert raw.headers["x-orchestra-run-id"].startswith("run_")
        assert float(raw.headers["x-orchestra-cost-usd"]) == pytest.approx(COST_USD, abs=1e-12)
        assert raw.request_id.startswith("req_")
        assert raw.parse().choices[0].message.content == GREETING
        assert record_of(client, raw.headers["x-orchestra-run-id"])["status"] == "completed"

    def test_client_tools_go_there_and_back(self, client):
        asked = client.chat.completions.create(model="orchestra", messages=HI, tools=TOOLS)
        message = asked.choices[0].message
        assert asked.choices[0].finish_reason == "tool_calls"
        assert json.loads(message.tool_calls[0].function.arguments) == {"city": "Oslo"}
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "21 degrees"}
        answer = client.chat.completions.create(model="orchestra", messages=[*HI, message, result], tools=TOOLS)
        assert answer.choices[0].message.content == "The tool says 21 degrees."


@pytest.mark.parametrize("model", ["orchestra", "loopback/dear"])
class TestStreams:
    def test_raw_chunks_add_up_and_the_last_has_usage_and_report(self, client, model):
        chunks = list(
            client.chat.completions.create(
                model=model, messages=HI, stream=True, stream_options={"include_usage": True}
            )
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == GREETING
        assert len({chunk.id for chunk in chunks}) == 1
        assert chunks[-1].usage.cost == pytest.approx(COST_USD, abs=1e-12)
        assert chunks[-1].x_orchestra["status"] == "completed"
        assert [chunk for chunk in chunks[:-1] if chunk.usage] == []

    def test_the_stream_helper_accumulates_the_same(self, client, model):
        with client.chat.completions.stream(
            model=model, messages=HI, stream_options={"include_usage": True}
        ) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion()
        assert "".join(deltas) == final.choices[0].message.content == GREETING
        assert final.choices[0].finish_reason == "stop"
        assert final.usage.cost == pytest.approx(COST_USD, abs=1e-12)

    def test_the_stream_helper_accumulates_tool_calls(self, client, model):
        with client.chat.completions.stream(model=model, messages=HI, tools=TOOLS) as stream:
            final = stream.get_final_completion()
        (call,) = final.choices[0].message.tool_calls
        assert (call.id, call.function.name) == ("call_1", "temperature")
        assert json.loads(call.function.arguments) == {"city": "Oslo"}

    def test_leaving_in_the_middle_ends_the_run(self, client, model):
        with client.chat.completions.with_streaming_response.create(
            model=model, messages=asking("talk on"), stream=True
        ) as response:
            run_id = response.headers["x-orchestra-run-id"]
            stream = response.parse()
            for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            response.close()
        record = wait_for_record(client, run_id)
        assert record["status"] == "cancelled"
        assert 0 < record["cost"]["total"] < COST_USD

    def test_the_async_client_streams(self, gateway, model):
        async def read():
            async with openai.AsyncOpenAI(**gateway, max_retries=0) as client:
                stream = await client.chat.completions.create(model=model, messages=HI, stream=True)
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        assert asyncio.run(read()) == GREETING


def wait_for_record(client, run_id):
    """The record is written once the gateway has noticed; the limit only turns a hang into a failure."""
    stop_at = time.monotonic() + 10
    while True:
        try:
            return record_of(client, run_id)
        except openai.NotFoundError:
            if time.monotonic() > stop_at:
                raise
            time.sleep(0.02)


class TestRelays:
    def test_a_relayed_answer_has_our_cost_and_report(self, client):
        answer = client.chat.completions.create(model="loopback/dear", messages=HI)
        assert answer.choices[0].message.content == GREETING
        assert answer.usage.cost == pytest.approx(COST_USD, abs=1e-12)
        assert answer.x_orchestra["model"] == "loopback/dear"

    def test_embeddings_are_floats_although_the_client_asks_for_base64(self, client):
        found = client.embeddings.create(model="loopback/dear", input=["x", "yy"])
        assert [list(item.embedding) for item in found.data] == [[0, 1, 0.5], [1, 2, 0.5]]

    def test_models_are_listed_and_found(self, client):
        ids = [model.id for model in client.models.list()]
        assert {"orchestra", "orchestra:cheap", "loopback/dear"} <= set(ids)
        assert client.models.retrieve("loopback/dear").id == "loopback/dear"


class TestErrors:
    def failure(self, client, expected, model="orchestra", messages=HI, **request):
        with pytest.raises(expected) as caught:
            client.chat.completions.create(model=model, messages=messages, **request)
        return caught.value

    def test_a_misspelt_preference_is_a_bad_request_that_names_it(self, client):
        error = self.failure(client, openai.BadRequestError, extra_body={"preferences": {"max_cost": 1}})
        assert (error.status_code, error.param) == (400, "preferences.max_cost")
        assert "max_cost_usd" in error.message
        assert error.request_id.startswith("req_")

    def test_a_value_of_the_wrong_kind_is_a_bad_request_that_names_it(self, client):
        error = self.failure(client, openai.BadRequestError, temperature=9)
        assert error.param == "temperature"

    def test_a_wrong_key_is_an_authentication_error(self, client):
        error = self.failure(client.with_options(api_key="sk-wrong"), openai.AuthenticationError)
        assert error.code == "invalid_api_key"
        assert "sk-wrong" not in str(error)

    def test_an_unknown_model_is_not_found(self, client):
        error = self.failure(client, openai.NotFoundError, model="gpt-nothing")
        assert error.code == "model_not_found"

    def test_limits_that_nobody_can_keep_are_unprocessable(self, client):
        error = self.failure(
            client, openai.UnprocessableEntityError, extra_body={"preferences": {"max_cost_usd": 0.000000001}}
        )
        assert (error.code, error.param) == ("limits_unsatisfiable", "preferences.max_cost_usd")

    def test_a_busy_upstream_is_a_rate_limit_with_its_wait(self, client):
        error = self.failure(client, openai.RateLimitError, "loopback/dear", asking("be busy"))
        assert error.code == "rate_limit_exceeded"
        assert error.response.headers["retry-after"] == "7"

    def test_an_upstream_that_refuses_the_request_keeps_its_status_and_param(self, client):
        error = self.failure(client, openai.BadRequestError, "loopback/dear", asking("be picky"))
        assert error.param == "temperature"

    def test_a_broken_upstream_is_a_server_error_without_host_or_key(self, client):
        error = self.failure(client, openai.InternalServerError, "loopback/dear", asking("be broken"))
        assert error.status_code == 502
        assert "127.0.0.1" not in error.message and "sk-loopback" not in error.message
